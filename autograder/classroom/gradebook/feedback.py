"""The page that a student gets back: the score, a row for each question, and below each question
with its answer, its verdict and what a person wrote.

nbgrader makes it as one of its own steps, from the notebook in `autograded/` and the gradebook. It
opens without a network, runs no script and forbids any (Content-Security-Policy).

This module imports nbgrader and nbconvert. Import it where it is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from nbconvert.exporters import Exporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import default

from autograder.judge import in_language, language, say

from .recorded import NO_RESPONSE, OURS

HERE = Path(__file__).parent
OPEN = "onelayer_unmarked"


class OpenMarks(NbGraderPreprocessor):  # type: ignore[misc]
    """Notes which cells a person has still to look at: nbgrader's GetGrades says zero of them."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        names = resources["nbgrader"]
        of = names["notebook"], names["assignment"], names["student"]
        with Gradebook(names["db_url"]) as gradebook:
            grades = gradebook.find_submission_notebook(*of).grades
            resources[OPEN] = {grade.name for grade in grades if grade.needs_manual_grade}
        return nb, resources


@dataclass
class Part:
    """A question of the page: the cells from its heading to the next one. rows: see `_row`."""

    title: str
    rows: list[dict[str, str]] = field(default_factory=list)
    cells: list[Any] = field(default_factory=list)


class FeedbackPage(Exporter):
    """nbgrader's exporter for feedback."""

    @default("file_extension")
    def suffix(self) -> str:
        return ".html"

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> Any:
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        ours = nb.metadata.get(OURS, {})
        told = ours.get("told", {})
        for cell in nb.cells:
            cell.source = told.get(cell.get("id"), cell.source)
        with in_language(ours.get("language", "en")):
            page = ENVIRONMENT.get_template("feedback.html.j2").render(
                **_totals(resources),
                title=_title(nb),
                file=ours.get("file", ""),
                parts=list(_parts(nb, resources)),
            )
        return page, resources


def _totals(resources: Any) -> dict[str, Any]:
    grades = {"score": 0.0, "max_score": 0.0, "late_penalty": 0.0} | resources.get("nbgrader", {})
    return {
        "points": max(0.0, grades["score"]),
        "max_points": grades["max_score"],
        "penalty": grades["late_penalty"],
        "open": bool(resources.get(OPEN)),
        "language": language(),
        "style": Markup((HERE / "feedback.css").read_text(encoding="utf-8")),
    }


def _title(nb: Any) -> str:
    """The notebook's first heading."""
    for cell in nb.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return str(cell.source.splitlines()[0][2:])
    return say("page.title")


def _parts(nb: Any, resources: Any) -> Iterator[Part]:
    """The questions. What stands in no question, such as the cell that installs the course, is
    left out."""
    part = Part("")
    for cell in nb.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            yield from [part] if part.rows else []
            part = Part(cell.source.splitlines()[0][3:].replace("`", ""))
        part.cells.append(_shown(cell))
        if is_grade(cell):
            part.rows.append(_row(cell, part, resources.get(OPEN, set())))
    yield from [part] if part.rows else []


def _row(cell: Any, part: Part, unmarked: set[str]) -> dict[str, str]:
    """What the table says of a graded cell. name: where it stands on the page."""
    ours, theirs = _verdict(cell), cell.metadata.nbgrader
    is_open, score = theirs.grade_id in unmarked, theirs.get("score") or 0
    return {
        "name": theirs.grade_id,
        "title": part.title or theirs.grade_id,
        "points": say("page.part", points=score, whole=theirs.points),
        "mark": "open" if is_open else ours.get("mark", ""),
        "why": say("page.for_a_person") if is_open else ours.get("why") or _of_a_text(cell),
    }


def _of_a_text(cell: Any) -> str:
    """What came of a free text that nobody is still to mark."""
    comment = cell.metadata.nbgrader.get("comment")
    return say("short.blank") if comment == NO_RESPONSE else say("page.by_a_person")


def _verdict(cell: Any) -> dict[str, str]:
    """What `recorded` noted at the verdict under a check cell."""
    outputs = cell.get("outputs", ())
    notes = [output.metadata[OURS] for output in outputs if OURS in output.get("metadata", {})]
    found: dict[str, str] = notes[0] if notes else {}
    return found


def _shown(cell: Any) -> dict[str, Any]:
    """A cell as the template takes it. html: what is shown; printed: by an answer; comment: of a
    person."""
    kind = "text" if cell.cell_type == "markdown" else "code"
    told = cell.metadata.get("nbgrader", {})
    if is_grade(cell) and not is_solution(cell):
        verdicts = (one.get("data", {}).get("text/html", "") for one in cell.get("outputs", ()))
        return {"kind": "check", "html": Markup("".join(verdicts)), "name": told["grade_id"]}
    html = _markdown(cell.source) if kind == "text" else _code(cell.source)
    made = {"kind": kind, "html": html, "name": ""}
    if is_solution(cell):
        printed = "".join(one.get("text", "") for one in cell.get("outputs", ()))
        comment = told.get("comment") or ""
        comment = _markdown(comment) if comment != NO_RESPONSE else ""
        made |= {"kind": f"answer {kind}", "printed": printed, "comment": comment}
        made["name"] = told["grade_id"] if is_grade(cell) else ""
    return made


def _markdown(source: str) -> Markup:
    """As nbconvert renders it. Of a student it is plain text by now: see `as_plain_text`."""
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return Markup(MarkdownWithMath(renderer=renderer).render(source))


def _code(source: str) -> Markup:
    return Markup(Highlight2HTML(pygments_lexer="python")(source))


ENVIRONMENT = Environment(
    loader=FileSystemLoader(HERE),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals["say"] = say
ENVIRONMENT.filters["plain"] = lambda points: f"{round(points, 2):.6g}"
