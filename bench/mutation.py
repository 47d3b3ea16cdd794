"""Does a test notice? Every module of a room is changed in one place at a time, and its tests run.

    python -m bench.mutation [ROOM] [--module PART] [--workers N]

A mutant that all tests of its module pass has survived: either a test is missing, or the change
changes nothing, and `bench/equivalent_mutants.toml` says why. docs/mutation.md keeps the score of
each room with its date. Exit code: 0 where nothing unexplained survives, 1 else.

A mutant costs a fork: torch and pytest are imported once, none of our modules is, and the child
compiles the changed text where the import asks for the module. Tests that start another process see
that process unchanged, so what runs only in a jail is not asked here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

from autograder.mutants import Mutant, mutants
from bench import mutation_page

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "bench" / "equivalent_mutants.toml"
SLOWER = 10  # times what its tests take unchanged: a mutant that loops for ever is noticed
NEVER_IMPORTED, PASSED = 97, 0
PRELOADED = ("torch", "pytest", "hypothesis", "numpy", "rich.console", "nbformat", "click.testing")

# Room -> its modules, and the tests that speak of all of them beside those of a module's own name.
ROOMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "judge": ("autograder/judge", ("tests/judge",)),
    "wire": ("autograder/sandbox/wire", ("tests/sandbox/wire",)),
    "intake": ("autograder/classroom/intake", ("tests/classroom/intake",)),
    "store": ("autograder/classroom/store", ("tests/classroom/store",)),
    "reports": ("autograder/classroom/reports", ("tests/classroom/reports",)),
    "late": (
        "autograder/classroom/gradebook/late_policy.py",
        ("tests/classroom/gradebook/test_late_policy.py",),
    ),
}
SLOW = ("test_in_browser.py",)  # they ask a whole browser, and speak of how a page looks


@dataclass(frozen=True)
class Asked:
    """A module, how many of its mutants were asked, and those that nobody noticed."""

    module: str
    mutants: int
    survivors: tuple[Mutant, ...]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.mutation", description="Mutate a room.")
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="all of them by default")
    parser.add_argument("--module", default="", help="only modules whose path holds this")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    for name in PRELOADED:
        __import__(name)
    unexplained = 0
    for room in options.rooms or ROOMS:
        asked = [ask(path, tests_of(path, room), options.workers)
                 for path in modules(room) if options.module in str(path)]  # fmt: skip
        unexplained += sum(len(left) for left in map(unexplained_of, asked))
        if not options.module:
            mutation_page.write(ROOT / "docs" / "mutation.md", room, scored(asked))
    return 1 if unexplained else 0


def modules(room: str) -> list[Path]:
    place = ROOT / ROOMS[room][0]
    return [place] if place.is_file() else sorted(place.glob("*.py"))


def tests_of(module: Path, room: str) -> list[str]:
    """The test files of a module: that of its own name first, because it notices soonest."""
    found: list[Path] = []
    for place in ROOMS[room][1]:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    own = f"test_{module.stem}.py"
    quick = [path for path in found if path.name not in SLOW]
    return [str(path) for path in sorted(quick, key=lambda path: path.name != own)]


def ask(module: Path, tests: Sequence[str], workers: int) -> Asked:
    """Asks the tests about every mutant of `module`. Raises RuntimeError where they fail unchanged
    or never import it: then nothing would be known."""
    name = module.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    source = module.read_text("utf-8")
    made = list(mutants(source))
    if not made:
        return Asked(name, 0, ())
    began = time.monotonic()
    code = noticed(name, source, tests, patience_s=600)
    patience_s = SLOWER * (time.monotonic() - began) + 5
    if code != PASSED:
        why = "never import it" if code == NEVER_IMPORTED else f"fail unchanged (exit code {code})"
        raise RuntimeError(f"the tests of {name} {why}: {' '.join(tests)}")

    def survives(mutant: Mutant) -> bool:
        return noticed(name, mutant.source, tests, patience_s=patience_s) == PASSED

    with ThreadPoolExecutor(workers) as pool:
        left = tuple(m for m, alive in zip(made, pool.map(survives, made), strict=True) if alive)
    result = Asked(name, len(made), left)
    print(f"{name}: {len(made) - len(left)} of {len(made)} noticed", flush=True)
    for mutant in unexplained_of(result):
        print(f"  line {mutant.line}  {mutant.name}", flush=True)
    return result


def noticed(name: str, source: str, tests: Sequence[str], *, patience_s: float) -> int:
    """What pytest ends with where module `name` is `source`: 0 where no test noticed. A process of
    its own, which is ended after `patience_s` (that is noticed, too)."""
    child = os.fork()
    if child == 0:
        _run_tests(name, source, tests)
    with _deadline(child, patience_s):
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run_tests(name: str, source: str, tests: Sequence[str]) -> None:
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        asked_for = _stand_in(name, source)
        import pytest

        quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        quiet += [
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ]  # it was loaded before the fork
        code = int(pytest.main([*quiet, *tests]))
        code = code if code or asked_for else NEVER_IMPORTED
    finally:
        os._exit(code)


def _stand_in(name: str, source: str) -> list[str]:
    """From now on an import of `name` compiles `source`; the list tells whether one did."""
    asked_for: list[str] = []
    compiled = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> object:
        if fullname != name:
            return compiled(self, fullname)
        asked_for.append(fullname)
        return compile(source, self.path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for loaded in [key for key in sys.modules if key.split(".")[0] in {"autograder", "onelayer"}]:
        del sys.modules[loaded]
    return asked_for


@contextlib.contextmanager
def _deadline(child: int, seconds: float) -> Iterator[None]:
    """Ends the session of `child` where it is not done in time."""
    from threading import Timer

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)

    timer = Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def explained() -> dict[str, Counter[str]]:
    """By module: the survivors that change nothing anybody could notice, each with a reason."""
    read = tomllib.loads(EXPLAINED.read_text("utf-8")) if EXPLAINED.exists() else {}
    return {
        module: Counter({line["mutant"]: line.get("times", 1) for line in lines if line["because"]})
        for module, lines in read.items()
    }


def unexplained_of(asked: Asked) -> list[Mutant]:
    """The survivors that no line explains."""
    left, found = explained().get(asked.module, Counter()), []
    for mutant in asked.survivors:
        if left[mutant.name] > 0:
            left[mutant.name] -= 1
        else:
            found.append(mutant)
    return found


def scored(asked: Iterable[Asked]) -> list[tuple[str, int, int, int]]:
    """module, mutants, noticed, explained: a row of the page for each module that has any."""
    rows = []
    for one in asked:
        open_ = len(unexplained_of(one))
        if one.mutants:
            noticed_ = one.mutants - len(one.survivors)
            rows.append((one.module, one.mutants, noticed_, len(one.survivors) - open_))
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
