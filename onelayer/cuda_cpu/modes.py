"""How a text is compiled: what is watched, by whom, and the flags that this takes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onelayer.custom_op import cpp_compiler
from onelayer.custom_op.cpp_compiler import NoCompiler, identity
from onelayer.drawing.words import say

INCLUDE = Path(__file__).parent / "include"
Sanitizer = Literal["address", "thread"]
Fibers = Literal["portable", "threads"]

COMMON = ("-std=c++17", "-fPIC", f"-I{INCLUDE}")
RUNTIME = ("-O2", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti")
# -fsanitize=return: a function that ends without its value calls the runtime (undefined.h).
STUDENT = ("-x", "c++", "-w", "-g1", "-fsanitize=return")
# A call before each load and store, as the race detector has it, but to our own runtime.
CHECKED = (
    *("-fsanitize=thread", "-fsanitize=bounds,integer-divide-by-zero"),
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),
)
# -fno-gnu-unique: or the variables of two libraries with a kernel of one name become one variable.
# -fstack-clash-protection: a kernel that overflows its stack meets the guard, not a neighbour.
OF_GNU, OF_CLANG = ("-fno-gnu-unique", "-fstack-clash-protection"), ("-fstack-clash-protection",)
# -Og leaves the loads and stores as they were written; clang's own -Og moves them.
CHECKED_BY_GNU = ("-Og", "--param", "tsan-distinguish-volatile=1")
CHECKED_BY_CLANG = ("-O0", "-mllvm", "-tsan-distinguish-volatile=1")


def compiler() -> tuple[str, ...]:
    """Return the machine's compiler. Raises NoCompiler where there is none, and on what is not
    Linux: the runtime reads ELF files."""
    if sys.platform != "linux":
        raise NoCompiler(
            say(
                "CUDA on the CPU needs Linux, and this is {platform}: use Colab or WSL.",
                platform=sys.platform,
            )
        )
    return cpp_compiler.compiler()


@dataclass(frozen=True)
class Mode:
    """How a text is compiled: see `cuda_cpu.build`."""

    check: bool = True
    sanitize: Sanitizer | None = None
    fibers: Fibers | None = None

    @property
    def threads(self) -> bool:
        """Whether a CUDA thread is a thread of the operating system."""
        return self.fibers == "threads" or self.sanitize == "thread"

    @property
    def watched(self) -> bool:
        """Whether our own runtime sees every load and store."""
        return self.check and self.sanitize is None and not self.threads

    def defines(self) -> list[str]:
        """Return what the runtime and the header are told."""
        names = {
            "CHECK": self.watched,
            "THREADS": self.threads,
            "PORTABLE": self.fibers == "portable",
            "ADDRESS_SANITIZER": self.sanitize == "address",
            "THREAD_SANITIZER": self.sanitize == "thread",
        }
        return [f"-DONELAYER_{name}" for name, wanted in names.items() if wanted]

    def student_flags(self) -> list[str]:
        """Return the flags of the student's own file."""
        clang = "clang" in identity()
        flags = [*COMMON, *STUDENT, *(OF_CLANG if clang else OF_GNU), *self.defines()]
        if self.watched:
            return [*flags, *CHECKED, *(CHECKED_BY_CLANG if clang else CHECKED_BY_GNU)]
        if self.sanitize:
            return [*flags, "-Og", "-g", "-fno-omit-frame-pointer", f"-fsanitize={self.sanitize}"]
        return [*flags, "-O2"]

    def runtime_flags(self) -> list[str]:
        """Return the flags of the runtime, which no sanitizer looks at."""
        return [*COMMON, *RUNTIME, *self.defines()]
