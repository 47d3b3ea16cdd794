"""A small lab on paper: the notebook that was given out, and what students make of it."""

from __future__ import annotations

import copy
import json
from typing import Any

from autograder.classroom.intake.release import Release

from .questions import lab

NAME = lab.name
RIGHT = "def double(x):\n    return x + x"
WRONG = "def double(x):\n    return x"
Notebook = dict[str, Any]


def _cell(kind: str, name: str, source: str, **graded: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    if graded:
        made["metadata"]["nbgrader"] = {"grade_id": name, "schema_version": 3, **graded}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _released() -> Notebook:
    setup = _cell("code", "setup", "import torch")
    setup["metadata"]["tags"] = ["setup"]
    stub = "def double(x):\n    raise NotImplementedError"
    cells = [
        setup,
        _cell("code", "double", stub, solution=True, grade=False, locked=False),
        _cell("code", "double_check", 'check("double")', grade=True, solution=False, points=2),
        _cell("markdown", "why", "Your answer here.", solution=True, grade=True, points=1),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


RELEASED = _released()
RELEASE = Release(lab, json.dumps(RELEASED).encode())


def filled(double: str = RIGHT, why: str = "Because.") -> Notebook:
    """The notebook with these answers, as its student saves it."""
    made = copy.deepcopy(RELEASED)
    cell_of(made, "double")["source"] = double
    cell_of(made, "why")["source"] = why
    return made


def cell_of(made: Notebook, name: str) -> dict[str, Any]:
    cell: dict[str, Any] = next(cell for cell in made["cells"] if cell["id"] == name)
    return cell


def as_bytes(made: Notebook) -> bytes:
    return json.dumps(made).encode()
