"""How many functions of the course, in how many files, one answer passes on its way.

    python -m bench.way_of_an_answer [--list]

Counted are Python functions of `onelayer` and `autograder` that run, each once however often it
runs; lambdas, comprehensions and generators are functions of their own. A notebook's way is one
passing `check("is_contiguous")` of a kernel in which one was asked before: imports, and what is
done once in a kernel's life, are not counted. A grader's way is the same notebook handed in,
graded and published by `autograder grade`'s own steps, in the process of the grader.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = tuple(f"{ROOT / package}/" for package in ("onelayer", "autograder"))
NOTEBOOK = """
import torch
from autograder import check

def is_contiguous(size, stride):
    return torch.empty_strided(size, stride).is_contiguous()
"""
CELL = 'shown = check("is_contiguous")'


@dataclass
class Way:
    """What ran: code objects of the course."""

    codes: set[CodeType] = field(default_factory=set)

    @property
    def functions(self) -> list[str]:
        """Each function as "file:line name"."""
        found = {
            f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno} {code.co_qualname}"
            for code in self.codes
        }
        return sorted(found)

    @property
    def files(self) -> list[str]:
        return sorted({function.partition(":")[0] for function in self.functions})

    def __str__(self) -> str:
        return f"{len(self.functions)} functions in {len(self.files)} files"


@contextmanager
def walked() -> Iterator[Way]:
    """Inside, every function of the course that begins to run in this process is noted."""
    way = Way()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and code.co_name != "<module>":
            way.codes.add(code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield way
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


def way_of_a_check() -> Way:
    """The way of one passing `check` in a notebook, its progress kept as ever."""
    notebook: dict[str, Any] = {}
    exec(NOTEBOOK, notebook)
    exec(CELL, notebook)
    with walked() as way:
        exec(CELL, notebook)
    if (verdict := notebook["shown"].verdict).points != verdict.max_points:
        raise RuntimeError(f"the way of a passing answer was to be measured:\n{verdict}")
    return way
