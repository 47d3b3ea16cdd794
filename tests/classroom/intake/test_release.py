"""The lab as it was given out: which of its cells are whose, and where a course lies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.attacks.sample_class import ROOT
from autograder.classroom.errors import UserError
from autograder.classroom.intake import release as released
from autograder.classroom.intake.release import Release, course_folder, graded, releases
from autograder.judge import Draw, Lab, Student


def cell(name: str, *lines: str, kind: str = "code", **metadata: Any) -> dict[str, Any]:
    """A cell as a notebook holds it. metadata: its tags, or what nbgrader says of it."""
    source = "\n".join(lines).splitlines(keepends=True)
    return {"id": name, "cell_type": kind, "source": source, "metadata": metadata}


ASKED = {"grade": True, "solution": True}
CELLS = [
    cell("title", "# Sums", kind="markdown"),
    cell("told", "import evil", kind="markdown", tags=["setup"]),
    cell("setup", "import math", tags=["setup", "hide"]),
    cell("picture", "show()", tags=["hide"]),
    cell("total", "def helper(): ...", "def total(x):", "    return x", nbgrader=ASKED),
    cell("total_check", "check('total')", nbgrader={"grade": True, "solution": False}),
    cell("again", "import cmath", tags=["setup"]),
    cell("mean", "async  def average(x): ...", "class Other: ...", nbgrader=ASKED),
    cell("kind", "x = 1", "  def inner(): ...", nbgrader=ASKED),
    cell("why", "Say why.", kind="markdown", nbgrader=ASKED),
    cell("end", "Two", "lines.", kind="markdown", nbgrader={"solution": False}),
]


def notebook(cells: list[dict[str, Any]]) -> bytes:
    return json.dumps({"cells": cells}).encode()


def in_spanish() -> list[dict[str, Any]]:
    told = {"title": "# Sumas", "why": "Diga por qué.", "end": "Fin."}
    return [one | {"source": told.get(one["id"], one["source"])} for one in CELLS]


def lab() -> Lab:
    made = Lab("01_strides", "Sums")
    about: dict[str, Any] = {"points": 1.0, "minutes": 1, "difficulty": 1, "hints": ("a", "b", "c")}
    needs: dict[str, dict[str, Any]] = {
        "total": {"budget_s": 20.0, "device_share": 0.25},
        "mean": {"loopback": True},
        "kind": {"budget_s": 5.5, "device_share": 0.5},
    }
    for name, more in needs.items():

        @made.question(name, **about, **more)
        def check(student: Student, draw: Draw) -> None:
            """Whatever it is."""

    return made


RELEASE = Release(lab(), notebook(CELLS), twins={"es": notebook(in_spanish())})


def ids(cells: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in cells]


def test_a_release_knows_whose_its_cells_are() -> None:
    assert RELEASE.name == "01_strides"
    assert ids(RELEASE.cells) == ids(CELLS)
    assert RELEASE.cells[-1]["source"] == "Two\nlines."
    assert list(RELEASE.answers) == ["total", "mean", "kind", "why"]
    assert RELEASE.answers["why"] == {**CELLS[-2], "source": "Say why."}
    assert ids(RELEASE.setup) == ["setup", "again"]
    assert ids(RELEASE.replayed) == ["setup", "total", "again", "mean", "kind"]
    assert RELEASE.before_answers == 1


def test_an_answer_must_define_what_it_is_called_after_else_what_comes_first() -> None:
    assert RELEASE.functions == {"total": "total", "mean": "average"}


def test_a_cell_of_no_grading_has_no_metadata_of_it() -> None:
    assert [dict(graded(one)) for one in (CELLS[0], CELLS[4])] == [{}, ASKED]


def test_each_language_says_its_prose_and_no_answer() -> None:
    assert RELEASE.told_in("es") == {"title": "# Sumas", "told": "import evil", "end": "Fin."}
    assert RELEASE.told_in("en") == RELEASE.told_in("fr") == {}
    assert RELEASE.given["title"] == {"# Sums", "# Sumas"}
    assert RELEASE.given["setup"] == {"import math"}


def test_a_release_needs_what_its_questions_need() -> None:
    assert (RELEASE.budgets_s, RELEASE.loopback, RELEASE.device_share) == (25.5, True, 0.5)
    nothing = replace(RELEASE, lab=Lab("01_strides", "Sums"))
    assert (nothing.budgets_s, nothing.loopback, nothing.device_share) == (0.0, False, 0.0)


def test_a_version_changes_with_all_that_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a line moves from the end of one file to the beginning of the next."""

    def version(*texts: str, notebook: bytes = RELEASE.notebook) -> str:
        files = [tmp_path / f"{n}.py" for n in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        decide = {RELEASE.name: files}
        monkeypatch.setattr(released, "deciding_files", decide.__getitem__)
        return replace(RELEASE, notebook=notebook).version

    known = version("a = 1\nb = 2\n", "c = 3\n")
    assert known == version("a = 1\nb = 2\n", "c = 3\n")
    others = [
        version("a = 2\nb = 2\n", "c = 3\n"),
        version("a = 1\nb = 2\n", "c = 4\n"),
        version("a = 1\n", "b = 2\nc = 3\n"),
        version("a = 1\nb = 2\n"),
        version("a = 1\nb = 2\n", "c = 3\n", notebook=notebook(CELLS[:-1])),
    ]
    assert len({known, *others}) == 6


def given_out(course: Path, *paths: str) -> Path:
    """A course in which notebooks lie at these paths, each of which says where it lies."""
    for path in paths:
        place = course / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)
    return course


