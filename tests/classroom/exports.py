"""What each place that shows totals says of each student, read from the files that instructors and
students get. None where a grade is left out because a person has still to look."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from autograder.attacks.sample_class import NAME

Totals = dict[str, float | None]


def everywhere(folder: Path) -> dict[str, Totals]:
    """By place, after `autograder report`; the pages of feedback as they lie there."""
    reports = folder / "reports" / NAME
    return {
        "canvas": of_canvas(reports / "canvas.csv"),
        "moodle": of_moodle(reports / "moodle.csv"),
        "gradescope": of_gradescope(reports / "gradescope"),
        "report": of_report(reports / "index.html"),
        "page": of_pages(folder / "feedback"),
    }


def of_canvas(path: Path) -> Totals:
    """Who came from Canvas has its number, everybody else a login."""
    header, _, *rows = csv.reader(path.read_text("utf-8").splitlines())
    assert header[:4] == ["Student", "ID", "SIS User ID", "SIS Login ID"]
    return {login or f"{name}_{number}": _points(last) for name, number, _, login, _, last in rows}


def of_moodle(path: Path) -> Totals:
    found = Totals()
    for row in csv.DictReader(path.read_text("utf-8-sig").splitlines()):
        number = row["Identifier"].removeprefix("Participant ")
        student = row["Username"] or f"{row['Full name']}_{number}".replace(" ", "_")
        found[student] = _points(row["Grade"])
    return found


def of_gradescope(folder: Path) -> Totals:
    files = folder.glob("*/results.json")
    return {path.parent.name: json.loads(path.read_bytes())["score"] for path in files}


def of_report(path: Path) -> Totals:
    rows = re.findall(r"<tr>.*?</tr>", path.read_text("utf-8"))
    found = Totals()
    for row in (row for row in rows if 'data-head="total"' in row):
        (student,) = re.findall(r"<bdi>(.*?)</bdi>", row)
        (total,) = re.findall(r'"total" class="num">(.*?)<', row)
        found[student] = _points(total)
    return found


def of_pages(folder: Path) -> Totals:
    pages = {path.parts[-3]: path.read_text("utf-8") for path in folder.glob(f"*/{NAME}/*.html")}
    return {name: float(re.findall(r'"score">.*?<b>([\d.]+)', p)[0]) for name, p in pages.items()}


def of_nbgrader(path: Path) -> Totals:
    """What `nbgrader export` wrote. It has a row for each student and lab."""
    rows = csv.DictReader(path.read_text("utf-8").splitlines())
    return {row["student_id"]: float(row["score"]) for row in rows if row["assignment"] == NAME}


def _points(cell: str) -> float | None:
    """The number that a cell begins with; more may come by a person."""
    found = re.match(r"[\d.]+", cell)
    return float(found[0]) if found else None
