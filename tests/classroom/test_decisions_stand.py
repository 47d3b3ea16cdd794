"""What people decide of a class, in drawn orders: each decision stands until a person changes it,
and whatever shows a total shows the same one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nbgrader.api import Gradebook
from rich.console import Console

from autograder import cli
from autograder.attacks.sample_class import NAME, ROOT
from autograder.classroom.commands import changes as changing
from autograder.classroom.commands import regrade
from autograder.classroom.gradebook.converters import Converters
from autograder.classroom.gradebook.course import database, quiet
from autograder.judge import State
from tests.classroom import exports
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    RELEASE,
    grading_folder,
    kept,
    mark,
    record,
    verdict,
)

pytestmark = pytest.mark.whole_class
ASKED = list(LAB.questions)[:2]
FIRST, SECOND = ASKED
STUDENTS = ["ada", "bob", "cy"]
THEIRS = {FREE_TEXT: 3.5, FIRST: 0.5}
"""What a colleague gave Cy in a copy of the folder."""

who, what = st.sampled_from(STUDENTS), st.sampled_from(ASKED)
points = st.sampled_from([0.0, 0.75, 1.0, 2.5])
ACTION = st.one_of(
    st.tuples(st.just("publish")),
    st.tuples(st.just("worth"), what, st.sampled_from([0.0, 1.0, 6.0])),
    st.tuples(st.just("accept"), who, what),
    st.tuples(st.just("undo")),
    st.tuples(st.just("mark"), who, points),
    st.tuples(st.just("override"), who, what, points),
    st.tuples(st.just("judge"), who, what),
    st.tuples(st.just("merge")),
)


@dataclass
class Made:
    """A change. to: what its question is worth; or whether the answer of `student` is right."""

    question: str
    to: float
    student: str = ""
    accepts: bool = False
    in_force: bool = True


@dataclass
class Decided:
    """What has to come of it. free: points; override: points, out of how many; waiting: overrides
    of which the verdict is another one since."""

    folder: Path
    made: list[Made] = field(default_factory=list)
    free: dict[str, float] = field(default_factory=dict)
    override: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    waiting: set[tuple[str, str]] = field(default_factory=set)

    def worth(self, question: str) -> float:
        told = [m.to for m in self.made if m.in_force and not m.student and m.question == question]
        return told[-1] if told else LAB.questions[question].points

    def judged(self, student: str, question: str) -> float:
        told = [
            one.to
            for one in self.made
            if one.in_force
            and not one.accepts
            and (one.student, one.question) == (student, question)
        ]
        return told[-1] if told else float((student, question) != ("bob", FIRST))

    def total(self, student: str) -> float:
        checks = 0.0
        for question in LAB.questions:
            key, worth = (student, question), self.worth(question)
            accepted = any(
                one.in_force and one.accepts and (one.student, one.question) == key
                for one in self.made
            )
            if key in self.override:
                points, most = self.override[key]
                checks += points / most * worth if most else points
            else:
                checks += worth * max(accepted, self.judged(*key))
        return checks + self.free.get(student, 0.0)

    def judged_otherwise(self, before: dict[tuple[str, str], float]) -> None:
        self.waiting |= {key for key in self.override if before[key] != self.judged(*key)}

    def all_judged(self) -> dict[tuple[str, str], float]:
        return {(s, q): self.judged(s, q) for s in STUDENTS for q in LAB.questions}


def do(decided: Decided, action: tuple) -> None:
    name, *told = action
    before = decided.all_judged()
    if name == "publish":
        changing.publish_again(decided.folder, ROOT, RELEASE, Console(quiet=True))
    elif name == "worth":
        decided.made.append(Made(*told))
        typed("change", NAME, "points", told[0], "--to", told[1])
    elif name == "accept":
        decided.made.append(Made(told[1], 1.0, told[0], accepts=True))
        typed("change", NAME, "accept", told[1], "--student", told[0])
    elif name == "undo":
        if open_ones := [n for n, one in enumerate(decided.made, 1) if one.in_force]:
            decided.made[open_ones[0] - 1].in_force = False
            typed("change", NAME, "undo", open_ones[0])
    elif name == "mark":
        decided.free[told[0]] = told[1]
        mark(decided.folder, *told)
    elif name == "override":
        student, question, given = told
        decided.override[student, question] = given, decided.worth(question)
        decided.waiting.discard((student, question))
        mark(decided.folder, student, given, cell=f"{question}_check")
    elif name == "judge":
        student, question = told
        now = 1 - decided.judged(student, question)
        decided.made.append(Made(question, now, student))
        judged_as(student, verdict(question, State.PASS if now else State.FAIL))
    elif name == "merge":
        came(decided)
        typed("merge", "other")
    decided.judged_otherwise(before)


def came(decided: Decided) -> None:
    """Where nobody marked Cy here the colleague's marks count; those of checks only where Cy's
    verdicts are the same in both folders."""
    decided.free.setdefault("cy", THEIRS[FREE_TEXT])
    key, is_same = ("cy", FIRST), all(decided.judged("cy", q) for q in ASKED)
    if is_same and (key not in decided.override or key in decided.waiting):
        decided.override[key] = THEIRS[FIRST], LAB.questions[FIRST].points
        decided.waiting.discard(key)


def typed(*words: object) -> None:
    more = ["--yes"] if words[0] == "merge" else ["--reason", "Why", "--yes"]
    done = CliRunner().invoke(cli.main, [*map(str, words), *more])
    assert done.exit_code == 0, (done.output, done.exception)


def judged_as(student, found):
    """`autograder regrade`, with a judge who finds this."""

    def run(grading, jobs):
        for job in jobs:
            new = record(student, **{found.question: found})
            asked = tuple(v for v in new.verdicts if v.question in job.only)
            outcome = replace(new, key=job.key, sha256=job.sha256, verdicts=asked)
            grading.journal.write(outcome)
            yield job, outcome

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(regrade.Grading, "run", run)
        typed("regrade", NAME, "--student", student, "--question", found.question)


def scores(folder):
    with Gradebook(database(folder)) as book:
        return {one.student_id: one.score for one in book.find_assignment(NAME).submissions}


def shown(folder):
    """By the place where it is shown, everybody's total."""
    with quiet(folder / "grade.log") as log:  # as `nbgrader generate_feedback --force` does
        converters = Converters(folder, NAME, log)
        for student in STUDENTS:
            converters.feedback(student)
    done = CliRunner().invoke(cli.main, ["report", NAME, "--provisional"])
    assert done.exit_code == 0, done.output
    return {"gradebook": scores(folder), **exports.everywhere(folder)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Ada and Cy right, Bob wrong in the first question; and a copy in which a colleague marked."""
    place = tmp_path_factory.mktemp("class")
    sha256 = kept(place / "grading", {FREE_TEXT: "Because."})
    wrong = {"bob": {FIRST: verdict(FIRST, State.FAIL)}}
    records = [record(student, **wrong.get(student, {})) for student in STUDENTS]
    grading_folder(place / "grading", [replace(one, sha256=sha256) for one in records])
    shutil.copytree(place / "grading", place / "other")
    for cell, given_there in THEIRS.items():
        cell = cell if cell == FREE_TEXT else f"{cell}_check"
        mark(place / "other", "cy", given_there, cell=cell)
    return place


@pytest.fixture(scope="module")
def scene(whole, tmp_path_factory):
    """Makes a fresh copy of both folders, and works beside them."""
    with pytest.MonkeyPatch.context() as patched:

        def fresh() -> Path:
            place = tmp_path_factory.mktemp("drawn")
            shutil.copytree(whole, place, dirs_exist_ok=True)
            patched.chdir(place)
            return place / "grading"

        yield fresh


@settings(max_examples=4, derandomize=True)
@given(st.lists(ACTION, min_size=3, max_size=6))
@example([("override", "cy", FIRST, 1.0), ("worth", FIRST, 0.0), ("merge",), ("undo",)])
@example([("worth", FIRST, 0.0), ("merge",), ("judge", "cy", FIRST), ("undo",)])
def test_a_decision_stands_and_every_total_agrees(scene, actions):
    decided = Decided(scene())
    for action in actions:
        do(decided, action)
        wanted = {student: decided.total(student) for student in STUDENTS}
        assert scores(decided.folder) == pytest.approx(wanted), action
    with Gradebook(database(decided.folder)) as book:
        for student, question in decided.override:
            grade = book.find_grade(f"{question}_check", NAME, NAME, student)
            assert grade.needs_manual_grade == ((student, question) in decided.waiting)
    for place, totals in shown(decided.folder).items():
        assert totals == pytest.approx(wanted, abs=0.01), place
