"""A class from every platform, a tenth of it broken and a twentieth hostile, through the commands
that an instructor types: as many rows come out, and whatever shows a total shows the same one of
each. 300 are read; graded and given back are 100 of them, and all by `make thorough`. The judge
alone is made by hand: nobody's code is run."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import random
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook
from rich.console import Console

from autograder import cli
from autograder.attacks.sample_class import filled
from autograder.classroom.commands.grade import grade
from autograder.classroom.commands.grading_run import Order
from autograder.classroom.gradebook.converters import Converters
from autograder.classroom.gradebook.course import database, quiet
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.taking import take_in
from autograder.classroom.run import grading
from autograder.classroom.store import roster
from autograder.classroom.store.journal import Record
from autograder.judge import State
from autograder.sandbox import Tier
from tests.classroom import exports
from tests.classroom.intake.handed_in import in_folder, in_zip
from tests.classroom.made_class import FREE_TEXT, LAB, NAME, ROOT, record, verdict
from tests.samples import sample

pytestmark = pytest.mark.timeout(1800)
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
    "Drive": "{who}.ipynb",
}
EXPORT = "assignment_7_export/submission_metadata.yml"
LATE = f"per_day_percent = 10\n[due]\n{NAME} = 2026-11-19T12:00:00Z\n"
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


def class_of(seed, place, people=SIZE):
    """By shape: where it lies, how many people handed in there, and what is nobody's."""
    drawn = random.Random(seed)
    by_shape = {shape: {} for shape in SHAPES}
    for number in range(people):
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


@pytest.mark.parametrize("seed", range(2))
def test_everybody_is_taken_or_refused_with_a_reason(tmp_path, seed):
    ids, refused, before = [], [], {}
    for shape, (source, size, nobodys) in class_of(seed, tmp_path).items():
        taken = take_in(source, KNOWN, NAME, tmp_path / "received", before=before)
        assert len(taken.entries) + len(taken.refusals) == size, shape
        assert [file for files in taken.ignored.values() for file in files] == nobodys, shape
        refused += taken.refusals
        came = [*taken.entries.values(), *taken.refusals]
        before |= {one.submission.owner: one.submission.student for one in came}
        ids += [one.submission.student.casefold() for one in came]
    assert len(ids) == len(set(ids)) == SIZE
    assert 20 < len(refused) < 80
    assert all(one.reason.endswith(".") for one in refused)


@dataclass
class Graded:
    """people: how many handed in. judged: all verdicts of each. given: what a person gave for a
    free text."""

    folder: Path
    people: int
    judged: dict[str, Record] = field(default_factory=dict)
    given: dict[str, float] = field(default_factory=dict)

    @property
    def lines(self):
        return roster.read(self.folder, NAME)

    def total(self, student):
        """Who came by the exchange came late, and loses a tenth."""
        points = self.judged[student].points + self.given.get(student, 0.0)
        return points * (0.9 if self.lines[student].submitted else 1.0)

    def is_settled(self, student):
        """Whether nobody has to look: not at a verdict, and not at a text, which WHOLE lacks."""
        states = {verdict.state for verdict in self.judged[student].verdicts}
        is_blank = self.lines[student].sha256 == hashlib.sha256(WHOLE).hexdigest()
        return states <= {State.PASS, State.FAIL} and (is_blank or student in self.given)


def drawn_record(job):
    """A third is wrong, and with a few the grader failed or found something odd."""
    drawn = random.Random(job.student)
    wrong = [name for name in LAB.questions if drawn.random() < 0.3]
    states = [State.FAIL] * 12 + [State.FLAGGED, State.UNGRADABLE]
    found = {name: verdict(name, drawn.choice(states)) for name in wrong}
    return replace(record(job.student, **found), key=job.key, sha256=job.sha256)


