"""`progress()`: each lab's points; every question's state, points and hints where a lab is begun or
is this notebook's own; the predictions; the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from autograder.checks import labs as all_labs
from autograder.judge import Lab

from . import card, kernel
from .progress_record import Prediction, Progress
from .progress_store import progress_store
from .shown import Shown, calmly

HEADS = ("question", "state", "points", "hints")


@dataclass(frozen=True)
class Row:
    """One line of a lab's table, in words."""

    question: str
    state: str
    points: str
    hints: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.question, self.state, self.points, self.hints)


def progress() -> Shown:
    """Shows what you have answered, the hints you used, and how well you predicted."""
    return calmly(overview, "progress()")


def overview(labs: Iterable[Lab] | None = None) -> Shown:
    """Like `progress`, of `labs`."""
    kept = progress_store().read()
    course = list(all_labs() if labs is None else labs)
    tables = [(lab, _rows(lab, kept.progress)) for lab in course]
    total = _total(course, kept.progress)
    remarks = [_guesses(kept.progress, lab.name) for lab in course]
    text = [
        line
        for table, remark in zip(tables, remarks, strict=True)
        for line in _text(*table, remark)
    ]
    body = "".join(_html(*table, remark) for table, remark in zip(tables, remarks, strict=True))
    text += [total, *([kept.note] if kept.note else [])]
    body += f"<p><strong>{escape(total)}</strong></p>{card.quiet(kept.note)}"
    return Shown("\n".join(text), card.card(body, label="your progress", role="group"))


def _rows(lab: Lab, progress: Progress) -> list[Row]:
    rows = []
    for question in lab:
        asked = progress.asked(question.name)
        points = f"{min(asked.points, question.points):g} of {question.points:g}"
        state = "not yet" if question.name not in progress.questions else asked.state
        rows.append(Row(question.name, state, points, f"{asked.hints} of 3"))
    return rows


def points(labs: Iterable[Lab], progress: Progress) -> float:
    """Earned so far in `labs`."""
    return sum(min(progress.asked(q.name).points, q.points) for lab in labs for q in lab)


def _total(labs: Sequence[Lab], progress: Progress) -> str:
    most = sum(lab.max_points for lab in labs)
    guesses = _in_words(list(progress.predictions.values()))
    return f"Total: {points(labs, progress):g} of {most:g} points; {guesses}."


def _guesses(progress: Progress, unit: str) -> str:
    found = [p for p in progress.predictions.values() if p.unit == unit]
    return f"Here: {_in_words(found)}." if found else ""


def _in_words(predictions: Sequence[Prediction]) -> str:
    made, right = len(predictions), sum(p.right is True for p in predictions)
    return f"{made} prediction{'s' * (made != 1)} made, {right} right"


def _is_near(lab: Lab, rows: list[Row]) -> bool:
    """Whether a reader wants its questions now: this notebook is its own, or it is begun."""
    begun = any(row.state != "not yet" or not row.hints.startswith("0") for row in rows)
    return begun or kernel.unit() == lab.name


def _text(lab: Lab, rows: list[Row], remark: str) -> list[str]:
    title = f"Lab {lab.name}   {lab.title}"
    if not _is_near(lab, rows):
        return [f"{title}   0 of {lab.max_points:g} points", *([f"  {remark}"] if remark else [])]
    table = [HEADS, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  " + "   ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    ]
    return [title, *lines, *([f"  {remark}"] if remark else []), ""]


def _html(lab: Lab, rows: list[Row], remark: str) -> str:
    """A lab's table, behind a fold that is open where somebody works."""
    head = "".join(f'<th scope="col"{_aligned(k)}>{name}</th>' for k, name in enumerate(HEADS))
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    label = escape(f"{lab.name}: {lab.title}")
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    scrolled = f'<div class="ol-scroll"><table aria-label="{label}">{table}</div>'
    earned = sum(float(row.points.split()[0]) for row in rows)
    line = f"{lab.name}: {lab.title}, {earned:g} of {lab.max_points:g} points"
    return card.fold(line, scrolled + card.quiet(remark), is_open=_is_near(lab, rows))


def _cells(row: Row) -> str:
    name, *others = row.cells
    state = f"<td>{card.toned(row.state)}</td>"
    numbers = "".join(f'<td class="ol-number">{escape(cell)}</td>' for cell in others[1:])
    return f'<th scope="row"><code>{escape(name)}</code></th>{state}{numbers}'


def _aligned(column: int) -> str:
    return ' class="ol-number"' if column >= 2 else ""
