"""Each fault that the generator promises to catch, planted and caught in a sentence that says where."""

# ruff: noqa: E501 (a row of a table of faults is read as one line)

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autograder.authoring import Refused, build, drift
from autograder.authoring.__main__ import main
from tests.authoring.tiny_course import (
    CHAPTER_NOTEBOOK,
    CHAPTER_SOURCE,
    LAB_NOTEBOOK,
    LAB_SOURCE,
    STUDENT,
    edit,
    files,
    tamper,
    write,
    write_course,
)

Cells = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("course")
    write_course(root)
    build(root)
    return root


@pytest.fixture
def course(built: Path, tmp_path: Path) -> Path:
    root = shutil.copytree(built, tmp_path / "course")
    assert drift(root) == ()
    return root


def said(root: Path) -> list[str]:
    """What the check says, after making sure that it wrote nothing."""
    before = files(root)
    problems = [str(problem) for problem in drift(root)]
    assert files(root) == before
    return problems


# Faults in a source: what an author mistypes. Columns: source, old, new, line that is named, words.

HEADERS = {
    "a guess that is not shown": ('text = """', 'predict("places", choices=[1, 2])\nx = 1\n\n# %% id="again"\ntext = """', 6, "predict(...) shows its card only as the last statement"),
    "an answer that is not shown": ('text = """', 'reveal("places", 2)\nx = 1\n\n# %% id="again"\ntext = """', 6, "reveal(...) shows its card only as the last statement"),
    "no id": ('# %% id="look"', "# %%", 5, "the cell has no id"),
    "id without quotes": ('id="look"', "id=look", 5, "cannot read the header '# %% id=look'"),
    "typographer's quotes": ('id="look"', "id=“look”", 5, "cannot read the header"),
    "misspelt markdown": ('[markdown] id="fold"', '[markdwon] id="fold"', 12, "cannot read the header"),
    "type after id": ('[markdown] id="fold"', 'id="fold" [markdown]', 12, "cannot read the header"),
    "raw cell": ('[markdown] id="fold"', '[raw] id="fold"', 12, "a raw cell: only code and"),
    "comma": ('id="look"', 'id="look", tags=[]', 5, "['look'] is no id"),
    "space in id": ('id="look"', 'id="look here"', 5, "'look here' is no id"),
    "dot in id": ('id="look"', 'id="look.1"', 5, "'look.1' is no id"),
    "id too long": ('id="look"', f'id="{"x" * 65}"', 5, "is no id: nbgrader and nbformat take 1 to 64"),
    "empty id": ('id="look"', 'id=""', 5, "'' is no id"),
    "accented id": ('id="look"', 'id="pasó"', 5, "'pasó' is no id"),
    "id twice in a header": ('id="look"', 'id="look" id="again"', 5, "the header gives 'id' 2 times"),
    "id of another cell": ('id="look"', 'id="fold"', 5, "2 cells have this id"),
    "unknown key": ('id="look"', 'id="look" tag=["a"]', 5, "unknown key 'tag' in the header"),
    "tags no list": ('id="look"', 'id="look" tags="setup"', 5, "'setup' is not of type 'array'"),
    "role in a chapter": ('id="look"', 'id="look" role="solution"', 5, "roles belong in labs"),
    "points in a chapter": ('id="look"', 'id="look" points=1', 5, "points belong in the header of a"),
    "no space": ('# %% id="look"', '# %%id="look"', 5, "needs a space after %%"),
    "indented header": ("# copy the", 'if 1:\n    # %% id="in"\n    pass\n# copy the', 10, "left margin"),
    "code in prose": ("# <details>", "x = 1\n# <details>", 12, "line 13 is code in a [markdown] cell"),
    "not Python": ('text = """', 'text = ("""', 6, "is not Python"),
    "bare magic": ("# %matplotlib", "%matplotlib", 10, "is not Python"),
    "attachment": ("# </details>", "# ![a](attachment:a.png)", 12, "shows an attachment"),
    "marker in a chapter": ("# copy the", "### BEGIN SOLUTION\n# copy the", 9, "outside a solution cell"),
    "no title": ("# # Strides", "# Strides", 1, "begin with the title"),
    "empty cell": ("# %matplotlib inline", '# %%  id="void"', 10, "the cell is empty"),
    "invisible break": ("Where does", "Where\u2028does", 3, "holds the line break U+2028"),
    "hidden tests": ("# copy the", "### BEGIN HIDDEN TESTS", 9, "checks are open"),
    "link to nowhere": ("Where", "{{colab:notebooks/09_no.ipynb}}", 1, "leads to no notebook"),
    "fenced header": ("# Where", "# ```\n# %% x\n# ```\n# Where", None, "inside a fenced block"),
    "preamble": ('# %% [markdown] id="strides"', 'x = 1\n# %% [markdown] id="strides"', 1, "before the first"),
}  # fmt: skip

