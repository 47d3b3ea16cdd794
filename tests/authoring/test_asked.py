"""What a question is worth stands in its check alone: the build writes it into the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.authoring.build import build
from autograder.authoring.problem import Refused
from tests.authoring.tiny_course import LAB_NOTEBOOK, LAB_SOURCE, cell, edit, write, write_course

CHECK = """from . import lab


@lab.question("contiguous_strides", points={}, minutes=5, difficulty=1, hints=("a", "b", "c"))
def contiguous_strides(student, draw): ...
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The tiny course with a check for its first question."""
    write_course(tmp_path)
    asks(tmp_path, "2")
    edit(tmp_path, LAB_SOURCE, '"contiguous_strides_check" role="check" points=2',
         '"contiguous_strides_check" role="check"')  # fmt: skip
    edit(tmp_path, LAB_SOURCE, "# Give the strides", "# ## Strides\n#\n# Give the strides")
    return tmp_path


def asks(root: Path, points: str) -> None:
    write(root, "autograder/checks/lab01_strides/contiguous_strides.py", CHECK.format(points))


def refused(root: Path) -> str:
    with pytest.raises(Refused) as caught:
        build(root)
    return "\n".join(map(str, caught.value.problems))


@pytest.mark.parametrize(("points", "worth"), [("1", "1 point"), ("2.5", "2.5 points")])
def test_the_page_says_what_the_check_says(course: Path, points: str, worth: str) -> None:
    asks(course, points)
    build(course)
    heading = "".join(cell(course, LAB_NOTEBOOK, "ask-strides")["source"])
    line = f"*5 minutes · difficulty 1 of 5 · {worth}*"
    assert heading.startswith(f"## 1.1 Strides\n{line}\n\nGive the strides")
    said = cell(course, LAB_NOTEBOOK, "contiguous_strides_check")["metadata"]["nbgrader"]
    assert said["points"] == float(points)


def test_a_free_text_says_it_itself_and_counts(course: Path) -> None:
    text = '# %% [markdown] id="why_copies" role="free_text" points=3'
    heading = '# %% [markdown] id="why"\n# ## In words\n\n'
    edit(course, LAB_SOURCE, text, f"{heading}{text} minutes=7 difficulty=2")
    build(course)
    made = "".join(cell(course, LAB_NOTEBOOK, "why")["source"])
    line = "*7 minutes · difficulty 2 of 5 · 3 points, marked by a person*"
    assert made == f"## 1.2 In words\n{line}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('strides_check" role="check"', 'strides_check" role="check" points=2', "by the check"),
        ("## Strides", "## 1.1 Strides", "leave the number away"),
        ('"Counter_check" role="check" points=1.5', '"Counter_check" role="check"',
         "no check asks 'Counter'"),
        ("points=3", "points=3 minutes=soon", "cannot read the header"),
        ("points=3", "points=3 minutes=1.5", "minutes=1.5 must be a whole number"),
        ('points=1.5', "points=1.5 difficulty=2", "difficulty=2 must be"),
    ],
)  # fmt: skip
def test_what_is_said_twice_or_nowhere_is_refused(
    course: Path, old: str, new: str, says: str
) -> None:
    edit(course, LAB_SOURCE, old, new)
    assert says in refused(course)


@pytest.mark.parametrize("points", ["WORTH", "("])
def test_a_check_that_cannot_be_read_is_refused(course: Path, points: str) -> None:
    asks(course, points)
    found = refused(course)
    assert "autograder/checks/lab01_strides/contiguous_strides.py" in found
    assert "cannot be read" in found
