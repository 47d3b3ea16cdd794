"""What `make matrix` asks of the course beside its ordinary tests, in every row's environment.

pytest takes this file only where it is named. A unit that is added is asked without a change here.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from autograder import checks, selftest
from autograder.judge import Lab
from autograder.sandbox import probe

ROOT = Path(__file__).resolve().parent.parent
LABS = {lab.name: lab for lab in checks.labs()}
FOLDERS = {path.name for path in (ROOT / "labs").iterdir() if path.is_dir()}


@pytest.fixture(params=sorted(FOLDERS | set(LABS)))
def lab(request: pytest.FixtureRequest) -> Lab:
    """Each lab that has a folder or checks; one that has only one of the two fails by name."""
    assert request.param in FOLDERS & set(LABS)
    return LABS[request.param]


def installed(name: str) -> str:
    """The version of a package; "" where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def off_the_pins() -> str:
    """What this environment holds in other versions than constraints.txt asks for."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line[:1] not in {"", "#"})
    here = {name: found for name in pins if (found := installed(name))}
    return ", ".join(f"{name} {here[name]}" for name in sorted(here) if here[name] != pins[name])


def test_a_notebook_runs_on_the_torch_of_this_row(
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    ask = nbformat.v4.new_code_cell("import torch; print(torch.__version__)")  # type: ignore[no-untyped-call]
    notebook: Any = nbformat.v4.new_notebook(cells=[ask])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    (printed,) = notebook.cells[0].outputs
    assert printed.text.strip() == torch.__version__
    wanted = os.environ.get("ONELAYER_MATRIX_TORCH", torch.__version__)
    assert f"{torch.__version__}.".startswith(f"{wanted}.")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    facts = {
        "torch": torch.__version__,
        "built for": f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU",
        "triton": installed("triton") or "none",
        "Python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {gpu}",
        "sandbox": probe().name,
        "not as pinned": off_the_pins(),
    }
    for name, fact in facts.items():
        record_testsuite_property(name, fact)


def test_the_selftest_of_a_lab_is_clean(lab: Lab) -> None:
    counted = selftest.count(lab, ROOT)
    assert counted.questions
    assert counted.right >= selftest.MIN_RIGHT * counted.questions
    assert counted.wrong >= selftest.MIN_WRONG * counted.questions
    assert not counted.faults, "\n".join(counted.faults)


def graded(lab: Lab, place: Path) -> dict[str, list[dict[str, Any]]]:
    """The verdicts on the solution and on the untouched lab, handed in as by two students."""
    for folder in ("solutions", "labs"):
        (place / "hand_in" / folder).mkdir(parents=True)
        shutil.copy(ROOT / folder / lab.name / f"{lab.name}.ipynb", place / "hand_in" / folder)
    command = [sys.executable, "-m", "autograder.cli", "grade", place / "hand_in"]
    command += ["--out", place / "out", "--lab", lab.name, "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = (place / "out" / "journal" / lab.name).glob("*.json")
    found = [json.loads(path.read_text().split("\n")[1]) for path in records]
    return {record["student"]: record["verdicts"] for record in found}


def test_the_sandbox_gives_the_solution_every_point_and_the_untouched_lab_none(
    lab: Lab, tmp_path: Path
) -> None:
    found = graded(lab, tmp_path)
    solved, untouched = found["solutions"], found["labs"]
    for verdict in [*solved, *untouched]:
        assert (verdict["tier"], verdict["torch"]) == ("bubblewrap", torch.__version__)
    assert {v["question"] for v in solved} == {v["question"] for v in untouched} == {*lab.questions}
    assert {v["question"]: v["sentence"] for v in solved if v["cause"] != "passed"} == {}
    assert sum(v["points"] for v in solved) == lab.max_points > 0
    assert {v["cause"] for v in untouched} == {"blank"}
    assert sum(v["points"] for v in untouched) == 0
