"""Which pages are staged, what stands on them, and what happens to those that are no more."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.address import BRANCH, REPOSITORY
from autograder.authoring.plan import plan
from book import map_of_units, pages, under_title, unit
from book.__main__ import build
from book.pages import Audience, _clear
from book.unit import ROOT

PLAN = plan(ROOT)


def test_pages_that_are_no_more_go_with_their_folders(tmp_path: Path) -> None:
    """Folders were once removed while they were looked for, and the search fell over their gaps."""
    kept, gone = "labs/00/00.ipynb", [f"labs/{n:02}/inside/{n}.ipynb" for n in range(1, 20)]
    for name in [kept, *gone, "units.md", "old/notes.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("page")
    _clear(tmp_path, keep={kept: "page"})
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"units.md", "labs", "labs/00", kept}


def test_the_readme_shows_the_units_as_they_are() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert map_of_units.in_readme(text, PLAN) == text, "python -m book.map_of_units"
    assert all(one.title.partition(": ")[2] in text for one in unit.units(PLAN))


def test_every_page_of_docs_stands_in_a_list_of_pages() -> None:
    """Sphinx refuses one that does not, ten minutes into the site's build."""
    lists = "".join(path.read_text("utf-8") for path in (ROOT / "book").glob("*.md"))
    pages = {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")}
    assert pages <= set(lists.splitlines())


@pytest.mark.slow
def test_what_a_cell_prints_stays_a_line_and_stays_above_its_picture(tmp_path: Path) -> None:
    """A kernel would send a line in two pieces, each the beginning of a line; and where all that
    was printed became one, what belonged to the second picture stood above the first."""
    staged, site = tmp_path / "pages", tmp_path / "html"
    staged.mkdir()
    code = (
        "import time\nfrom IPython.display import HTML, display\n"
        "print('one,', end=' ')\ntime.sleep(1)\nprint('two')\n"
        "display(HTML('<b>first picture</b>'))\nprint('three')\n"
        "display(HTML('<b>second picture</b>'))"
    )
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), staged / "index.ipynb")
    assert build(staged, site, trees=tmp_path / "trees", cache=tmp_path / "cache") == 0
    shown = (site / "index.html").read_text("utf-8").partition("cell_output")[2]
    parts = ("one, two\n", "<b>first picture</b>", "three\n", "<b>second picture</b>")
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)


def told(cells: list[Any]) -> list[tuple[str, str]]:
    """Each cell's name and text, without what is said to tools."""
    return [(one["id"], pages.TO_TOOLS.sub("", "".join(one["source"]))) for one in cells]


def test_a_check_says_whose_answer_it_asked_and_nobody_elses_progress_is_shown() -> None:
    """A reader saw a stub, below it "pass", and at the end the points of whoever built the site."""
    cells = pages.lab_page(PLAN.labs[6], Audience.PUBLIC)["cells"]
    by_name = {one["id"]: one for one in cells}
    above = {one["id"]: before for before, one in itertools.pairwise(cells)}
    asked = [name for name in by_name if name.endswith("_check")]
    assert asked
    assert all("folded solution" in above[name]["source"] for name in asked)
    assert "remove-output" in by_name[pages.PROGRESS]["metadata"]["tags"]
    assert pages.FOLD in by_name["bench"]["metadata"]["tags"]  # as its text says


def test_what_is_said_to_tools_is_on_no_page(tmp_path: Path) -> None:
    pages.stage(PLAN, Audience.PUBLIC, tmp_path)
    for path in tmp_path.rglob("*.ipynb"):
        assert "# fmt: skip" not in path.read_text("utf-8"), path


def test_a_class_gets_no_solution(tmp_path: Path) -> None:
    """Its lab pages are the notebooks that a student gets, cell by cell."""
    pages.stage(PLAN, Audience.CLASS, tmp_path)
    assert PLAN.labs
    for lab in PLAN.labs:
        page = json.loads((tmp_path / lab.student).read_text("utf-8"))
        student = json.loads((ROOT / lab.student).read_text("utf-8"))
        title, *cells = [c for c in student["cells"] if c["id"] != "bring-the-course"]
        shown, *others = page["cells"]
        assert told(others) == told(cells)
        line = under_title.lines(unit.units(PLAN))[lab.student]
        assert shown["source"] == under_title.placed("".join(title["source"]), line)
    assert not (tmp_path / "solutions").exists()


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    """Sphinx would run it again."""
    (tmp_path / "old.md").write_text("# A page of an earlier course\n")
    for _ in range(2):
        pages.stage(PLAN, Audience.PUBLIC, tmp_path)
        map_of_units.write(PLAN, tmp_path)
        written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
        if _ == 0:
            first = written
    assert written == first
    assert tmp_path / "old.md" not in written
    assert len(written) > len(PLAN.chapters) + len(PLAN.labs)


def test_a_link_to_what_is_no_page_leads_to_the_repository() -> None:
    text = "[a](../CONTRIBUTING.md#the-matrix) [b](matrix.md) [c](https://pytorch.org/x)"
    below = pages._outward("[found](gpu/found.md)", "docs/one.md")  # of a folder, no page is made
    assert below == f"[found]({REPOSITORY}/blob/{BRANCH}/docs/gpu/found.md)"
    assert pages._outward(text, "docs/one.md") == (
        f"[a]({REPOSITORY}/blob/{BRANCH}/CONTRIBUTING.md#the-matrix) [b](matrix.md) "
        "[c](https://pytorch.org/x)"
    )