STRIDES = "labs/01_strides/01_strides.ipynb"


class TestCourseFolder:
    def test_is_the_nearest_that_has_labs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outer = given_out(tmp_path, STRIDES)
        inner = given_out(tmp_path / "mine" / "copy", STRIDES)
        (inner / "labs" / "notes").mkdir()
        (tmp_path / "mine" / "labs").mkdir()
        assert course_folder(outer) == outer
        assert course_folder(outer / "mine") == outer
        assert course_folder(inner / "labs" / "01_strides") == inner
        monkeypatch.chdir(inner / "labs")
        assert course_folder(Path()) == inner
        assert course_folder(Path("notes")) == inner

    def test_is_where_the_package_lies_where_nobody_named_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert course_folder(Path()) == ROOT
        with pytest.raises(UserError, match=rf"no labs/ folder in {tmp_path} .*--course DIR"):
            course_folder(tmp_path)


class TestReleases:
    def test_are_the_labs_that_have_questions_and_a_notebook(self, tmp_path: Path) -> None:
        known = releases(given_out(tmp_path, STRIDES, "labs/99_none/99_none.ipynb"))
        assert list(known) == ["01_strides"]
        assert len(known) == 1
        assert "01_strides" in known
        assert known["01_strides"].lab.name == "01_strides"
        assert known["01_strides"].notebook == STRIDES.encode()
        for other in ("02_dispatcher", "99_none", "01"):
            assert other not in known
            assert known.get(other) is None

    def test_are_read_once(self, tmp_path: Path) -> None:
        """A class is graded by the lab as it was when grading began."""
        known = releases(given_out(tmp_path, STRIDES))
        first = known["01_strides"]
        (tmp_path / STRIDES).write_text("another")
        assert known["01_strides"] is first

    def test_have_solutions_and_other_languages_where_they_lie_there(self, tmp_path: Path) -> None:
        solved = STRIDES.replace("labs", "solutions")
        alone = releases(given_out(tmp_path, STRIDES, f"old/{STRIDES}", f"E2/{STRIDES}"))
        assert alone["01_strides"].instructor is None
        assert alone["01_strides"].twins == {}
        course = given_out(tmp_path, solved, f"es/{STRIDES}", f"de/{STRIDES}")
        all_of_it = releases(course)["01_strides"]
        assert all_of_it.instructor == solved.encode()
        assert all_of_it.twins == {code: f"{code}/{STRIDES}".encode() for code in ("de", "es")}