ROLES = {
    "unknown role": ('role="check" points=2', 'role="chek" points=2', 29, "unknown role 'chek'"),
    "check without points": ('role="check" points=2', 'role="check"', 29, "a check cell needs points"),
    "points in words": ("points=2", "points=two", 29, "cannot read the header"),
    "points as text": ("points=2", 'points="2"', 29, "points='2' is not a positive number"),
    "no points": ("points=2", "points=0", 29, "points=0 is not a positive number"),
    "negative points": ("points=2", "points=-1", 29, "points=-1 is not a positive number"),
    "endless points": ("points=2", "points=Infinity", 29, "points=inf is not a positive number"),
    "points are true": ("points=2", "points=true", 29, "points=True is not a positive number"),
    "answer without check": ('"Counter_check" role="check" points=1.5', '"Counter_check"', 36, "no check cell asks for it"),
    "check without answer": ('"contiguous_strides_check"', '"strides_check"', 29, "no solution cell before it"),
    "alternative to nothing": ('"contiguous_strides_alternative"', '"strides_alternative"', 57, "no solution cell before it"),
    "alternative by another name": ('"contiguous_strides_alternative"', '"contiguous_strides_2"', 57, "begins with the answer's id"),
    "free text without points": (' points=3', "", 32, "a free_text cell needs points"),
    "free text is code": ('[markdown] id="why_copies"', 'id="why_copies"', 32, "a free_text cell is [markdown]"),
    "check is prose": ('# %% id="Counter_check" role="check" points=1.5\ncheck', '# %% [markdown] id="Counter_check" role="check" points=1.5\n# check', 53, "a check cell is code"),
    "answer with points": ('id="Counter" role="solution"', 'id="Counter" role="solution" points=1', 36, "points belong"),
    "size in words": ('id="Counter" role="solution"', 'id="Counter" role="solution" about_lines="3"', 36, "about_lines='3'"),
}  # fmt: skip

BEGIN, END = (
    "    ### BEGIN SOLUTION\n    strides",
    "    return tuple(reversed(strides))\n    ### END SOLUTION",
)
REGIONS = {
    "never closed": (END, "    return 1", 19, "this solution region is never closed"),
    "never opened": (BEGIN, "    strides", 25, "END SOLUTION without BEGIN"),
    "nested": (BEGIN, "    ### BEGIN SOLUTION\n" + BEGIN, 20, "BEGIN SOLUTION inside a region"),
    "misspelt begin": (BEGIN, "    ### BEGN SOLUTION\n    strides", 26, "END SOLUTION without BEGIN"),
    "misspelt end": (END, "    return 1\n    ### END SOLUTOIN", 19, "never closed"),
    "lower case": (BEGIN, "    ### begin solution\n    strides", 19, "a marker is a line of its own"),
    "two marks": (BEGIN, "    ## BEGIN SOLUTION\n    strides", 19, "a marker is a line of its own"),
    "ends in C++": ("    def down(self):", '    def text(self):\n        return """\n    ### BEGIN SOLUTION\n    --n;\n    // END SOLUTION\n"""\n\n    def down(self):', 49, "all Python's or all C++'s"),
    "one of two in C++": ("    def down(self):", '    def text(self):\n        return """\n    // BEGIN SOLUTION\n    --n;\n    // END SOLUTION\n"""\n\n    def down(self):', 49, "all Python's or all C++'s"),
    "marker in a string": ("of this shape.", "### BEGIN SOLUTION", 18, "a marker is a line of its own"),
    "marker in prose": ("Give the strides", "BEGIN SOLUTION", 13, "a solution marker outside a solution cell"),
    "no region": ('id="setup" tags=["setup"]', 'id="setup" role="solution"', 4, "no solution region: put"),
    "mark scheme": ("Because", "### BEGIN MARK SCHEME", 33, "checks are open"),
    "autotest starts a kernel": ("import math", "### AUTOTEST 1", 5, "checks are open"),
}  # fmt: skip


