"""What a kernel is compiled with: the machine's C++ compiler, our headers and our runtime."""

import sys
from pathlib import Path

from onelayer.custom_op import cpp_compiler
from onelayer.custom_op.cpp_compiler import NoCompiler

INCLUDE = Path(__file__).parent / "include"


def compiler() -> tuple[str, ...]:
    """Return the machine's compiler. Raises NoCompiler where there is none, and on what is not
    Linux: the runtime reads ELF files."""
    if sys.platform != "linux":
        raise NoCompiler(
            f"CUDA on the CPU needs Linux, and this is {sys.platform}: use Colab or WSL."
        )
    return cpp_compiler.compiler()


def own_files() -> list[Path]:
    """Return the headers and the runtime that every build is made with."""
    here = Path(__file__).parent
    return sorted(p for room in ("include", "runtime") for p in (here / room).rglob("*.*"))
