"""`autograder regrade` of one student or one question: an appeal that was right, a fault of the
machine, a check that was wrong for everybody."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook

from autograder import cli
from autograder.attacks.sample_class import NAME
from autograder.classroom.commands import regrade as command
from autograder.classroom.gradebook.course import database
from autograder.classroom.run.job import Fault
from autograder.classroom.store import changes
from autograder.classroom.store.journal import Journal
from autograder.judge import Cause, State
from tests.classroom.made_class import LAB, four_students, mark, record, verdict

pytestmark = pytest.mark.slow  # each changes a whole graded class

FIRST, SECOND, *_ = LAB.questions
WORTH, FULL = LAB.questions[FIRST].points, LAB.max_points
WHY = ("--reason", "Its check was wrong")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return four_students(tmp_path_factory.mktemp("class") / "grading")


@pytest.fixture
def grading(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "grading"))


@pytest.fixture
def judge(monkeypatch):
    """What is judged from now on, by student: all right where nothing is said. Keeps the jobs."""
    made, jobs = {}, []

    def run(grading, wanted):
        for job in wanted:
            jobs.append(job)
            outcome = made.get(job.student, {})
            if not isinstance(outcome, Fault):
                new = replace(record(job.student, **outcome), key=job.key, sha256=job.sha256)
                asked = [v for v in new.verdicts if not job.only or v.question in job.only]
                outcome = replace(new, verdicts=tuple(asked))
                grading.journal.write(outcome)
            yield job, outcome

    monkeypatch.setattr(command.Grading, "run", run)
    made["jobs"] = jobs
    return made


def again(*arguments, code=0):
    done = CliRunner().invoke(cli.main, ["regrade", *map(str, arguments)])
    assert done.exit_code == code, done.output
    if code:
        assert len(done.output.strip().splitlines()) == 1, done.output
    return done.output


def scores(folder):
    with Gradebook(database(folder)) as book:
        return {one.student_id: one.score for one in book.find_assignment(NAME).submissions}


def test_nothing_changes_before_the_instructor_is_sure(grading, judge):
    before = scores(grading)
    said = again(NAME, "--student", "dee", *WHY)
    assert f"  dee  {FIRST}: fail -> pass" in said
    assert "1 of 4 grades change:" in said
    assert f"  dee  {FULL - WORTH:g} -> {FULL:g}" in said
    assert "Add --yes to do it." in said
    assert scores(grading) == before
    assert changes.read(grading, NAME) == []


def test_one_student_is_judged_again_and_nobody_else(grading, judge):
    before = scores(grading)
    said = again(NAME, "--student", "DEE", *WHY, "--yes")
    assert "1 of 4 grades changed:" in said
    (job,) = judge["jobs"]
    assert job.student == "dee"
    assert set(job.seeds.values()) == {77_777}  # those on record, in whichever folder it was judged
    assert scores(grading) == before | {"dee": FULL + 3}  # with what a person gave
    (listed,) = changes.read(grading, NAME)
    assert (listed.student, listed.reason) == ("dee", "Its check was wrong")
    assert re.search(
        r"every question: of dee judged again, 1 otherwise, \d{4}-.* UTC: Its", str(listed)
    )


def test_one_question_of_everybody_leaves_the_other_verdicts(grading, judge):
    judge["ada"] = {SECOND: verdict(SECOND, State.FAIL)}  # not asked for, so it does not count
    judge["bob"] = {FIRST: verdict(FIRST, State.FAIL)}  # wrong still, but in no known way
    said = again(NAME, "--question", FIRST, *WHY, "--yes")
    assert {job.only for job in judge["jobs"]} == {(FIRST,)}
    assert "3 verdicts come out otherwise:" in said
    assert re.search(rf"  bob  {FIRST}: fail \(\w+\) -> fail\n", said)
    assert "2 of 4 grades changed:" in said
    assert scores(grading) == {"ada": FULL, "bob": FULL - WORTH, "cy": FULL, "dee": FULL + 3}
    again(NAME, "--student", "ada", "--question", SECOND, *WHY, "--yes")
    assert judge["jobs"][-1].only == (FIRST, SECOND)  # in turn, as it was asked the first time
    assert scores(grading)["ada"] == FULL - LAB.questions[SECOND].points


def test_what_was_shown_is_what_is_recorded(grading, judge):
    again(NAME, "--question", FIRST, *WHY)
    shown = len(judge["jobs"])
    judge["cy"] = {FIRST: verdict(FIRST, State.FAIL)}  # a slow moment of the machine
    assert "3 of 4 grades changed:" in again(NAME, "--question", FIRST, *WHY, "--yes")
    assert len(judge["jobs"]) == shown
    assert scores(grading)["cy"] == FULL
    again(NAME, "--student", "cy", *WHY)  # a later look is a new one
    assert len(judge["jobs"]) == shown + 1


def test_a_grader_that_fails_again_takes_nothing_back(grading, judge):
    judge["bob"] = Fault("no answer within 3 seconds")
    judge["cy"] = {FIRST: verdict(FIRST, State.UNGRADABLE, sentence="No room.")}
    before = scores(grading)
    said = again(NAME, "--question", FIRST, *WHY, "--yes")
    assert "bob: the grader failed, so what counts stays: no answer within 3 seconds" in said
    assert f"cy: the grader failed, so what counts stays: {FIRST}: No room." in said
    assert scores(grading) == before | {"dee": FULL + 3}


def test_the_same_verdicts_are_no_change(grading, judge):
    said = again(NAME, "--student", "ada", *WHY, "--yes")
    assert "No verdict comes out otherwise" in said
    assert changes.read(grading, NAME) == []


def test_it_is_undone_as_any_change_and_what_was_judged_first_is_kept(grading, judge):
    before = scores(grading)
    journal = {path.name: path.read_bytes() for path in (grading / "journal" / NAME).iterdir()}
    again(NAME, "--question", FIRST, *WHY, "--yes")
    assert scores(grading) != before
    said = CliRunner().invoke(cli.main, ["change", NAME, "undo", "1", *WHY, "--yes"]).output
    assert "3 of 4 grades changed:" in said
    assert scores(grading) == before
    for name, data in journal.items():
        assert (grading / "journal" / NAME / name).read_bytes() == data


def test_a_mark_that_a_person_gave_goes_before_another_verdict_and_waits_for_them(grading, judge):
    mark(grading, "dee", WORTH / 2, cell=f"{FIRST}_check")
    mark(grading, "ada", WORTH / 2, cell=f"{FIRST}_check")
    before = scores(grading)
    said = again(NAME, "--question", FIRST, *WHY)
    assert "2 of 4 grades change:" in said
    assert f"  dee  {FIRST}: {WORTH / 2:g} of now {WORTH:g}" in said
    again(NAME, "--question", FIRST, *WHY, "--yes")
    assert scores(grading) == before | {"bob": FULL, "cy": FULL}
    with Gradebook(database(grading)) as book:
        is_open = {
            name: book.find_grade(f"{FIRST}_check", NAME, NAME, name).needs_manual_grade
            for name in before
        }
    assert is_open == {"ada": False, "bob": False, "cy": False, "dee": True}


def test_a_question_that_was_dropped_stays_dropped(grading, judge):
    CliRunner().invoke(cli.main, ["change", NAME, "drop", FIRST, *WHY, "--yes"])
    said = again(NAME, "--question", FIRST, *WHY, "--yes")
    assert "0 of 4 grades changed." in said
    assert scores(grading)["dee"] == FULL - WORTH + 3


def test_it_speaks_for_the_record_that_it_was_judged_for_and_for_no_later_one():
    old = record("bob", **{FIRST: verdict(FIRST, State.FAIL)})
    told = changes.Judged("bob", old.key, verdict(FIRST))
    made = [changes.Change("", "why", "now", student="bob", judged=(told,))]
    assert changes.applied(old, made).points == FULL
    later = replace(old, key="another")
    assert changes.applied(later, made) == later
    assert changes.applied(old, [replace(made[0], undone="now")]) == old


def test_killed_after_it_was_recorded_it_is_published_by_the_next_command(
    grading, judge, monkeypatch
):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command, "publish_again", killed)
        CliRunner().invoke(cli.main, ["regrade", NAME, "--student", "dee", *WHY, "--yes"])
    assert len(changes.read(grading, NAME)) == 1
    assert scores(grading)["dee"] == FULL - WORTH + 3
    CliRunner().invoke(cli.main, ["change", NAME, "points", SECOND, "--to", "0", *WHY, "--yes"])
    assert scores(grading)["dee"] == FULL - LAB.questions[SECOND].points + 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((NAME, "--student", "dee"), "Say why"),
        ((NAME, "--yes"), "Say what is judged again"),
        ((NAME, *WHY), "Say what is judged again"),
        ((NAME, "--student", "eve", *WHY), "There is no student 'eve'"),
        ((NAME, "--question", "nothing", *WHY), "There is no question 'nothing'"),
        (("99", "--student", "dee", *WHY), "There is no lab '99'"),
        ((NAME, "--student", "dee", *WHY, "--out", "nowhere"), "There is no grading folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(grading, judge, arguments, says):
    assert re.search(says, again(*arguments, code=1))
    assert judge["jobs"] == []


def test_a_notebook_that_is_gone_is_said_before_anything_runs(grading, judge):
    shutil.rmtree(grading / "received")
    assert "cannot be read" in again(NAME, "--student", "dee", *WHY, code=1)
    assert judge["jobs"] == []


@pytest.mark.jail
def test_a_fault_of_the_machine_is_put_right_in_the_real_jail(graded, tmp_path, monkeypatch):
    """One verdict of the sample class was another one than the answer deserves."""
    folder = Path(shutil.copytree(graded / "out", tmp_path / "grading"))
    monkeypatch.chdir(tmp_path)
    journal, was = Journal(folder / "journal" / NAME), scores(folder)
    (path,) = journal.folder.glob("ada-all-right-*.json")
    true = journal.read("ada-all-right", key_in(path))
    slow = [
        replace(v, cause=Cause.TIMED_OUT, points=0.0) if v.question == FIRST else v
        for v in true.verdicts
    ]
    journal.write(replace(true, verdicts=tuple(slow)))
    done = CliRunner().invoke(cli.main, ["regrade", NAME])
    assert done.exit_code == 0, done.output
    assert scores(folder)["ada-all-right"] == was["ada-all-right"] - WORTH
    said = again(NAME, "--student", "ada-all-right", "--question", FIRST, *WHY)
    assert f"  ada-all-right  {FIRST}: fail -> pass" in said
    again(NAME, "--student", "ada-all-right", "--question", FIRST, *WHY, "--yes")
    assert scores(folder) == was
    done = CliRunner().invoke(cli.main, ["explain", "ada-all-right", NAME, FIRST])
    assert "The same verdict as recorded." in done.output


def key_in(path):
    import json

    return json.loads(path.read_text(encoding="utf-8").split("\n")[1])["key"]
