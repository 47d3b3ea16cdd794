"""Kernels that Triton compiled and launches itself: nobody computes them, so what they were given
is marked, inputs too, for nothing says which of them a kernel writes."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from onelayer.mock_cuda.environment import VALUES


def mark_what_triton_launches(module: ModuleType) -> None:
    """From here on, in this process, a launch by `triton.runtime.jit` or by Inductor's launcher
    marks its tensors. Triton's interpreter is not concerned: it computes."""
    if os.environ[VALUES] != "1":
        return
    kind: Any = getattr(module, "JITFunction", None) or vars(module)["CachingAutotuner"]
    run = kind.run

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        if not kwargs.get("warmup"):
            _mark((*args, *kwargs.values()), getattr(self.fn, "__name__", "a kernel of Triton"))
        return result

    kind.run = marked


def _mark(given: tuple[Any, ...], kernel: str) -> None:
    from torch import Tensor

    from onelayer.mock_cuda.aliases import mark

    for value in given:
        if isinstance(value, Tensor):
            mark(value, kernel)
