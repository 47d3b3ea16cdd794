"""The C++ compiler of this machine, a run of it, and what it says, in the source's own lines."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from onelayer.drawing.words import say

_LIMIT = 3  # errors that a person would look at: the rest mostly follow from the first
_PLACE = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s+(?P<text>.*)$")
_LINKER = re.compile(r"undefined reference to .*|undefined symbol.*|multiple definition of [^;]*")


_OWN_COPY = ["-Wl,--exclude-libs,libstdc++.a"] if sys.platform == "linux" else []
"""A compiler may link its standard library into each file. Mixed with the copy that torch loaded, a
number written to a stream vanished on one machine and ended the process on another; so it is kept
whole, to itself."""


class CompileError(RuntimeError):
    """A source does not compile. The message names lines of the source, and of nothing else."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, and no lines of ours."""
        return [f"CompileError: {self}"]


class NoCompiler(RuntimeError):
    """A compiler is not on this machine; the message says which, and how to get it."""


@cache
def compiler() -> tuple[str, ...]:
    """The command $CXX, which may be `ccache g++`, or g++, c++ or clang++. Raises NoCompiler
    where there is none."""
    for words in (shlex.split(os.environ.get("CXX", "")), ["g++"], ["c++"], ["clang++"]):
        if words and (path := shutil.which(words[0])):
            return (path, *words[1:])
    raise NoCompiler(
        say(
            "This needs a C++ compiler: install g++ (Debian, Ubuntu: apt install g++; macOS: "
            "xcode-select --install; conda: conda install cxx-compiler)."
        )
    )


@cache
def identity() -> str:
    """What the compiler says of itself, and how it is called: another compiler, another build."""
    return " ".join([*compiler(), *_OWN_COPY]) + run([*compiler(), "--version"]).stdout


def compile_shared(source: str, out: Path, *, name: str, flags: Sequence[str]) -> None:
    """Writes the shared library `out`. `name` is what the source's file is called in messages.

    Raises CompileError with what is wrong, and nothing is written.
    """
    (out.parent / name).write_text(source, encoding="utf-8")
    common = ["-shared", "-fPIC", "-fdiagnostics-color=never", *_OWN_COPY]
    wanted = [*compiler(), *common, name, *flags, "-o", str(out)]
    done = run(wanted, cwd=out.parent)
    if done.returncode:
        raise CompileError(own_lines(done.stderr, name, source))


def preprocessed_lines(source: str, flags: Sequence[str]) -> int:
    """The lines that are neither empty nor comments once every header has been put in its place."""
    done = run([*compiler(), *flags, "-E", "-x", "c++", "-"], given=source)
    if done.returncode:
        raise CompileError(own_lines(done.stderr, "<stdin>", source))
    return sum(bool(line.strip()) and line[0] != "#" for line in done.stdout.splitlines())


def run(
    command: Sequence[str | Path], *, cwd: Path | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """What a command said and how it ended, in plain English; `given` is its standard input."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
    )


def own_lines(said: str, name: str, source: str) -> str:
    """What a compiler said, as lines of `name` with the line of `source` under each.

    An error inside a header is told at the line of the source that led there.
    """
    first: dict[int, str] = {}
    for text, line in _errors(said, name):
        where = f"{name}:{line}" if line else name
        first.setdefault(line, f"{where}: {text}{_quoted(source, line)}")
    told = list(first.values())
    if not told:
        told = list(dict.fromkeys(_LINKER.findall(said))) or said.strip().splitlines()[-1:]
    lines = [say("{name} does not compile.", name=name), *told[:_LIMIT]]
    if (more := len(told) - _LIMIT) > 0:
        lines.append(say("and {n} more", n=more))
    return "\n".join(lines)


def _errors(said: str, name: str) -> list[tuple[str, int]]:
    """(text, line of the reader's source or 0) of each error."""
    found: list[tuple[str, int]] = []
    led = 0  # the latest line of the source that was spoken of
    for line in said.splitlines():
        place = _PLACE.match(line)
        if own := re.search(rf"(?:^|\s){re.escape(name)}:(\d+)[:,]", line):
            led = int(own[1])
            if found and "note: in instantiation" in line:  # clang tells afterwards who asked
                found[-1] = (found[-1][0], led)
        if place and (error := re.match(r"(?:fatal )?error: (.*)", place["text"])):
            found.append((error[1], led))
    return found


def _quoted(source: str, line: int) -> str:
    lines = source.splitlines()
    return f"\n{line:5} | {lines[line - 1]}" if 0 < line <= len(lines) else ""
