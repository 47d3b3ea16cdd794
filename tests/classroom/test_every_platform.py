"""A class of 300 from every platform, a tenth of it broken and a twentieth hostile: 300 rows
come out, and every export says the same of each. The judge is made by hand: nothing is run."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autograder.attacks.sample_class import filled
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.taking import take_in
from autograder.classroom.reports.canvas import canvas
from autograder.classroom.reports.gradescope import gradescope
from autograder.classroom.reports.moodle import moodle
from autograder.classroom.reports.page import Report, page
from autograder.classroom.reports.results import Result, expect_one_each
from autograder.classroom.reports.rows import Row, write_ungradable
from autograder.classroom.store.roster import Line
from autograder.judge import State
from tests.classroom.intake.handed_in import in_folder, in_zip
from tests.classroom.made_class import LAB, NAME, RELEASE, ROOT, marked, record, result, verdict

SIZE = 300
KNOWN = releases(ROOT)
FILE = f"{NAME}.ipynb"
SHAPES = {  # where a platform puts what a student calls `name`
    "a folder each": "{who}/{name}",
    "nbgrader": "submitted/{who}/" + NAME + "/{name}",
    "the exchange": "{who}+" + NAME + "+2026-11-20 10:00:00 UTC+x7f/{name}",
    "Canvas": "{who}_{number}_7{number}_{name}",
    "Moodle": "{who} L_{number}_assignsubmission_file_/{name}",
    "Moodle, flat": "{who} L_{number}_assignsubmission_file_{name}",
    "Blackboard": "Lab 1_{who}_attempt_2026-11-20-10-00-00_{name}",
    "Gradescope": "assignment_7_export/submission_{number}/{name}",
    "GitHub Classroom": "lab-1-submissions/lab-1-{who}/labs/" + NAME + "/{name}",
}
EXPORT = "assignment_7_export/submission_metadata.yml"
WHOLE = json.dumps(filled({})).encode()
BROKEN = {
    FILE: [b"", b"{", WHOLE[:-900], b"\xff\xfe", b'{"cells": 3}', b"[]", b"null"],
    "02_dispatcher.ipynb": [WHOLE],
    "report.pdf": [b"%PDF"],
    "01_strides.zip": [b"PK\x03\x04"],
}
HOSTILE = (  # names that look like a neighbour's, and notebooks that are none
    ("ida_1_71_01_strides.ipynb", WHOLE),
    ("Ida L_1_assignsubmission_file_01_strides.ipynb", WHOLE),
    ("ida+01_strides+2026-11-21 10:00:00 UTC+a.ipynb", WHOLE),
    ("=HYPERLINK(1).ipynb", WHOLE),
    (FILE, b'{"cells": ' + b"[" * 100_000),
    (FILE, json.dumps({"cells": [{}] * 6_000}).encode()),
)


def hand_in(drawn, number):
    """What one student hands in: the file's name, and its bytes."""
    kind = drawn.random()
    if kind < 0.10:
        name = drawn.choice(sorted(BROKEN))
        return name, drawn.choice(BROKEN[name])
    if kind < 0.15:
        return drawn.choice(HOSTILE)
    made = filled({"why_silent": f"Because of {number}."})
    return drawn.choice([FILE, "lab.ipynb"]), json.dumps(made).encode()


def class_of(seed, place):
    """By shape: where it lies, how many people handed in there, and what is nobody's."""
    drawn = random.Random(seed)
    by_shape = {shape: {} for shape in SHAPES}
    for number in range(SIZE):
        shape = [*SHAPES][number % len(SHAPES)]
        name, data = hand_in(drawn, number)
        path = SHAPES[shape].format(who=f"s{number}", number=number, name=name)
        by_shape[shape][path] = data
    sources = {}
    for turn, (shape, files) in enumerate(by_shape.items()):
        folder = place / f"hand-in-{turn}"
        folder.mkdir()
        beside = {EXPORT: b"".join(map(submitter, files))} if shape == "Gradescope" else {}
        source = drawn.choice([in_folder, in_zip])(folder, files | beside)
        sources[shape] = (source, len(files), list(beside))
    return sources


