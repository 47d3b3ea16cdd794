"""From a student's text to a library that can be loaded: rewritten, compiled, linked, kept."""

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from onelayer.cuda_cpu.cuda_source import rewrite
from onelayer.cuda_cpu.diagnostics import students_errors
from onelayer.cuda_cpu.modes import Mode, compiler
from onelayer.cuda_cpu.text import Text
from onelayer.custom_op.build_cache import cached, digest
from onelayer.custom_op.cpp_compiler import CompileError, identity, run
from onelayer.drawing.words import say


def library(text: Text, mode: Mode) -> Path:
    """Return the shared library of a `.cu` text. Raises CompileError, NoCompiler."""
    plain = rewrite(text.code, text.name, sections=mode.sanitize != "address").text
    flags = mode.student_flags()
    parts: list[str | bytes] = [_house(), plain, *_included(text), *flags, repr(mode)]
    return cached(parts, ".so", lambda path: _build(plain, text, mode, path))


def _build(plain: str, text: Text, mode: Mode, path: Path) -> None:
    with ThreadPoolExecutor(1) as other, tempfile.TemporaryDirectory() as room:
        runtime = other.submit(_runtime, mode)  # the first time both compile, side by side
        written, made = Path(room) / text.name, Path(room) / "student.o"
        written.write_text(plain)
        beside = [f"-I{text.folder}"] if text.folder else []
        flags = [*mode.student_flags(), *beside]
        _must([*compiler(), *flags, "-c", str(written), "-o", str(made)], text)
        link = ["-shared", "-Wl,-Bsymbolic", str(made), str(runtime.result()), "-o", str(path)]
        sanitize = [f"-fsanitize={mode.sanitize}"] if mode.sanitize else []
        _must([*compiler(), *sanitize, *link, "-lm", "-lpthread"], text)


def _must(command: list[str], text: Text) -> None:
    done = run(command)
    if done.returncode:
        raise CompileError(students_errors(done.stderr, text.code, text.name))


def _runtime(mode: Mode) -> Path:
    """The runtime's object file, the same for every student's text."""
    parts = [_house(), "runtime", *mode.runtime_flags()]
    return cached(parts, ".o", lambda path: _build_runtime(mode, path))


def _build_runtime(mode: Mode, path: Path) -> None:
    source = Path(__file__).parent / "runtime" / "runtime.cpp"
    done = run([*compiler(), *mode.runtime_flags(), "-c", source, "-o", path])
    if done.returncode:
        told = say("this compiler cannot build the runtime:")
        raise RuntimeError(f"{told}\n{done.stderr[-2000:]}")


@cache
def _house() -> str:
    """A hash of the compiler and of every file of ours that goes into a build."""
    here = Path(__file__).parent
    own = sorted(p for room in ("include", "runtime") for p in (here / room).rglob("*.*"))
    return digest([identity(), *(p.read_bytes() for p in own)])


def _included(text: Text) -> list[bytes]:
    """The contents of the files beside it that the text includes by "name"."""
    if text.folder is None:
        return []
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text.code, re.MULTILINE)
    return [p.read_bytes() for n in names if (p := text.folder / n).is_file()]
