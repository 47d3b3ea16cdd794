"""Operators by their names: those that a mode sees, and torch's own object of each. And what a
student's mode leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
)

from autograder.judge import Wrong, text

from .keys import Names

CAME_BACK = (
    "The method came back to itself without an end. Inside it the mode is switched off: call func "
    "as it is, and enter no mode there."
)


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


@contextmanager
def no_mode_left() -> Iterator[None]:
    """A mode that enters itself in its own method is not left at the end of Python's stack, and one
    that was entered without `with` is not left at all. Whoever runs next would run it, we too."""
    try:
        yield
        if _get_current_dispatch_mode_stack():
            raise Wrong(
                expected="no mode after the call",
                got="one that is still active",
                why="A mode is still active when your function has returned, and sees what comes "
                "next. `with` leaves a mode that it has entered.",
            )
    except RecursionError:
        raise Wrong(expected=text("no_error"), got="RecursionError", why=CAME_BACK) from None
    finally:
        while _get_current_dispatch_mode_stack():
            _pop_mode()
