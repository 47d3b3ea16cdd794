"""The kernels of `kernel_origins`, each in its own process in the jail, judged from outside."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.judge import GraderFault, NoAnswer
from autograder.sandbox import Cell, Jail

from . import kernel_origins

BUDGET_S = 120.0  # Inductor and nvcc compile
MOST = 1e-4
"""Relative, against float64: single precision with room."""
TRIALS = {
    "nvcc": "by_nvcc",
    "NVRTC": "by_nvrtc",
    "Triton": "by_triton",
    "Inductor": "by_inductor",
    "NCCL, one rank": "by_nccl",
}


@dataclass(frozen=True)
class Tried:
    """text: "pass", what is not here, or what went wrong. seconds: with starting and compiling."""

    text: str
    seconds: float

    @property
    def failed(self) -> bool:
        return self.text != "pass" and not self.text.startswith(kernel_origins.MISSING)


def tried(jail: Jail) -> Iterator[tuple[str, Tried]]:
    """Every trial, by name."""
    cell = Cell("kernels", Path(kernel_origins.__file__).read_text("utf-8"))
    for name, function in TRIALS.items():
        started = time.monotonic()
        text = _tried(jail, cell, function)
        yield name, Tried(text, round(time.monotonic() - started, 1))


def _tried(jail: Jail, cell: Cell, function: str) -> str:
    try:
        with jail.open([cell], loopback=True) as student:
            student.begin(may_write=False, budget_s=BUDGET_S)
            got = student.call(function)
    except NoAnswer as none:
        return str(none.raised).splitlines()[0]
    except GraderFault as fault:
        return f"the grader failed: {fault}"
    if isinstance(got, str):
        return got
    return "pass" if isinstance(got, float) and got <= MOST else f"off by {got}, over {MOST:g}"
