"""The same file through nvcc: compiled for a GPU, whether there is one or not."""

import os
import shutil
from functools import cache
from pathlib import Path

from onelayer.cuda_cpu.diagnostics import students_errors
from onelayer.cuda_cpu.text import Text
from onelayer.custom_op.build_cache import cached
from onelayer.custom_op.cpp_compiler import CompileError, NoCompiler, run
from onelayer.drawing.words import say

TARGETS = ("sm_75", "sm_80", "sm_90")


@cache
def nvcc() -> str:
    """Return the path of nvcc: under `CUDA_HOME`, on the PATH, or in /usr/local/cuda.

    Raises NoCompiler where there is none.
    """
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    wishes = [f"{home}/bin/nvcc" for home in homes if home]
    for wish in (wishes[0], "nvcc", wishes[-1]):
        if found := shutil.which(wish):
            return found
    raise NoCompiler(say("nvcc is not on this machine: it comes with NVIDIA's CUDA toolkit."))


def cubin(text: Text, target: str) -> bytes:
    """Return the machine code for one of `TARGETS`. Raises CompileError, NoCompiler."""
    return _made(text, ".cubin", ("-cubin", f"-arch={target}")).read_bytes()


def library(text: Text, target: str) -> Path:
    """Return a shared library whose host functions launch on a GPU of that target."""
    return _made(text, ".so", ("-shared", "-Xcompiler=-fPIC", f"-arch={target}"))


def _made(text: Text, suffix: str, flags: tuple[str, ...]) -> Path:
    parts = [nvcc(), _version(), text.name, text.code, *flags]
    return cached(parts, suffix, lambda path: _compile(text, flags, path))


@cache
def _version() -> str:
    return run([nvcc(), "--version"]).stdout


def _compile(text: Text, flags: tuple[str, ...], path: Path) -> None:
    written = path.parent / text.name  # `path` lies in a folder of this build alone
    written.write_text(f'#line 1 "{text.name}"\n{text.code}')
    beside = [f"-I{text.folder}"] if text.folder else []
    room = ["-o", str(path), str(written)]
    command = [nvcc(), "-std=c++17", "-O2", "-lineinfo", *flags, *beside, *room]
    done = run(command)
    if done.returncode:
        raise CompileError(students_errors(done.stderr + done.stdout, text.code, text.name))
