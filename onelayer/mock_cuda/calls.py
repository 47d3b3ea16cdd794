"""What a process asked of the mocked device, read from the file that the library wrote."""

from __future__ import annotations

import ctypes
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

KINDS = {
    "k": "kernel",
    "c": "copy",
    "m": "memset",
    "s": "wait",
    "a": "memory",
    "e": "event",
    "g": "graph",
    "n": "collective",
    "x": "not mocked",
}
TO_HOST = "copy to the host"
"""What such a copy is called in the place of a kernel."""
Dim = tuple[int, int, int]
_OURS = str(Path(__file__).with_name("recording.py"))


@dataclass(frozen=True)
class Line:
    """A line of Python: where it stands, and in which function."""

    file: str
    function: str
    number: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number}"


@dataclass(frozen=True)
class Call:
    """A call of CUDA's API, and the work that it gave to a stream.

    Times are microseconds since the first call of the process: `start_us` and `end_us` of the host,
    `begin_us` and `finish_us` of the stream, on the modelled clock (None without work). `line` is
    the Python that caused it: of the lines that led here the innermost that is neither torch's nor
    the standard library's. `stack` has them all, innermost first.
    """

    api: str
    kind: str
    kernel: str
    device: int
    stream: int
    grid: Dim
    block: Dim
    shared_bytes: int
    bytes: int
    start_us: float
    end_us: float
    begin_us: float | None
    finish_us: float | None
    line: Line | None
    stack: tuple[Line, ...]
    process: int

    @property
    def took_us(self) -> float:
        """On the stream where it has work there, on the host otherwise."""
        if self.begin_us is None or self.finish_us is None:
            return self.end_us - self.start_us
        return self.finish_us - self.begin_us

    @property
    def waited_us(self) -> float:
        """How long the host stood in this call."""
        return self.end_us - self.start_us


def read_calls(folder: Path) -> list[Call]:
    """The calls of every process that wrote into the folder, in the order in which they began."""
    found = [(file, list(_lines(file))) for file in sorted(folder.glob("calls-*.tsv"))]
    starts = [int(f[10]) for _, lines in found for f in lines if f[0] == "C"]
    first = min(starts, default=0)
    calls = [call for file, lines in found for call in _calls(file, lines, first)]
    return sorted(calls, key=lambda call: call.start_us)


def _lines(file: Path) -> Iterator[list[str]]:
    """The fields of each whole line; a process that was killed may have left half of one."""
    for line in file.read_text(errors="replace").splitlines(keepends=True):
        fields = line.rstrip("\n").split("\t", 2 if line[:1] in "NS" else -1)
        if line.endswith("\n") and (fields[0] != "C" or len(fields) == 15):
            yield fields


def _calls(file: Path, lines: Iterable[list[str]], first: int) -> Iterator[Call]:
    names: dict[str, str] = {}
    stacks: dict[str, tuple[Line, ...]] = {}
    waiting: tuple[Line, ...] = ()  # the lines that stand in backward()
    process = int(file.stem.partition("-")[2])
    for fields in lines:
        if fields[0] == "N":
            names[fields[1]] = fields[2]
        elif fields[0] == "S":
            stacks[fields[1]] = tuple(_stack(fields[2]))
        elif fields[0] == "H":
            waiting = stacks[fields[1]]
        elif not any(line.file == _OURS for line in stacks.get(fields[-1], ())):
            yield _call(fields, names, (stacks.get(fields[-1], ()), waiting), first, process)


def _call(
    fields: list[str],
    names: dict[str, str],
    found: tuple[tuple[Line, ...], tuple[Line, ...]],
    first: int,
    process: int,
) -> Call:
    _, kind, api, kernel, device, stream, grid, block, shared, nbytes, *times, _ = fields
    start, end, begin, finish = map(int, times)
    own, waiting = found
    line = causing(own) or causing(waiting)
    lines = own if line in own else waiting

    def since(at: int) -> float:
        return (at - first) / 1e3

    return Call(
        names[api],
        KINDS[kind],
        demangled(names[kernel]),
        int(device),
        int(stream),
        _dim(grid),
        _dim(block),
        int(shared),
        int(nbytes),
        since(start),
        since(end),
        since(begin) if begin else None,
        since(finish) if begin else None,
        line,
        lines,
        process,
    )


def _dim(text: str) -> Dim:
    x, y, z = map(int, text.split(","))
    return x, y, z


def _stack(text: str) -> Iterator[Line]:
    for place in text.split("|"):
        file, function, number = place.split("\t")
        yield Line(file, function, int(number))


def causing(lines: Iterable[Line]) -> Line | None:
    """The innermost line that is neither torch's, nor the standard library's, nor ours."""
    return next((line for line in lines if not _is_machinery(line.file)), None)


@cache
def _is_machinery(file: str) -> bool:
    return file.startswith(("<frozen", "<string>", "<shim>", *_machinery()))


@cache
def _machinery() -> tuple[str, ...]:
    """The folders of torch, of the standard library and of this package."""
    specs = [find_spec(name) for name in ("torch", "triton", "cloudpickle")]
    installed = [str(Path(spec.origin).parent) for spec in specs if spec and spec.origin]
    standard = sysconfig.get_paths()["stdlib"]
    own = ("json", "multiprocessing", "threading.py", "contextlib.py", "runpy.py")
    return (*installed, *(f"{standard}/{name}" for name in own), str(Path(__file__).parent))


@cache
def demangled(name: str) -> str:
    """A kernel's name as its source has it; a name that is not C++ stays as it is."""
    if not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    raw = _demangle()(name.encode(), None, None, ctypes.byref(status))
    return name if status.value else ctypes.string_at(raw).decode()


@cache
def _demangle() -> Callable[..., int]:
    function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    function.restype = ctypes.c_void_p
    found: Callable[..., int] = function
    return found


_WHICH = re.compile(r"(\w*(?:Functor|_kernel_cuda|_kernel_impl|Ops?)\w*)")


def short_kernel(name: str) -> str:
    """A kernel's name without namespaces and parameters; of its template arguments the one that
    says what it does."""
    plain, depth = [], 0
    for c in name.removeprefix("void ").replace("(anonymous namespace)::", ""):
        if c == "(" and depth == 0:
            break
        depth += (c == "<") - (c == ">")
        if depth == 0 and c != ">":
            plain.append(c)
    short = "".join(plain).split("::")[-1] or name
    which = _WHICH.search(name.partition("<")[2]) if "kernel" in short else None
    return f"{which[1]} ({short})" if which else short
