"""The page of a lab: one HTML file with everything in it, for the instructor.

It opens from a disk without a network, runs no script and forbids any (Content-Security-Policy).
Every value is escaped by the template engine; only our own plots and style are let through.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from autograder.judge import State, Verdict
from autograder.judge.verdict import one_line

from ..gradebook import late_policy
from ..intake.release import Release, graded
from ..store.journal import Record
from . import charts
from .items import items, misconceptions
from .results import Result
from .rows import LEGEND, MARKS
from .spreadsheet import plain

MOST_NAMES, MOST_ROWS = 40, 12
"""Names in one cell of a table, and rows of a table before the page folds them away."""
NOTHING = "\u2013"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    """What the page is made of. policy: what lateness costs; now: when the page is written;
    alike: the page of answers that are alike, where it lies beside this one."""

    release: Release
    folder: Path
    people: Sequence[Result]
    policy: late_policy.Policy | None
    now: datetime
    alike: str = ""


def page(report: Report) -> str:
    """The HTML text."""
    template = environment().get_template("page.html.j2")
    return template.render(_values(report))


def _values(report: Report) -> dict[str, Any]:
    lab, people = report.release.lab, list(report.people)
    records = [one.record for one in people if one.record is not None]
    numbers = items(lab, records)
    points = [record.points for record in records]
    return {
        "lab": lab,
        "number": int(lab.name[:2]),
        "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
        "alike": report.alike,
        "people": people,
        "came": [one for one in people if one.came],
        "enrolled": [one for one in people if one.person],
        "graded": records,
        "ungradable": [one for one in people if one.reason],
        "waiting": [one for one in people if one.settled is None],
        "late": [one for one in people if one.grade and one.grade.late_s > 0],
        "middle": plain(median(points)) if points else NOTHING,
        "items": numbers,
        "complete": sum(_is_complete(record) for record in records),
        "misconceptions": misconceptions(records),
        "flagged": _queue(people, State.FLAGGED),
        "failed": _queue(people, State.UNGRADABLE),
        "by_hand": list(_by_hand(report)),
        "chart_scores": _both(charts.scores, points, lab.max_points),
        "chart_questions": _both(charts.questions, numbers),
        "chart_costs": _both(charts.costs, numbers),
        "seconds": charts.seconds,
        "in_bytes": charts.in_bytes,
        "most_names": MOST_NAMES,
        "most_rows": MOST_ROWS,
        "legend": LEGEND,
        "policy": _cost_of_lateness(report.policy),
        "judged_on": _judged_on(records),
        "folder": report.folder,
        "now": f"{report.now:%Y-%m-%d %H:%M} UTC",
    }


def _both(chart: Callable[..., str], *values: Any) -> Markup:
    """The plot for a desk and the one for a phone; the style sheet shows one of them."""
    return Markup("".join(chart(*values, shape) for shape in (charts.WIDE, charts.NARROW)))


def _is_complete(record: Record) -> bool:
    return all(v.state in (State.PASS, State.FAIL) for v in record.verdicts)


def _queue(people: Sequence[Result], state: State) -> list[tuple[str, Verdict]]:
    return [(one.student, verdict) for one in people for verdict in one.verdicts(state)]


def _by_hand(report: Report) -> Any:
    """Each cell that a person marks, its points, and whose is open."""
    for cell in report.release.answers.values():
        if graded(cell).get("grade"):
            name = cell["id"]
            whose = [p.student for p in report.people if p.grade and name in p.grade.open_cells]
            yield name, graded(cell)["points"], whose


def _cost_of_lateness(policy: late_policy.Policy | None) -> str:
    if policy is None:
        return f"Lateness costs nothing: the course's folder has no {late_policy.NAME}."
    return f"Lateness costs {policy}."


def _judged_on(records: Sequence[Record]) -> str:
    """Where the verdicts come from; several answers where the class was graded on several."""
    found = {(v.torch, v.device, v.tier) for record in records for v in record.verdicts if v.torch}
    text = [f"torch {torch} on {device}, in {tier}" for torch, device, tier in sorted(found)]
    return f"Judged by {'; '.join(text)}." if text else ""


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: one_line(value) if type(value) is str else value,
    )
    made.filters |= {
        "plain": plain,
        "percent": lambda share: NOTHING if share is None else f"{share:.0%}",
        "correlation": lambda value: (
            NOTHING if value is None else f"{value:.2f}".replace("-", "\u2212")
        ),
        "removeprefix": str.removeprefix,
        "in_url": lambda name: quote(name, safe="", errors="replace"),
        "marks": _marks,
        "remarks": _remarks,
    }
    return made


def _marks(record: Record | None) -> str:
    return "".join(MARKS[v.mark][0] for v in record.verdicts) if record else ""


def _remarks(one: Result) -> str:
    """What the instructor should know of a student, in a few words."""
    text = []
    if one.reason:
        text.append("newest hand-in ungradable" if one.record else "ungradable")
    if one.grade and one.grade.late_s:
        text.append(f"{_duration(one.grade.late_s)} late")
    if one.grade and one.grade.open_cells:
        text.append("waits for a person")
    section = one.person.section if one.person else ""
    note = "" if one.is_anonymous else one.line.note  # it can name a file, and that its student
    return "; ".join([*text, *filter(None, [one.enrolment, section, note])])


def _duration(late_s: float) -> str:
    days, rest = divmod(late_s, 86_400)
    if days:
        return f"{days:g} d {rest // 3600:g} h"
    hours, minutes = rest // 3600, rest % 3600 // 60
    return f"{hours:g} h {minutes:g} min" if hours else f"{max(1, minutes):g} min"
