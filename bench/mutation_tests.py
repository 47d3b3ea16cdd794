"""pytest, in a forked process, over one module whose text stands in for its file's.

Unchanged, the tests tell which functions of the module each of them reaches and how long it takes.
A mutant is then shown only to the tests that reach its function, the quickest first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from inspect import iscode
from pathlib import Path
from threading import Timer
from typing import Any

OURS = {"autograder", "onelayer", "bench", "tests"}
QUIET = ["-q", "-x", "-p", "no:cacheprovider"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # it was loaded before the fork


class Unreached(RuntimeError):
    """No test that is asked runs a line of the module."""


@dataclass(frozen=True)
class Reach:
    """Of one test, unchanged: seconds, and the functions of the module that it calls."""

    test: str
    seconds: float
    functions: frozenset[str]


def reach(name: str, module: Path, tests: Sequence[str]) -> list[Reach]:
    """What each test reaches of module `name`, the quickest first. Raises RuntimeError where the
    tests fail as they are, and Unreached where they reach no function of it: then nothing would be
    known of any mutant. What has none runs at the import."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "reach.json")
        code = _forked(name, module.read_text("utf-8"), tests, _Watch(module, told), 1200.0)
        if code or not told.exists():
            raise RuntimeError(f"the tests of {name} fail unchanged (exit code {code})")
        read = json.loads(told.read_text("utf-8"))
    found = [Reach(test, seconds, frozenset(names)) for test, seconds, names in read]
    functions = compile(module.read_text("utf-8"), module, "exec").co_consts
    if any(map(iscode, functions)) and not any(one.functions for one in found):
        raise Unreached(f"no test of {name} reaches it: {' '.join(tests)}")
    return sorted(found, key=lambda one: one.seconds)


def is_noticed(name: str, source: str, reached: Sequence[Reach]) -> bool:
    """Whether one of these tests fails where module `name` is `source`, or does not end in ten
    times its time."""
    patience_s = 20 + 10 * sum(one.seconds for one in reached)
    order = _Order([one.test for one in reached])
    files = sorted({one.test.partition("::")[0] for one in reached})
    return _forked(name, source, files, order, patience_s) != 0


def _forked(name: str, source: str, tests: Sequence[str], plugin: object, patience_s: float) -> int:
    """pytest's exit code, from a process that is ended after `patience_s`."""
    child = os.fork()
    if child == 0:
        _run(name, source, tests, plugin)
    with _ended_after(child, patience_s):
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run(name: str, source: str, tests: Sequence[str], plugin: object) -> None:
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        _stand_in(name, source)
        import pytest

        code = int(pytest.main([*QUIET, *tests], plugins=[plugin]))
    finally:
        os._exit(code)


def _stand_in(name: str, source: str) -> None:
    """From now on an import of `name` compiles `source`."""
    compiled = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> object:
        if fullname != name:
            return compiled(self, fullname)
        return compile(source, self.path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for loaded in [key for key in sys.modules if key.partition(".")[0] in OURS]:
        del sys.modules[loaded]


@contextlib.contextmanager
def _ended_after(child: int, seconds: float) -> Iterator[None]:
    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)

    timer = Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Watch:
    """A plugin that writes down what each test calls of one file, and how long it takes."""

    def __init__(self, module: Path, out: Path) -> None:
        self.file, self.out = str(module), out
        self.told: list[tuple[str, float, list[str]]] = []

    def _note(self, frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == self.file:
            self.called.add(frame.f_code.co_qualname)

    def pytest_runtest_protocol(self, item: Any, nextitem: object) -> None:
        self.called: set[str] = set()
        self.began = time.monotonic()
        sys.setprofile(self._note)

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        sys.setprofile(None)
        functions = sorted({_plain(name) for name in self.called})
        self.told.append((nodeid, time.monotonic() - self.began, functions))

    def pytest_sessionfinish(self) -> None:
        self.out.write_text(json.dumps(self.told), "utf-8")


def _plain(qualname: str) -> str:
    """As a mutant names its function: without <locals>, and a lambda is of whoever holds it."""
    return ".".join(part for part in qualname.split(".") if not part.startswith("<"))


class _Order:
    """A plugin that keeps only these tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.place = {test: k for k, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place),
            key=lambda item: self.place[item.nodeid],
        )
