"""A helper in a cell of the student's own passes in the notebook; the notebook says what grading
will say, and says it of nothing that grading finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autograder import checks
from autograder.judge import text
from autograder.notebook.checking import checked
from autograder.notebook.left_behind import left_behind

LAB = checks.lab("01")
SETUP = "import torch\nimport torch.nn.functional as F\nimport onelayer"
ANSWER = """def contiguous_strides(shape):
    \"\"\"A shape -> its strides.\"\"\"
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step = {step}
    return tuple(strides)
"""
HELPER = "def grown(step, size): return step * max(size, 1)"
USES = ANSWER.format(step="grown(step, size)")
PLAIN = ANSWER.format(step="step * max(size, 1)")
INSIDE = USES.replace("    strides, step", f"    {HELPER}\n    strides, step")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path / "home"))


def notebook(*cells: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for cell in cells:
        if not cell.startswith(("%", "!")):
            exec(cell, names)
    return names | {"In": ["", *cells]}


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        ([HELPER, USES], ["grown"]),
        ([f"{HELPER}\n{USES}"], []),
        ([f"{USES}\n{HELPER}"], []),
        ([HELPER, USES, f"{USES}\n{HELPER}"], []),
        ([f"{HELPER}\ndef is_contiguous(x): return True", USES], []),
        ([SETUP, PLAIN.replace("[], 1", "[], int(torch.ones(()))")], []),
        (["import cmath", PLAIN.replace("[], 1", "[], int(cmath.pi) - 2")], ["cmath"]),
        (["N = 1", PLAIN.replace("[], 1", "[], N")], ["N"]),
        (["step = 3", PLAIN], []),  # a name of the function's own
        ([HELPER, INSIDE], []),  # a function of the function's own
        (["import cmath", INSIDE.replace("def grown", "import cmath\n    def grown")], []),
        (["len = len", PLAIN.replace("[], 1", "[], len([0])")], []),
        (["%timeit 1 + 1", "!ls", PLAIN], []),
        ([PLAIN], []),
    ],
)
def test_only_what_grading_will_not_find(cells: list[str], missing: list[str]) -> None:
    names = notebook(*cells)
    assert left_behind(LAB, "contiguous_strides", names) == missing
    shown = str(checked("contiguous_strides", names, seed=1))
    assert "pass" in shown.splitlines()[0]
    warned = [str(text("left_behind", name=name)) for name in missing]
    assert [line.strip() for line in shown.splitlines() if "will not in grading" in line] == warned


@pytest.mark.parametrize("remembered", [None, [], ["(" * 9999], [3, None], "text"])
def test_without_a_history_it_says_nothing(remembered: Any) -> None:
    names = notebook(PLAIN) | {"In": remembered}
    assert left_behind(LAB, "contiguous_strides", names) == []


def test_where_the_lab_does_not_lie_it_says_nothing() -> None:
    unknown = type(LAB)("42_nowhere", "Nowhere")
    assert left_behind(unknown, "contiguous_strides", notebook(HELPER, USES)) == []


def test_a_wrong_answer_is_not_told_twice() -> None:
    names = notebook(HELPER, USES.replace("reversed(shape)", "shape"))
    assert "grading" not in str(checked("contiguous_strides", names, seed=1))
