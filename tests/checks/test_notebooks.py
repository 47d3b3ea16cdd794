"""The committed notebooks run: chapters whole, labs untouched, solutions to full marks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_cache import get_cache
from nbclient import NotebookClient

from autograder.authoring.arrival import ID as ARRIVAL
from book.__main__ import code_hash
from book.pages import without_marks
from tests import samples

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
LABS = sorted((ROOT / "labs").glob("*/*.ipynb"))
STOPPED = "This cell goes on with an answer above, and stopped"
SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))


def name_of(path: Path) -> str:
    return path.stem


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))


def executed(path: Path) -> Any:
    """The notebook after a run from top to bottom. An error fails."""
    notebook: Any = nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(cwd=str(path.parent))
    return notebook


def on_the_site(path: Path) -> Any | None:
    """The notebook as the site's build ran it, where it ran these cells over this very code; a
    solution as part of its lab's page, which has a stub more above each answer. Within `make test`
    that was minutes ago, in the same worker (tests/conftest.py)."""
    built = ROOT / "build" / "book"
    of_a_lab = path.relative_to(ROOT).as_posix().replace("solutions/", "labs/")
    page, cache = built / "pages-public" / of_a_lab, built / f"cache-{code_hash()}"
    if not (page.is_file() and cache.is_dir()):
        return None
    staged: Any = nbformat.reads(page.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    asked = sources(nbformat.reads(path.read_text("utf-8"), as_version=4))  # type: ignore[no-untyped-call]
    if [source for source in sources(staged) if source in asked] != asked:
        return None
    kept = get_cache(cache)
    try:
        return kept.get_cache_bundle(kept.match_cache_notebook(staged).pk).nb
    except KeyError:
        return None


def sources(notebook: Any) -> list[str]:
    """Of the cells that run, without the lines by which a build knows an answer; the cell that
    brings the course runs in every lab, too."""
    cells = [c for c in notebook.cells if c.cell_type == "code" and c.id != ARRIVAL]
    return [without_marks(cell.source) for cell in cells]


def outputs(notebook: Any) -> dict[str, str]:
    """What each code cell shows as text, by cell id."""
    shown = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
            shown[cell.id] = "\n".join(texts)
    return shown


def checks(notebook: Any) -> dict[str, str]:
    return {name: text for name, text in outputs(notebook).items() if name.endswith("_check")}


def passes(name: str, text: str) -> bool:
    """What the head of a check's text says: a hint below it may speak of a pass of a compiler."""
    return text.startswith(f"{name.removesuffix('_check')}   pass   ")


def test_there_is_something_to_run() -> None:
    assert CHAPTERS
    assert [p.name for p in LABS] == [p.name for p in SOLUTIONS]


def impossible(notebook: Any) -> list[str]:
    """The predictions of a chapter that was run whose answer is none of the choices."""
    sources = {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}
    offered, answers = {}, {}
    for name, text in outputs(notebook).items():
        key = re.search(r'\b(?:predict|reveal)\(\s*"(\w+)"', sources[name])
        answer = re.search(r"^It is (.+)\. No guess yet", text, re.MULTILINE)
        if key and answer:
            answers[key[1]] = answer[1]
        elif key:
            offered[key[1]] = re.findall(r"^  \( \) (.+)$", text, re.MULTILINE)
    assert answers
    assert answers.keys() == offered.keys()
    return [key for key, answer in answers.items() if answer not in (offered[key] or [answer])]


def test_an_answer_that_nobody_could_choose_is_found() -> None:
    def cell(source: str, text: str) -> Any:
        output = nbformat.v4.new_output("stream", text=text)  # type: ignore[no-untyped-call]
        return nbformat.v4.new_code_cell(source, outputs=[output])  # type: ignore[no-untyped-call]

    asked = cell('predict("n", choices=[1, 2])', "Your guess:\n  ( ) 1\n  ( ) 2")
    for answer, found in ((2, []), (3, ["n"])):
        told = cell(f'reveal("n", {answer})', f"It is {answer}. No guess yet: scroll up and try.")
        notebook = nbformat.v4.new_notebook(cells=[asked, told])  # type: ignore[no-untyped-call]
        assert impossible(notebook) == found


@pytest.mark.kernel
@pytest.mark.parametrize("path", CHAPTERS, ids=name_of)
def test_a_chapter_runs_without_stderr_and_offered_every_answer(path: Path) -> None:
    notebook = on_the_site(path) or executed(path)
    assert impossible(notebook) == []
    noise = [
        (cell.id, o.text)
        for cell in notebook.cells
        for o in cell.get("outputs", [])
        if o.get("name") == "stderr"
    ]
    assert not noise


@pytest.mark.kernel
@pytest.mark.parametrize("path", CHAPTERS, ids=name_of)
def test_every_prediction_of_a_chapter_is_revealed(path: Path) -> None:
    source = path.with_suffix(".py").read_text("utf-8")
    predicted = set(re.findall(r'predict\(\s*"(\w+)"', source))
    revealed = set(re.findall(r'reveal\(\s*"(\w+)"', source))
    assert predicted == revealed
    assert len(predicted) >= 5


@pytest.mark.kernel
@pytest.mark.parametrize("path", samples.sample(LABS, [LABS[1], LABS[6]]), ids=name_of)
def test_an_untouched_lab_runs_and_scores_nothing(path: Path) -> None:
    shown = checks(executed(path))
    assert len(shown) >= 6
    for name, text in shown.items():
        assert "not answered yet" in text, name


@pytest.mark.kernel
@pytest.mark.parametrize("path", samples.sample(LABS, [LABS[0]]), ids=name_of)
def test_a_lab_of_wrong_answers_runs_to_its_end(path: Path) -> None:
    """Run All Cells meets no error in a cell that goes on with an answer, and `progress()` runs."""
    notebook: Any = nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = re.sub(r"raise NotImplementedError\(.*", "return None", cell.source)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(path.parent))
    shown = outputs(notebook)
    assert not [name for name, text in checks(notebook).items() if passes(name, text)]
    assert path != LABS[0] or any(text.startswith(STOPPED) for text in shown.values())
    assert "points" in list(shown.values())[-1]


@pytest.mark.kernel
@pytest.mark.parametrize("path", SOLUTIONS, ids=name_of)
def test_the_solution_passes_every_check(path: Path) -> None:
    asked = nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    names = {c.id for c in asked.cells if c.id.endswith("_check")}
    ran = on_the_site(path) or executed(path)
    unused = re.compile(f"Answer .* first|{STOPPED}")
    assert not list(filter(unused.match, outputs(ran).values()))
    shown = checks(ran)
    assert shown.keys() == names
    for name, text in shown.items():
        assert passes(name, text), f"{name}: {text}"