def cases(source: str, table: dict[str, tuple[str, str, int | None, str]]) -> list[Any]:
    return [pytest.param(source, *row, id=name) for name, row in table.items()]


@pytest.mark.parametrize(
    ("source", "old", "new", "line", "words"),
    [*cases(CHAPTER_SOURCE, HEADERS), *cases(LAB_SOURCE, ROLES), *cases(LAB_SOURCE, REGIONS)],
)
def test_a_mistyped_source(
    course: Path, source: str, old: str, new: str, line: int | None, words: str
) -> None:
    edit(course, source, old, new)
    before = files(course)
    with pytest.raises(Refused) as refused:
        build(course)
    assert files(course) == before
    where = f"{source}:{line}: " if line else f"{source}: "
    hits = [str(p) for p in refused.value.problems if words in str(p) and str(p).startswith(where)]
    assert hits, str(refused.value)
    assert said(course) == [str(problem) for problem in refused.value.problems]
    assert all("\n" not in str(problem) for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(
            "# Give the strides of a contiguous tensor.",
            "# Try `step *= max(size, 1)`, then go on.\n# `step *= max(size, 1)`",
            "cell ask-strides: shows the solution line 'step *= max(size, 1)'",
            id="solution line in prose",
        ),
        pytest.param(
            "import math\n",
            "import math\n\n# return tuple(reversed(strides))  # not yet\n",
            "cell setup: shows the solution line 'return tuple(reversed(strides))'",
            id="commented solution line",
        ),
        pytest.param(
            "# Give the strides of a contiguous tensor.",
            "# Because `reshape` cannot express it as strides.",
            "cell ask-strides: shows the solution line",
            id="model answer in prose",
        ),
        pytest.param(
            "# Give the strides of a contiguous tensor.",
            "# Try `sizes = [max(size, 1) for size in shape]`.\n#\n"
            "# `sizes = [max(size, 1) for size in shape]`",
            "cell ask-strides: shows the solution line 'sizes = [max(size, 1) for size in shape]'",
            id="line of an alternative in prose",
        ),
        pytest.param(
            'def contiguous_strides(shape):\n    """Strides, in elements, of a contiguous tensor of'
            ' this shape."""\n    ### BEGIN SOLUTION\n    strides, step = [], 1',
            "### BEGIN SOLUTION\ndef contiguous_strides(shape):\n    strides, step = [], 1",
            "cell contiguous_strides: its solution region is outside a function",
            id="region around the function",
        ),
        pytest.param(
            "class Counter:\n",
            "class Counter:\n    ### BEGIN SOLUTION\n    start = abs(1)\n    ### END SOLUTION\n",
            "cell Counter: its solution region is outside a function",
            id="region in a class body",
        ),
    ],
)  # fmt: skip
def test_a_student_version_that_would_leak_or_stop(
    course: Path, old: str, new: str, words: str
) -> None:
    edit(course, LAB_SOURCE, old, new)
    if "def contiguous_strides" in new:
        edit(course, LAB_SOURCE, "    ### END SOLUTION\n\n\n# %% id=\"contiguous_strides_check\"",
             "### END SOLUTION\n\n\n# %% id=\"contiguous_strides_check\"")  # fmt: skip
    with pytest.raises(Refused) as refused:
        build(course)
    assert str(refused.value).startswith(f"{STUDENT}: {words}")


