"""The question that CONTRIBUTING.md prints is a real one: asked, it tells right from wrong."""

import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from autograder import judge

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def printed(marker: str) -> str:
    """Return the one code block of the guide that holds `marker`."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    (block,) = [block for block in blocks if marker in block]
    return textwrap.dedent(block)


LAB = """
from autograder.judge import Lab

lab = Lab("01_strides", "Strides")

from . import row_bytes
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> judge.Lab:
    """A lab of one question: the printed file, in a package as the labs are."""
    package = tmp_path / "lab_of_the_guide"
    package.mkdir()
    (package / "__init__.py").write_text(LAB)
    (package / "row_bytes.py").write_text(printed("@lab.question"))
    monkeypatch.syspath_prepend(tmp_path)
    found: judge.Lab = import_module("lab_of_the_guide").lab
    return found


def test_the_printed_question_passes_the_printed_solution_and_names_the_printed_mistake(
    lab: judge.Lab,
) -> None:
    asked, solution, check, alternative = re.split(
        r"^(?=# %%)", printed("BEGIN SOLUTION"), flags=re.M
    )[1:]
    question = lab.questions["row_bytes"]
    (mistake,) = question.wrong_answers

    def ask(answer: Any) -> judge.Verdict:
        return judge.ask(question, judge.LocalStudent({"row_bytes": answer}), seed=7)

    for cell in [solution, alternative]:
        answer: dict[str, Any] = {}
        exec(cell, answer)
        assert ask(answer["row_bytes"]).state is judge.State.PASS
    assert asked.startswith("# %% [markdown]")
    assert check.rstrip().endswith('check("row_bytes")')
    failed = ask(mistake.functions["row_bytes"])
    assert failed.state is judge.State.FAIL
    assert mistake.sentence in str(failed)