@pytest.fixture(scope="module", params=sample([100, SIZE], taken=[100]))
def graded(tmp_path_factory, request):
    """Each platform's download graded into one folder; a third of the free texts marked, and their
    pages made anew, as `nbgrader generate_feedback --force` does it."""
    place = tmp_path_factory.mktemp("class")
    made = Graded(place / "grading", request.param)

    def run(of, jobs):
        for job in jobs:
            made.judged[job.student] = drawn_record(job)
            of.journal.write(made.judged[job.student])
            yield job, made.judged[job.student]

    (place / "course").mkdir()
    (place / "course" / "labs").symlink_to(ROOT / "labs")
    (place / "course" / "late.toml").write_text(LATE)
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grading, "probe", lambda: Tier("made", "for a test", safe=True))
        patched.setattr(grading.Grading, "run", run)
        for source, _, _ in class_of(0, place, made.people).values():
            grade(Order(source, made.folder, place / "course", lab=NAME), Console(file=said))
    made.given = dict(zip(sorted(made.judged)[::3], itertools.cycle([0.0, 1.5, 4, 5])))
    with Gradebook(database(made.folder)) as book:
        for student, points in made.given.items():
            one = book.find_grade(FREE_TEXT, NAME, NAME, student)
            one.manual_score, one.needs_manual_grade = points, False
        book.db.commit()
    with quiet(made.folder / "grade.log") as log:
        converters = Converters(made.folder, NAME, log)
        for student in made.given:
            converters.feedback(student)
    return made


def report(made, *options):
    words = ["report", NAME, "--out", made.folder, "--course", made.folder.parent / "course"]
    done = CliRunner().invoke(cli.main, [*map(str, words), *options])
    assert done.exit_code == 0, done.output


def exported(made):
    """What `nbgrader export` says, whose process takes its own time to start."""
    command = [str(Path(sys.executable).parent / "nbgrader"), "export"]
    subprocess.run(command, cwd=made.folder, check=True, capture_output=True, timeout=300)
    return exports.of_nbgrader(made.folder / "grades.csv")


@pytest.mark.whole_class
def test_as_many_rows_come_out_as_people_come_in_and_every_total_is_the_same(graded):
    report(graded, "--provisional")
    wanted = {student: graded.total(student) for student in graded.judged}
    nothing = dict.fromkeys(set(graded.lines) - set(wanted))
    assert len(wanted) + len(nothing) == graded.people
    found = exports.everywhere(graded.folder)
    for place in ("canvas", "moodle", "report"):
        assert found[place] == pytest.approx(wanted | nothing, abs=0.01), place
    for place in ("gradescope", "page"):
        assert found[place] == pytest.approx(wanted, abs=0.01), place
    assert exported(graded) == pytest.approx(wanted, abs=0.01)


@pytest.mark.whole_class
def test_nobody_gets_a_grade_on_which_a_person_has_still_to_look(graded):
    report(graded)
    settled = {s: graded.total(s) for s in graded.judged if graded.is_settled(s)}
    some = graded.people // 10
    assert some < len(settled) < len(graded.judged) - some
    found = exports.everywhere(graded.folder)
    waiting = dict.fromkeys(set(graded.lines) - set(settled))
    assert found["canvas"] == pytest.approx(settled | waiting, abs=0.01)
    assert found["moodle"] == pytest.approx(settled | waiting, abs=0.01)
    assert found["gradescope"] == pytest.approx(settled, abs=0.01)
    place = graded.folder / "reports" / NAME
    with zipfile.ZipFile(place / "feedback.zip") as archive:
        returned = sorted(archive.read(name) for name in archive.namelist())
    pages = (graded.folder / "feedback" / s / NAME / f"{NAME}.html" for s in settled)
    assert returned == sorted(page.read_bytes() for page in pages)


@pytest.mark.whole_class
def test_who_has_no_verdict_is_named_with_a_reason_and_nobody_by_a_formula(graded):
    _, *rows = csv.reader((graded.folder / "ungradable.csv").read_text("utf-8").splitlines())
    assert sorted(row[1] for row in rows) == sorted(set(graded.lines) - set(graded.judged))
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)