def test_a_refusal_of_nbgrader_is_a_sentence(
    course: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no such stub")

    monkeypatch.setattr("nbgrader.preprocessors.ClearSolutions.preprocess_cell", refuse)
    (problem,) = said(course)
    assert problem.startswith("solutions: nbgrader's generate_assignment refused: ")
    assert "RuntimeError: no such stub" in problem
    assert capfd.readouterr().err == ""


def test_a_student_cell_that_is_not_python_without_its_solution(course: Path) -> None:
    edit(course, LAB_SOURCE, "strides, step = [], 1", "else_ = 1\n    try:\n        pass")
    edit(course, LAB_SOURCE, "    return tuple(reversed(strides))\n    ### END SOLUTION",
         "    ### END SOLUTION\n    except ValueError:\n        return None")  # fmt: skip
    edit(course, LAB_SOURCE, "    for size in reversed(shape):\n        strides.append(step)\n", "")
    edit(course, LAB_SOURCE, "        # a size of 0 still counts as one step\n        step *= max(size, 1)\n", "")  # fmt: skip
    with pytest.raises(
        Refused, match="cell contiguous_strides: without its solution the cell is not"
    ):
        build(course)


# Faults on disk: what somebody did to a committed notebook.


def plant(name: str, **values: Any) -> Callable[[Cells], None]:
    return lambda cells: cells[name].update(values)


OUTPUT = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
ON_DISK = {
    "edited text": (CHAPTER_NOTEBOOK, plant("fold", source="Other."), "cell fold: differs; rebuild"),
    "outputs": (CHAPTER_NOTEBOOK, plant("look", outputs=[OUTPUT]), "cell look: has outputs"),
    "count": (CHAPTER_NOTEBOOK, plant("look", execution_count=3), "cell look: has an execution count"),
    "attachment": (CHAPTER_NOTEBOOK, plant("fold", attachments={"a": {}}), "cell fold: has an attachment"),
    "another id": (CHAPTER_NOTEBOOK, plant("fold", id="bend"), "cell bend: is not in the source"),
    "cell lost": (CHAPTER_NOTEBOOK, plant("fold", id="bend"), "cell fold: is missing"),
    "id lost": (CHAPTER_NOTEBOOK, lambda cells: cells["fold"].pop("id"), "cell number 4: has no id"),
    "id twice": (CHAPTER_NOTEBOOK, plant("fold", id="look"), "cell look: 2 cells have this id"),
    "bad id": (CHAPTER_NOTEBOOK, plant("fold", id="a b"), "cell a b: its id is not 1 to 64"),
    "points gone": (
        LAB_NOTEBOOK,
        lambda cells: cells["Counter_check"]["metadata"]["nbgrader"].pop("points"),
        "cell Counter_check: is graded but has no points",
    ),
    "grade id moved": (
        LAB_NOTEBOOK,
        lambda cells: cells["Counter"]["metadata"]["nbgrader"].update(grade_id="cell-3f"),
        "cell Counter: its nbgrader grade_id is 'cell-3f'",
    ),
    "checksum moved": (
        STUDENT,
        lambda cells: cells["Counter"]["metadata"]["nbgrader"].update(checksum="0" * 32),
        "cell Counter: differs; rebuild",
    ),
    "marker": (STUDENT, plant("setup", source="### END SOLUTION"), "shows the solution marker '### END"),
    "marker, other spelling": (STUDENT, plant("setup", source="# Begin solution"), "shows the solution marker"),
    "solution line": (
        STUDENT,
        plant("setup", source=["import math\n", "#   strides.append(step)"]),
        "cell setup: shows the solution line 'strides.append(step)'",
    ),
    "answer that stops": (
        STUDENT,
        plant("Counter", source="raise NotImplementedError"),
        "cell Counter: its solution region is outside a function",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "change", "words"), ON_DISK.values(), ids=ON_DISK)
def test_a_notebook_that_was_changed(
    course: Path, path: str, change: Callable[[Cells], object], words: str
) -> None:
    tamper(course, path, change)
    problems = said(course)
    assert any(p.startswith(f"{path}: ") and words in p for p in problems), problems
    assert all(p.startswith(f"{path}: ") for p in problems), problems
    build(course)
    assert drift(course) == ()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"[]", b"{", b'{"cells": 3}', b'{"cells": [1]}', b"[" * 100_000,
     b'{"cells": [{"metadata": {}, "source": [1]}]}'],
    ids=["empty", "bytes", "list", "torn", "cells 3", "cell 1", "deep", "source 1"],
)  # fmt: skip
def test_a_notebook_that_is_none(course: Path, content: bytes) -> None:
    (course / STUDENT).write_bytes(content)
    assert said(course) == [f"{STUDENT}: is not a notebook; rebuild it from its source"]


@pytest.mark.parametrize("path", [CHAPTER_NOTEBOOK, LAB_NOTEBOOK, STUDENT])
def test_a_notebook_that_is_missing(course: Path, path: str) -> None:
    (course / path).unlink()
    assert said(course) == [f"{path}: is missing; rebuild it from its source"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: json.dumps(json.loads(text)) + "\n",
        lambda text: text.replace('"display_name": "Python 3"', '"display_name": "conda"'),
    ],
    ids=["no last newline", "CRLF", "one line", "kernel"],
)
def test_a_notebook_that_differs_in_form_only(course: Path, change: Callable[[str], str]) -> None:
    path = course / CHAPTER_NOTEBOOK
    path.write_bytes(change(path.read_text(encoding="utf-8")).encode())
    (problem,) = said(course)
    assert problem.startswith(f"{CHAPTER_NOTEBOOK}: differs in its order, metadata or format")


