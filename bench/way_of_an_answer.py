"""How many functions of the course, in how many files, one answer passes on its way.

    python -m bench.way_of_an_answer [--functions]

Counted are Python functions of `onelayer` and `autograder` that run, each once however often it
runs; lambdas and generators are functions of their own. Comprehensions are not, on any Python: from
3.12 on they run in the function that holds them (PEP 709).

In a notebook: one passing `check("is_contiguous")`, shown, in a kernel in which one was asked
before; imports, and what is done once in a kernel's life, are not counted.

On the grader's side: `autograder grade`, in the command and in its worker, for a class of two and
for a class of one; what is called more often for two is what one more hand-in passes, from its
folder to the gradebook. The processes in the jail are the student's side. The lab asks more than
this question; of the other questions' files nothing is counted.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
OURS = tuple(f"{ROOT / package}/" for package in ("onelayer", "autograder"))
LOG = "WAY_OF_AN_ANSWER"
"""The environment variable that names the folder to which the grader's processes write their way.
"""
MOST = 4096
"""Functions in one process."""
NOTEBOOK = """
import torch
from autograder import check

def is_contiguous(size, stride):
    return torch.empty_strided(size, stride).is_contiguous()
"""
CELL = """
shown = check("is_contiguous", seed={seed})
text, html = repr(shown), shown._repr_html_()
"""
QUESTION = "is_contiguous"
SEEDS = range(8)
"""Which functions lay out the inputs depends on the seed: what any of these runs is counted."""
OTHERS = "autograder/checks/"
OWN = (
    "autograder/checks/__init__.py",
    "autograder/checks/lab01_strides/geometry.py",
    "autograder/checks/lab01_strides/is_contiguous.py",
)
INSIDE = "autograder/sandbox/inside/"
NOT_COUNTED = frozenset({"<module>", "<listcomp>", "<dictcomp>", "<setcomp>"})


@dataclass
class Way:
    """What ran: each function as "file:line name"."""

    functions: set[str] = field(default_factory=set)

    @property
    def files(self) -> set[str]:
        return {function.partition(":")[0] for function in self.functions}

    def __str__(self) -> str:
        return f"{len(self.functions)} functions in {len(self.files)} files"


def watch(note: Callable[[CodeType], object]) -> None:
    """From now on calls `note` for each function of the course that begins to run here."""

    def called(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        counted = event == "call" and code.co_name not in NOT_COUNTED
        if counted and code.co_filename.startswith(OURS):
            note(code)

    threading.setprofile(called)
    sys.setprofile(called)


def name_of(code: CodeType) -> str:
    path = Path(code.co_filename).relative_to(ROOT)
    return f"{path}:{code.co_firstlineno} {code.co_qualname}"


@contextmanager
def walked() -> Iterator[Way]:
    """Inside, what runs in this process is on the way."""
    way, codes = Way(), set[CodeType]()
    watch(codes.add)
    try:
        yield way
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        way.functions |= set(map(name_of, codes))


def way_of_a_check() -> Way:
    """The way of one passing `check` in a notebook that shows it, its progress kept as ever."""
    notebook: dict[str, Any] = {}
    exec(NOTEBOOK, notebook)
    exec(CELL.format(seed=0), notebook)
    with walked() as way:
        for seed in SEEDS:
            exec(CELL.format(seed=seed), notebook)
    if (verdict := notebook["shown"].verdict).points != verdict.max_points:
        raise RuntimeError(f"the way of a passing answer was to be measured:\n{verdict}")
    return way


def way_of_a_graded_answer() -> Way:
    """What every further hand-in of lab 01 calls, from its folder to the gradebook: not what one of
    them calls on a busy machine, where the grader looks after an answer that takes long."""
    one, four = (_calls_of_a_class(size) for size in (1, 4))
    each = {name for name, calls in four.items() if calls >= one[name] + 3 and _is_graders(name)}
    return Way(each)


def _calls_of_a_class(size: int) -> Counter[str]:
    from .hand_ins import write_class

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_class(folder / "in", size)
        (folder / "way").mkdir()
        start = "from bench.way_of_an_answer import count_here; count_here()"
        (folder / "sitecustomize.py").write_text(start)
        paths = os.pathsep.join([name, str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": paths, LOG: str(folder / "way")}
        command = [sys.executable, "-m", "autograder.cli", "grade", str(folder / "in")]
        options = ["--out", str(folder / "out"), "--course", str(ROOT), "--workers", "1"]
        subprocess.run([*command, *options], env=environment, check=True, stdout=subprocess.DEVNULL)
        calls: Counter[str] = Counter()
        for names in (folder / "way").glob("*.names"):
            counts = memoryview(names.with_suffix(".counts").read_bytes()).cast("I")
            for function, n in zip(names.read_text().splitlines(), counts, strict=False):
                calls[function] += n
        return calls


def count_here() -> None:
    """Counts in this process of the grader's, and in those that it forks."""
    os.register_at_fork(after_in_child=count_into_file)
    count_into_file()


def count_into_file() -> None:
    """Begins at the start of a process of the grader's; one that cannot see the folder is none. The
    counts lie in mapped memory: a process that is killed has left them there."""
    path = Path(os.environ.get(LOG, "/none"), str(os.getpid()))
    try:
        path.with_suffix(".counts").write_bytes(bytes(4 * MOST))
        names = path.with_suffix(".names").open("w", buffering=1)
    except OSError:
        return
    with path.with_suffix(".counts").open("r+b") as file:
        counts = memoryview(mmap.mmap(file.fileno(), 4 * MOST)).cast("I")
    known: dict[CodeType, int] = {}
    one_at_a_time = threading.Lock()  # two threads could give two functions one number

    def count(code: CodeType) -> None:
        with one_at_a_time:
            if code not in known:
                known[code] = len(known)
                names.write(f"{name_of(code)}\n")
            counts[known[code]] += 1

    watch(count)
    ask_one_question()


def ask_one_question() -> None:
    from autograder.checks.lab01_strides import lab

    lab.questions = {QUESTION: lab.questions[QUESTION]}


def _is_graders(function: str) -> bool:
    others = function.startswith(OTHERS) and not function.startswith(OWN)
    return not others and not function.startswith(INSIDE)


@click.command()
@click.option("--functions", is_flag=True, help="Name every function.")
def main(functions: bool) -> None:
    """Print both ways."""
    ways = {"a check": way_of_a_check(), "a graded answer": way_of_a_graded_answer()}
    for name, way in ways.items():
        click.echo(f"{name}: {way}")
        for function in sorted(way.functions) if functions else ():
            click.echo(f"  {function}")


if __name__ == "__main__":
    main()
