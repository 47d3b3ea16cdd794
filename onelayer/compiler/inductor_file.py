"""What Inductor wrote: the kernels of a generated file, what each reads and writes, in bytes.

Inductor writes one Python file for each graph. It holds the source of its kernels, C++ for a CPU
and Triton for a GPU, and a function `call` that allocates buffers and calls kernels one by one.
`inductor_reader` reads that file, and nothing else; here is what it finds.
"""

from dataclasses import dataclass, field
from math import prod

from onelayer.drawing.words import counted, say

ITEM_BYTES = {
    "float64": 8,
    "int64": 8,
    "complex64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "uint8": 1,
    "int8": 1,
    "bool": 1,
}


@dataclass(frozen=True)
class Buffer:
    """A tensor of the file. storage: the buffer whose memory it lies in, its own name if it is not
    a view or a reuse; nbytes: of its elements."""

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    storage: str

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Loop:
    """One loop nest of a kernel: the buffers that it reads and writes, and how many bytes."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class Kernel:
    """One call of a kernel.

    language: "C++", "Triton", or "library" for an operator that torch already has. reads: buffers
    whose contents it is given, writes: buffers that it fills. loops: the loop nests of a generated
    kernel, one after the other, each with its own traffic; none for a library's. nodes: the nodes
    of the graph that it computes, where torch says so.
    """

    name: str
    language: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    loops: tuple[Loop, ...] = ()
    nodes: tuple[str, ...] = ()
    source: str = field(default="", repr=False)

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class InductorFile:
    """A generated file: its inputs, the buffers it allocates, the kernels it calls in order.

    returns: the buffers that it gives back, in order; what is no tensor is left out.
    """

    inputs: tuple[Buffer, ...]
    allocated: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    returns: tuple[str, ...]
    source: str = field(repr=False)

    @property
    def bytes_read(self) -> int:
        return sum(kernel.bytes_read for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        return sum(kernel.bytes_written for kernel in self.kernels)

    @property
    def bytes_allocated(self) -> int:
        return sum(buffer.nbytes for buffer in self.allocated)

    def __str__(self) -> str:
        called = counted(len(self.kernels), "{n} kernel", "{n} kernels")
        head = say("{kernels}, {n:,} bytes allocated", kernels=called, n=self.bytes_allocated)
        wide = max(7, *(len(say(kernel.language)) for kernel in self.kernels), 0)
        lines = [head]
        for kernel in self.kernels:
            told = say(
                "reads {read:>12,}  writes {written:>12,}",
                read=kernel.bytes_read,
                written=kernel.bytes_written,
            )
            lines.append(f"  {told}  {say(kernel.language):<{wide}} {kernel.name}")
        return "\n".join(lines)