@pytest.mark.parametrize(
    "path", ["notebooks/02_old.ipynb", "labs/02_old/02_old.ipynb", "labs/x.ipynb"]
)
def test_a_notebook_without_a_source(course: Path, path: str) -> None:
    (course / path).parent.mkdir(exist_ok=True)
    shutil.copy(course / CHAPTER_NOTEBOOK, course / path)
    assert said(course) == [f"{path}: has no source; remove it or add the source"]
    assert build(course).removed == (path,)


def test_a_solution_beside_the_students_notebook(course: Path) -> None:
    write(course, "labs/01_strides/notes.txt", "first\n  step *= max(size, 1)\n")
    assert said(course) == [
        "labs/01_strides/notes.txt: shows the solution line 'step *= max(size, 1)'"
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("notebooks/strides.py", "notebooks/strides.py: a chapter is called NN_topic.py"),
        ("notebooks/1_strides.py", "notebooks/1_strides.py: a chapter is called NN_topic.py"),
        ("solutions/02_x/2_x.py", "solutions/02_x/02_x.py: the lab's source is missing"),
        ("solutions/two/two.py", "solutions/two: a lab's folder is called NN_topic"),
    ],
)
def test_a_source_that_no_build_would_find(course: Path, path: str, words: str) -> None:
    write(course, path, '# %% [markdown] id="a"\n# # A\n')
    assert any(problem.startswith(words) for problem in said(course))
    with pytest.raises(Refused):
        build(course)


def test_nothing_to_build_is_a_failure(tmp_path: Path) -> None:
    assert [p.split(":")[1] for p in said(tmp_path)] == [" found nothing to build"]
    with pytest.raises(Refused, match="found nothing to build"):
        build(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe", b"x\x00y"])
def test_a_source_that_is_empty_or_no_text(course: Path, content: bytes) -> None:
    (course / CHAPTER_SOURCE).write_bytes(content)
    (problem,) = said(course)
    assert problem.startswith(CHAPTER_SOURCE)


def test_all_faults_of_all_sources_are_told_at_once(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, 'id="look"', 'id="look me"')
    edit(course, CHAPTER_SOURCE, ' id="fold"', "")
    edit(course, LAB_SOURCE, "points=2", "points=two")
    told = said(course)
    assert [p.split(": ")[0] for p in told] == [
        f"{CHAPTER_SOURCE}:5", f"{CHAPTER_SOURCE}:12", f"{LAB_SOURCE}:29",
    ]  # fmt: skip


def test_a_refused_source_does_not_hide_what_lies_on_disk(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, 'id="look"', "id=look")
    tamper(course, STUDENT, plant("setup", source="### BEGIN SOLUTION"))
    assert any("shows the solution marker" in problem for problem in said(course))


# The command.


def run(course: Path, *arguments: str) -> tuple[int, list[str], str]:
    done = CliRunner().invoke(main, ["build", "--root", str(course), *arguments])
    return done.exit_code, done.stdout.splitlines(), done.stderr


def test_the_command_says_what_changed(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, "Where does", "Where exactly does")
    shutil.copy(course / CHAPTER_NOTEBOOK, course / "notebooks/02_old.ipynb")
    assert run(course) == (
        0,
        [f"wrote    {CHAPTER_NOTEBOOK}", "removed  notebooks/02_old.ipynb",
         "3 of 4 notebooks were up to date."],
        "",
    )  # fmt: skip
    assert run(course, "--check")[0] == 0


@pytest.mark.parametrize("flags", [(), ("--check",)])
def test_the_command_fails_with_a_line_per_problem(course: Path, flags: tuple[str, ...]) -> None:
    long = "x" * 200
    edit(course, CHAPTER_SOURCE, 'id="look"', f'id="look" {long}=["[red]"]')
    code, out, told = run(course, *flags)
    assert (code, out) == (1, [])
    assert f"unknown key '{long}'" in told.splitlines()[0]
    assert told.splitlines()[0].startswith(f"{CHAPTER_SOURCE}:5: cell look: ")
    assert told.splitlines()[1:] == ["1 problem."]
