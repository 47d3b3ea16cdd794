"""`progress()`: each lab's points; every question's state, points and hints where a lab is begun or
is this notebook's own; the predictions; the total.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from autograder.checks import labs as all_labs
from autograder.judge import Lab, Question, content, say
from autograder.judge.verdict import NOT_YET

from . import kernel
from .card import Shown, calmly, card, fold, prose, quiet, toned
from .progress_store import MAX_HINTS, Prediction, Progress, progress_store

HEADS = ("question", "state", "points", "hints")
"""Of the columns, as keys."""


@dataclass(frozen=True)
class Row:
    """One line of a lab's table, in words but for the state. number: "1.2". about: what is asked,
    in a sentence. earned: points. is_begun: whether it was answered, or a hint was taken."""

    number: str
    question: str
    about: str
    state: str
    points: str
    hints: str
    earned: float
    is_begun: bool

    @property
    def cells(self) -> tuple[str, ...]:
        name = f"{self.number} {self.question}"
        return (name, say(f"mark.{self.state}"), self.points, self.hints)


def progress() -> Shown:
    """Shows what you have answered, the hints you used, and how well you predicted."""
    return calmly(overview, "progress()")


def overview(labs: Iterable[Lab] | None = None) -> Shown:
    """Like `progress`, of `labs`."""
    kept = progress_store().read()
    course = list(all_labs() if labs is None else labs)
    tables = [(lab, _rows(lab, kept.progress)) for lab in course]
    total, following = _total(course, kept.progress), _next(tables)
    remarks = [_guesses(kept.progress, lab.name) for lab in course]
    text = [total, *([following, ""] if following else [])]
    text += [
        line
        for table, remark in zip(tables, remarks, strict=True)
        for line in _text(*table, remark)
    ]
    head = f"<p><strong>{escape(total)}</strong></p>{_strip(tables)}"
    head += f"<p>{prose(following)}</p>" if following else ""
    body = "".join(_html(*table, remark) for table, remark in zip(tables, remarks, strict=True))
    feet = [say("by_a_person")] if course else []
    feet += [kept.note] if kept.note else []
    body = f"{head}{body}{''.join(map(quiet, feet))}"
    return Shown("\n".join(text + feet), card(body, label=say("label.progress"), role="group"))


def _rows(lab: Lab, progress: Progress) -> list[Row]:
    rows = []
    for question in lab:
        asked = progress.asked(question.name)
        earned = min(asked.points, question.points)
        points = say("of", part=earned, whole=question.points)
        hints = say("of", part=asked.hints, whole=MAX_HINTS)
        is_begun = asked.state != NOT_YET or asked.hints > 0
        number = question.title.removeprefix("Lab ")
        named = (number, question.name, _about(question))
        rows.append(Row(*named, asked.state, points, hints, earned, is_begun))
    return rows


def _about(question: Question) -> str:
    """What is asked, in the words of the check: "The place in the storage of an element"."""
    first, *_ = (inspect.getdoc(question.check) or "").partition("\n\n")
    return content(" ".join(first.split()).partition(". ")[0].rstrip("."))


def _next(tables: Sequence[tuple[Lab, list[Row]]]) -> str:
    """Where to go on: in this notebook's lab, in one that is begun, or in the first one; "" where
    there is no question at all."""
    here = kernel.unit()
    labs = sorted(
        tables, key=lambda table: (table[0].name != here, not any(r.is_begun for r in table[1]))
    )
    found = (row for _, rows in labs for row in rows if row.state != "pass")
    row = next(found, None)
    if row is None:
        return say("all_done") if any(rows for _, rows in tables) else ""
    return say("next_question", number=row.number, name=row.question, about=row.about)


def _strip(tables: Sequence[tuple[Lab, list[Row]]]) -> str:
    """A bar for each lab, as wide as its points, filled as far as they are earned."""
    bars = ""
    for lab, rows in tables:
        earned = sum(row.earned for row in rows)
        share = earned / lab.max_points if lab.max_points else 0.0
        score = say("score", points=earned, n=lab.max_points)
        bars += (
            f'<span class="ol-lab" style="flex:{lab.max_points:g}" title="{lab.name[:2]}: {score}">'
            f'<span style="width:{share:.0%}"></span></span>'
        )
    return f'<div class="ol-strip" aria-hidden="true">{bars}</div>' if bars else ""


def points(labs: Iterable[Lab], progress: Progress) -> float:
    """Earned so far in `labs`."""
    return sum(min(progress.asked(q.name).points, q.points) for lab in labs for q in lab)


def _total(labs: Sequence[Lab], progress: Progress) -> str:
    most = sum(lab.max_points for lab in labs)
    guesses = _in_words(list(progress.predictions.values()))
    return say("total", points=points(labs, progress), most=most, predictions=guesses)


def _guesses(progress: Progress, unit: str) -> str:
    found = [p for p in progress.predictions.values() if p.unit == unit]
    return say("here", predictions=_in_words(found)) if found else ""


def _in_words(predictions: Sequence[Prediction]) -> str:
    made, right = len(predictions), sum(p.right is True for p in predictions)
    return say("predictions", n=made, right=right)


def _is_near(lab: Lab, rows: list[Row]) -> bool:
    """Whether a reader wants its questions now: this notebook is its own, or it is begun."""
    return any(row.is_begun for row in rows) or kernel.unit() == lab.name


def _text(lab: Lab, rows: list[Row], remark: str) -> list[str]:
    title = say("lab", name=lab.name, title=content(lab.title))
    if not _is_near(lab, rows):
        return [
            f"{title}   {say('score', points=0, n=lab.max_points)}",
            *([f"  {remark}"] if remark else []),
        ]
    table = [tuple(say(f"head.{name}") for name in HEADS), *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  " + "   ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    ]
    return [title, *lines, *([f"  {remark}"] if remark else []), ""]


def _html(lab: Lab, rows: list[Row], remark: str) -> str:
    """A lab's table, behind a fold that is open where somebody works."""
    head = "".join(
        f'<th scope="col"{_aligned(k)}>{say(f"head.{name}")}</th>' for k, name in enumerate(HEADS)
    )
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    label = escape(f"{lab.name}: {content(lab.title)}")
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    scrolled = f'<div class="ol-scroll"><table aria-label="{label}">{table}</div>'
    score = say("score", points=sum(row.earned for row in rows), n=lab.max_points)
    line = f"{lab.name}: {content(lab.title)}, {score}"
    return fold(line, scrolled + quiet(remark), is_open=_is_near(lab, rows))


def _cells(row: Row) -> str:
    _, *others = row.cells
    state = f"<td>{toned(row.state)}</td>"
    numbers = "".join(f'<td class="ol-number">{escape(cell)}</td>' for cell in others[1:])
    about = f'<br><span class="ol-quiet">{prose(row.about)}</span>' if row.about else ""
    head = f"{escape(row.number)} <code>{escape(row.question)}</code>{about}"
    return f'<th scope="row">{head}</th>{state}{numbers}'


def _aligned(column: int) -> str:
    return ' class="ol-number"' if column >= 2 else ""
