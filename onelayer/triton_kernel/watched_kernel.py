"""`@kernel`: a Triton kernel for a page, to be run and watched, or compiled and read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from triton.runtime.jit import JITFunction

from onelayer.kernels.triton_jit import Interpreted
from onelayer.triton_kernel.accesses import Accesses, watch
from onelayer.triton_kernel.compiled import Compiled, compiled


class WatchedKernel:
    """What `@kernel` makes. `kernel[grid](...)` runs it in the interpreter, on every machine, and
    returns its Accesses; `kernel.compiled(...)` asks Triton's compiler; `kernel.jit` is Triton's
    own object, which a GPU can run."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Accesses]:
        def run(*args: Any, **constants: Any) -> Accesses:
            with watch() as accesses:
                self._interpreted[grid](*args, **constants)
            return accesses

        return run

    def compiled(self, capability: int, **arguments: Any) -> Compiled:
        """For a GPU of that compute capability; see `compiled.compiled`."""
        return compiled(self.jit, capability, **arguments)

    @cached_property
    def jit(self) -> Any:
        return JITFunction(self.function)

    @cached_property
    def _interpreted(self) -> Any:
        return Interpreted(self.function)


def kernel(function: Callable[..., Any]) -> WatchedKernel:
    """`function`, a Triton kernel's, to be looked into. It calls no other kernel of the page."""
    return WatchedKernel(function)
