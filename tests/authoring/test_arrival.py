"""The cell that brings the course to Colab, Kaggle and Binder, run as those would run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.authoring.arrival import ID, SOURCE, arrival_cell

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "labs").glob("*/*.ipynb")),
]
# What the cell sees: a pip that only writes down how it was called.
STAND_INS = """
import importlib.machinery, importlib.util, json, subprocess, sys
calls = []
def run(command, **options):
    calls.append([command[1:], options])
subprocess.run = run
absent = sys.argv[1] == "absent"
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "onelayer" and absent else found(name)
exec(sys.stdin.read())
print(json.dumps(calls))
"""
PIP = [["-m", "pip", "install", "--quiet", "--no-deps", SOURCE], {"check": True}]


def arrive(course: str, **environment: str) -> tuple[list[object], str]:
    """What the cell did where the course is "absent" or "there", and what it raised last."""
    done = subprocess.run(
        [sys.executable, "-c", STAND_INS, course],
        input=arrival_cell().text,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )
    said = done.stderr.strip().splitlines()
    return json.loads(done.stdout or "[]"), said[-1] if said else ""


@pytest.mark.parametrize(
    "variable", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "BINDER_SERVICE_HOST"]
)
def test_a_host_gets_the_course_once(variable: str) -> None:
    assert arrive("absent", **{variable: "x"}) == ([PIP], "")
    assert arrive("there", **{variable: "x"}) == ([], "")


def test_at_home_nothing_is_installed_behind_anybodys_back() -> None:
    calls, said = arrive("absent")
    assert calls == []
    assert said == (
        "ModuleNotFoundError: This Python has no onelayer. In the course's folder: make lab"
    )
    assert arrive("there") == ([], "")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_the_first_code_of_every_notebook(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    assert first["id"] == ID
    assert "".join(first["source"]) == arrival_cell().text
