"""The check runs in the student's own Jupyter kernel, and nbgrader reads the score from what came
out of it: the defence that is missing is a verdict made outside.

The kernel is a real one, driven by nbclient, and the points are given by nbgrader's own function.
It runs without a jail: an attack in this arena touches nothing but its kernel.
"""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import Ground
from autograder.judge import Question

from .asked import asked

POINTS = 2.0
CELL_S = 20
NEEDED = ("nbclient", "nbformat", "nbgrader", "ipykernel")


def kernel_obstacle() -> str:
    """Why there can be no kernel to be fooled, or ""."""
    gone = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return f"{', '.join(gone)} not installed" if gone else ""


@dataclass(frozen=True)
class InKernel:
    """question: as in grading. cell: the hidden test that nbgrader would run."""

    question: Question
    cell: str

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return asked(self.question, submission, ground, seed=ground.seed())

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the libraries' own deprecations
            return _graded_by_nbgrader(submission, self.cell, ground.new_folder())


def _graded_by_nbgrader(answer: str, test: str, folder: Path) -> Outcome:
    """Full or partial points, or a run that stopped the grader, are a success."""
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from nbgrader.utils import determine_grade

    check = _check_cell(test)
    try:
        _execute([_code(answer), check], folder)
        score, _ = determine_grade(check, logging.getLogger("autograder.attacks"))
    except DeadKernelError as error:
        return Outcome("void", True, f"nobody is graded after it: {error}")
    except (ValueError, CellControlSignal) as error:
        return Outcome("aborted", True, str(error))
    return Outcome(PASS if score else "fail", bool(score), f"{score} of {POINTS}")


def _code(source: str) -> Any:
    from nbformat.v4 import new_code_cell

    return new_code_cell(source)  # type: ignore[no-untyped-call]


def _check_cell(test: str) -> Any:
    cell = _code(test)
    cell.metadata["nbgrader"] = {
        "grade": True,
        "solution": False,
        "locked": True,
        "points": POINTS,
        "grade_id": "check",
    }
    return cell


def _execute(cells: list[Any], folder: Path) -> None:
    """Runs the cells in a kernel that talks through sockets in `folder`, not over a network."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbformat.v4 import new_notebook

    notebook = new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    manager = AsyncKernelManager(
        kernel_name="python3",
        transport="ipc",
        ip=str(folder / "kernel"),
        connection_file=str(folder / "kernel.json"),
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_S,
        allow_errors=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(cleanup_kc=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