def submitter(path):
    """What Gradescope says of one folder of its export."""
    folder = path.split("/")[1]
    return f"{folder}:\n  :submitters:\n  - :email: {folder}@example.org\n".encode()


def judged(drawn, student, origin):
    """A record and a grade, some of them still for a person."""
    wrong = [name for name in LAB.questions if drawn.random() < 0.3]
    states = [State.FAIL, State.FAIL, State.FAIL, State.FLAGGED]
    found = {name: verdict(name, drawn.choice(states)) for name in wrong}
    made = result(student, record(student, **found))
    if drawn.random() < 0.7:
        made = marked(made, drawn.randrange(6))
        is_open = {f"{n}_check" for n, v in found.items() if v.state is State.FLAGGED}
        marks = {n: replace(m, is_open=n in is_open) for n, m in made.grade.marks.items()}
        penalty = drawn.choice([0.0, 0.0, 1.5])
        made = replace(made, grade=replace(made.grade, marks=marks, penalty=penalty))
    return replace(made, line=replace(made.line, origin=origin))


@pytest.fixture(scope="module", params=range(2))
def class_(request, tmp_path_factory):
    """Everybody's result, and the rows of those who have none."""
    place, drawn = tmp_path_factory.mktemp("class"), random.Random(-request.param)
    people, refused = [], []
    for shape, (source, size, nobodys) in class_of(request.param, place).items():
        before = {one.line.owner: one.student for one in people}
        taken = take_in(source, KNOWN, NAME, place / "received", before=before)
        assert len(taken.entries) + len(taken.refusals) == size, shape
        assert [file for files in taken.ignored.values() for file in files] == nobodys, shape
        for entry in taken.entries.values():
            told = entry.submission
            made = judged(drawn, told.student, told.origin)
            people.append(replace(made, line=replace(made.line, owner=told.owner)))
        for one in taken.refusals:
            told = one.submission
            line = Line(told.student, told.origin, ungradable=one.reason, owner=told.owner)
            people.append(Result(line, reason=one.reason))
            refused.append(Row(told, ungradable=one.reason, note=one.note))
    return people, refused


def cells(data):
    return list(csv.reader(io.StringIO(data.decode())))


def test_300_come_in_and_300_rows_come_out(class_):
    people, refused = class_
    ids = Counter(one.student.casefold() for one in people)
    assert len(people) == SIZE
    assert ids.most_common(1)[0][1] == 1
    assert 20 < len(refused) < 80
    assert all(one.reason.endswith(".") for one in people if one.reason)
    expect_one_each(people)


@pytest.mark.parametrize("provisional", [False, True])
def test_every_export_says_the_same_of_each(class_, provisional):
    people, _ = class_
    want = [one.counted(provisional) for one in people]
    _, _, *of_canvas = cells(canvas("Lab 1", people, provisional=provisional))
    _, *of_moodle = cells(moodle(people, provisional=provisional))
    assert [number(row[5]) for row in of_canvas] == want
    assert [number(row[3]) for row in of_moodle] == want
    for one, points in zip(people, want, strict=True):
        if points is not None and one.record:
            assert json.loads(gradescope(one))["score"] == points
    assert any(point is None for point in want)
    assert any(point for point in want)


def number(cell):
    return float(cell) if cell else None


def test_nobody_is_called_by_a_formula_and_nobody_is_missing_on_the_page(class_, tmp_path):
    people, refused = class_
    text = page(Report(RELEASE, Path("grading"), people, None, datetime.now(UTC)))
    assert all(f"<bdi>{one.student}</bdi>" in text for one in people)
    write_ungradable(tmp_path / "ungradable.csv", refused, NAME)
    _, *rows = cells((tmp_path / "ungradable.csv").read_bytes())
    assert sorted(row[1] for row in rows) == sorted(one.submission.student for one in refused)
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)
