"""Does a test notice? Every module of a room is changed in one place at a time, and its tests run.

    python -m bench.mutation [ROOM] [--module PART] [--workers N]

A module's own test file is asked first, and only what it passes is asked of the room's others. A
mutant that all of them pass has survived: either a test is missing, or the change changes nothing,
and `bench/equivalent_mutants.toml` says why. docs/mutation.md keeps the score of each module with
its date. Exit code: 0 where nothing unexplained survives, 1 else.

A mutant costs a fork: torch and pytest are imported once, none of our modules is, and the child
compiles the changed text where the import asks for the module. Tests that start another process see
that process unchanged, so what runs only in a jail is not asked here.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autograder.mutants import Mutant, mutants
from bench import mutation_page
from bench.mutation_tests import Unreached, is_noticed, reach

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "bench" / "equivalent_mutants.toml"
PAGE = ROOT / "docs" / "mutation.md"
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
        with_any = [path for path in modules(room) if any(mutants(path.read_text("utf-8")))]
        for path in with_any:
            if options.module not in str(path):
                continue
            asked = ask(path, tests_of(path, room), options.workers)
            unexplained += len(unexplained_of(asked))
            mutation_page.write(PAGE, room, scored(asked), list(map(name_of, with_any)))
    return 1 if unexplained else 0


def name_of(module: Path) -> str:
    """As an import asks for it: a package by its folder."""
    path = module.relative_to(ROOT).with_suffix("").as_posix()
    return path.removesuffix("/__init__").replace("/", ".")


def modules(room: str) -> list[Path]:
    place = ROOT / ROOMS[room][0]
    return [place] if place.is_file() else sorted(place.glob("*.py"))


def tests_of(module: Path, room: str) -> list[str]:
    """The test files that speak of a module."""
    found: list[Path] = []
    for place in ROOMS[room][1]:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return [str(path) for path in found if path.name not in SLOW]


def ask(module: Path, tests: Sequence[str], workers: int) -> Asked:
    """Shows every mutant of `module` to its own test file, and who survives that to the others."""
    name, made = name_of(module), list(mutants(module.read_text("utf-8")))
    own = [test for test in tests if Path(test).name == f"test_{module.stem}.py"]
    left = made
    for files in filter(None, (own, [test for test in tests if test not in own])):
        left = survivors(name, module, left, files, workers)
    result = Asked(name, len(made), tuple(left))
    print(f"{name}: {len(made) - len(left)} of {len(made)} noticed", flush=True)
    for mutant in unexplained_of(result):
        print(f"  line {mutant.line}  {mutant.name}", flush=True)
    return result


def survivors(
    name: str, module: Path, made: list[Mutant], tests: Sequence[str], workers: int
) -> list[Mutant]:
    """The mutants of `made` that no test of these files notices."""
    try:
        reached = reach(name, module, tests)
    except Unreached as unreached:
        print(unreached, flush=True)
        return made

    def survives(mutant: Mutant) -> bool:
        own = [one for one in reached if not mutant.function or mutant.function in one.functions]
        # What runs at the import alone, no test calls: any may notice.
        return not is_noticed(name, mutant.source, own or reached)

    with ThreadPoolExecutor(workers) as pool:
        return [m for m, alive in zip(made, pool.map(survives, made), strict=True) if alive]


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


def scored(asked: Asked) -> mutation_page.Row:
    """Its row of the page."""
    survivors = len(asked.survivors)
    explained_ = survivors - len(unexplained_of(asked))
    return asked.module, asked.mutants, asked.mutants - survivors, explained_


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
