"""What happens when a file that Inductor wrote is run.

Its Python runs with recorders where its kernels would be, so what is launched, allocated and moved
is seen, and not read from the text that a student is to read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor


@dataclass
class Ran:
    """What one run of a file did. kernels: names in order. allocated: bytes of each new buffer.
    moved_bytes: of all tensors that kernels and products were handed, to read or to write."""

    kernels: list[str] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)
    moved_bytes: int = 0


def ran(text: str, inputs: Sequence[Tensor]) -> Ran:
    """What a file of `onelayer.compiler.unbuilt` does when it is called with these inputs."""
    from torch._inductor.async_compile import AsyncCompile

    seen = Ran()
    page: dict[str, Any] = {"__name__": "inductor_file"}

    def kernel(self: Any, argument_types: Any, source: str, *rest: Any) -> _Kernel:
        return _Kernel(source, seen)

    with patch.object(AsyncCompile, "cpp_pybinding", kernel):
        exec(compile(text, "<inductor>", "exec"), page)
    for name, value in page.items():
        if isinstance(value, _Kernel):
            value.name = name
    page["extern_kernels"] = _Extern(page["extern_kernels"], seen)
    page["empty_strided_cpu"] = _allocator(page["empty_strided_cpu"], seen)
    with torch.no_grad():
        page["call"](list(inputs))
    return seen


class _Kernel:
    """In place of a C++ kernel: notes that it was launched, and what it was handed."""

    def __init__(self, source: str, seen: Ran) -> None:
        self.name, self.seen = "", seen
        (parameters,) = re.findall(r"void\s+kernel\((.*?)\)", source, re.DOTALL)
        self.both = ["in_out_ptr" in parameter for parameter in parameters.split(",")]

    def __call__(self, *arguments: Any) -> None:
        self.seen.kernels.append(self.name)
        for argument, both in zip(arguments, self.both, strict=True):
            if isinstance(argument, Tensor):
                self.seen.moved_bytes += argument.nbytes * (1 + both)


class _Extern:
    """In place of `extern_kernels`: notes the call, then makes it."""

    def __init__(self, real: Any, seen: Ran) -> None:
        self.real, self.seen = real, seen

    def __getattr__(self, name: str) -> Any:
        real, seen = getattr(self.real, name), self.seen

        def call(*arguments: Any, **keywords: Any) -> Any:
            seen.kernels.append(f"extern_kernels.{name}")
            tensors = [t for t in (*arguments, *keywords.values()) if isinstance(t, Tensor)]
            seen.moved_bytes += sum(t.nbytes for t in tensors)
            return real(*arguments, **keywords)

        return call


def _allocator(real: Any, seen: Ran) -> Any:
    def allocate(size: Any, stride: Any, dtype: torch.dtype) -> Tensor:
        made: Tensor = real(size, stride, dtype)
        seen.allocated.append(made.untyped_storage().nbytes())
        return made

    return allocate
