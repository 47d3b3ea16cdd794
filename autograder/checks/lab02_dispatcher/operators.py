"""Operators by their names: those that a mode sees, and torch's own object of each."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .keys import Names


class Record(TorchDispatchMode):
    """Names of the operators that came by."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: Names = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def overload_of(op: str) -> Any:
    """torch's object of an operator such as "aten::add.Tensor"; without a dot the default one."""
    name, _, overload = op.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")
