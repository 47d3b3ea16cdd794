"""A function for every function of CUDA's libraries that is not mocked: it names itself and fails.

Torch's libraries are bound to these names when they are loaded. Without a stub a name would lead to
NVIDIA's own library, which finds no driver and says something that helps nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from onelayer.custom_op.cpp_compiler import run

LIBRARIES = (
    "libcudart.so.*",
    "libcublas.so.*",
    "libcublasLt.so.*",
    "libcupti.so.*",
    "libcudnn.so.*",
    "libcusparse.so.*",
    "libcusolver.so.*",
    "libcufft.so.*",
    "libcurand.so.*",
    "libnccl.so.*",
)
PREFIX = re.compile(
    r"(__cuda|cuda|cu[A-Z]|cublas|cupti|cudnn|cusparse|cusolver|cufft|curand|nccl)\w*$"
)
TRUE_WITHOUT_A_GPU = {
    "cudaGetErrorString",
    "cudaGetErrorName",
    "cudnnGetVersion",
    "cudnnGetCudartVersion",
    "cudnnGetErrorString",
    "ncclGetVersion",
    "ncclGetErrorString",
}
"""What NVIDIA's own library answers as well as anybody could."""
_DRIVER = re.compile(r"^CUresult CUDAAPI (cu\w+)\(", re.MULTILINE)
_RENAMED = re.compile(r"^ *#define (cu\w+) +(?:__CUDA_API_\w+\()?(cu\w+)\)?", re.MULTILINE)


def assembly(names: Iterable[str]) -> str:
    """The stubs of these functions, in the assembler of x86_64. All are weak: a definition of the
    same name in another file takes its place."""
    return "\n".join([".text", *(_stub(name) for name in sorted(names)), _NO_STACK, ""])


_NO_STACK = '.section .note.GNU-stack,"",@progbits'


def _stub(name: str) -> str:
    return (
        f".weak {name}\n.type {name},@function\n{name}:\n"
        f"lea 1f(%rip), %rdi\njmp onelayer_mock_unmocked@PLT\n"
        f'.section .rodata\n1: .asciz "{name}"\n.text'
    )


def unmocked_names(packages: Path, cuda_header: Path) -> set[str]:
    """Every function of the libraries under `packages`, the wheels of NVIDIA, and of the driver,
    whose library no wheel brings: its names are those of its header."""
    found = {name for library in _libraries(packages) for name in _exported(library)}
    return (found | _driver_names(cuda_header.read_text())) - TRUE_WITHOUT_A_GPU


def _libraries(packages: Path) -> Iterator[Path]:
    for pattern in LIBRARIES:
        yield from packages.glob(f"*/lib/{pattern}")


def _exported(library: Path) -> Iterator[str]:
    said = run(["nm", "-D", "--defined-only", library]).stdout
    for line in said.splitlines():
        *_, kind, name = line.split()
        name = name.partition("@")[0]
        if kind in "TWi" and PREFIX.match(name):
            yield name


def _driver_names(header: str) -> set[str]:
    names = set(_DRIVER.findall(header))
    return names | {new for _, new in _RENAMED.findall(header)}
