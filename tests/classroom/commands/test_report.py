"""`autograder report`, `explain` and `regrade`, the readers of the journal, as an instructor types
them."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock

from autograder import atomic_write, cli
from autograder.attacks.sample_class import NAME, PUPILS, ROOT
from autograder.classroom.run import grading as grading_step
from autograder.classroom.store import roster
from autograder.classroom.store.roster import Line
from autograder.judge import Cause, State
from autograder.sandbox import Tier
from tests.classroom.made_class import FREE_TEXT, LAB, SCRIPT, grading_folder, record, verdict

FIRST, SECOND, *_ = LAB.questions


@pytest.fixture
def autograder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Ada right, Bob wrong, Cy flagged; Dee could not be graded."""
    wrong = verdict(FIRST, State.FAIL, got=SCRIPT, expected="4", sentence="So not.")
    flagged = verdict(SECOND, State.FLAGGED, sentence="Too fast.")
    records = [record("ada"), record("bob", **{FIRST: wrong}), record("cy", **{SECOND: flagged})]
    folder = grading_folder(tmp_path_factory.mktemp("class") / "grading", records)
    roster.update(folder, NAME, [Line("dee", f"dee/{NAME}.ipynb", ungradable="No notebook.")])
    return folder


@pytest.fixture
def grading(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "grading"))


def told(result):
    """The one line that an instructor reads."""
    assert result.exit_code == 1, result.output
    (line,) = result.output.strip().splitlines()
    assert line.startswith("Error: ")
    assert isinstance(result.exception, SystemExit)
    return line


@pytest.mark.slow
class TestReport:
    @pytest.mark.slow
    def test_everything_lies_where_it_says(self, autograder, grading):
        result = autograder("report")
        assert result.exit_code == 0, result.output
        place = grading / "reports" / NAME
        for line in ("page", "platforms"):
            assert f"{line:<12}grading/reports/{NAME}/" in result.output
        page = (place / "index.html").read_text()
        assert "Too fast." in page
        assert "No notebook." in page
        assert "<script" not in page
        with open(place / "canvas.csv", encoding="utf-8") as file:
            assert [row["Student"] for row in csv.DictReader(file)][1:] == [
                "ada",
                "bob",
                "cy",
                "dee",
            ]
        with open(place / "moodle.csv", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == 4
        assert not list(place.glob("gradescope/*"))
        assert "4 of 4 have no final grade yet" in result.output
        with zipfile.ZipFile(place / "feedback.zip") as archive:
            assert archive.namelist() == []

    def test_provisional_pages_go_back_too(self, autograder, grading):
        assert autograder("report", NAME, "--provisional").exit_code == 0
        with zipfile.ZipFile(grading / "reports" / NAME / "feedback.zip") as archive:
            assert archive.namelist() == [f"{who}/{NAME}.html" for who in ("ada", "bob", "cy")]
            assert b"</html>" in archive.read(f"ada/{NAME}.html")
        made = grading / "reports" / NAME / "gradescope" / "bob" / "results.json"
        points = json.loads(made.read_bytes())["score"]
        assert points == LAB.max_points - LAB.questions[FIRST].points

    def test_results_are_in_the_language_of_the_hand_in(self, autograder, tmp_path):
        grading_folder(tmp_path / "grading", [record("ada")], language="es")
        assert autograder("report", NAME, "--provisional").exit_code == 0
        made = tmp_path / "grading" / "reports" / NAME / "gradescope" / "ada" / "results.json"
        assert json.loads(made.read_bytes())["output"].startswith("Aún no está todo puntuado: ")

    def test_a_grade_whose_verdicts_are_lost_has_no_results(self, autograder, grading):
        lost = [path for path in (grading / "journal" / NAME).iterdir() if "bob" in path.name]
        assert lost
        for path in lost:
            path.rename(grading / path.name)
        try:
            result = autograder("report", NAME, "--provisional")
            assert result.exit_code == 0, result.output
            made = grading / "reports" / NAME / "gradescope"
            assert not (made / "bob").exists()
            assert (made / "ada" / "results.json").is_file()
        finally:
            for path in lost:
                (grading / path.name).rename(path)

    @pytest.mark.slow
    def test_what_is_written_is_the_instructors_alone(self, autograder, grading):
        assert autograder("report", NAME).exit_code == 0
        for name in ("index.html", "canvas.csv", "moodle.csv", "feedback.zip"):
            assert (grading / "reports" / NAME / name).stat().st_mode & 0o077 == 0

    def test_again_is_the_same_and_leaves_nobody_behind(self, autograder, grading):
        place = grading / "reports" / NAME
        (place / "gradescope" / "gone").mkdir(parents=True)
        assert autograder("report", NAME, "--provisional").exit_code == 0
        assert {path.name for path in (place / "gradescope").iterdir()} == {"ada", "bob", "cy"}
        assert not list(place.rglob("*.tmp"))

    def test_a_verdict_that_was_lost_is_named_and_stops_nobody(self, autograder, grading):
        for path in (grading / "journal" / NAME).glob("bob-*"):
            path.write_bytes(path.read_bytes()[:100])
        for path in (grading / "journal" / NAME).glob("cy-*"):
            path.unlink()
        assert autograder("report", NAME).exit_code == 0
        page = (grading / "reports" / NAME / "index.html").read_text()
        assert page.count("The verdict is missing or damaged. Grade the class again") == 2
        assert "<b>1</b><span>judged</span>" in page

    def test_a_journal_that_is_gone(self, autograder, grading):
        shutil.rmtree(grading / "journal")
        assert autograder("report", NAME).exit_code == 0
        assert "Nobody has been judged yet" in (grading / f"reports/{NAME}/index.html").read_text()

    def test_a_class_of_which_nothing_could_be_graded(self, autograder, tmp_path):
        roster.update(tmp_path / "grading", NAME, [Line("dee", ungradable="No notebook.")])
        assert autograder("report").exit_code == 0

    @pytest.mark.slow
    def test_late_penalties_follow_the_marks_of_today(self, autograder, tmp_path):
        from nbgrader.api import Gradebook

        from autograder.classroom.gradebook import course as nbcourse
        from tests.classroom.gradebook.test_late_policy import POLICY, TIMES

        folder = grading_folder(
            tmp_path / "grading", [record("cleo")], policy=POLICY, submitted=TIMES
        )
        with Gradebook(nbcourse.database(folder)) as book:
            grade = book.find_grade(FREE_TEXT, NAME, NAME, "cleo")
            grade.manual_score, grade.needs_manual_grade = 5.0, False
            book.db.commit()
        assert autograder("report", NAME).exit_code == 0
        with open(folder / "reports" / NAME / "canvas.csv", encoding="utf-8") as file:
            row = list(csv.DictReader(file))[-1]
        assert float(row[NAME]) == (LAB.max_points + 5) * 0.8

    def test_titles_and_provisional_grades(self, autograder, grading):
        assert autograder("report", "--title", "=Strides", "--provisional").exit_code == 0
        with open(grading / "reports" / NAME / "canvas.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert float(rows[1]["'=Strides"]) == LAB.max_points
        assert rows[4]["'=Strides"] == ""


class TestOneLineFor:
    @pytest.mark.parametrize("command", [("report",), ("explain", "ada", NAME, FIRST)])
    def test_a_grading_folder_that_is_not_there(self, autograder, command):
        assert "no grading folder nowhere" in told(autograder(*command, "--out", "nowhere"))

    def test_a_folder_without_grades(self, autograder, tmp_path):
        (tmp_path / "grading").mkdir()
        assert "No lab has been graded in grading" in told(autograder("report"))

    @pytest.mark.parametrize(
        "command", [("report", "01_stride"), ("explain", "a", "01_stride", "b")]
    )
    def test_a_lab_that_the_course_does_not_have(self, autograder, grading, command):
        line = told(autograder(*command))
        assert "There is no lab '01_stride'." in line
        assert f"Did you mean {NAME}?" in line

    @pytest.mark.parametrize("command", [("report",), ("explain", "ada")])
    def test_a_lab_that_was_not_graded(self, autograder, grading, command):
        arguments = [*command, "02_dispatcher", *(["x"] if len(command) > 1 else [])]
        assert "02_dispatcher has not been graded in grading" in told(autograder(*arguments))

    @pytest.mark.parametrize("command", [("report", NAME), ("explain", "ada", NAME, FIRST)])
    def test_a_damaged_roll(self, autograder, grading, command):
        (grading / "roll" / f"{NAME}.json").write_bytes(b"[")
        assert "is damaged. Remove it and grade" in told(autograder(*command))

    def test_a_damaged_gradebook(self, autograder, grading):
        (grading / "gradebook.db").write_bytes(b"hello")
        assert "is damaged" in told(autograder("report"))

    def test_a_grader_at_work(self, autograder, grading):
        with FileLock(grading / ".lock"):
            assert "Wait until it is done" in told(autograder("report"))

    def test_a_disk_that_takes_nothing(self, autograder, grading, monkeypatch):
        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(atomic_write, "write", full)
        assert os.strerror(errno.ENOSPC) in told(autograder("report"))

    @pytest.mark.usefixtures("nothing_begins")
    def test_a_bad_late_policy_before_anything_is_graded(self, autograder, tmp_path):
        course = tmp_path / "course"
        shutil.copytree(ROOT / "labs", course / "labs")
        (course / "late.toml").write_text("per_day = 10")
        (tmp_path / "in" / "ada").mkdir(parents=True)
        PUPILS["cleo-nothing"].write(tmp_path / "in" / "ada")
        line = told(autograder("grade", "in", "--course", course))
        assert "there is no setting 'per_day', only" in line
        assert not (tmp_path / "grading" / "journal").exists()

    def test_a_student_who_is_not_on_the_roll(self, autograder, grading):
        line = told(autograder("explain", "Bobby", NAME, FIRST))
        assert f"There is no student 'Bobby' on the roster of {NAME}. Did you mean bob?" in line

    def test_a_question_that_the_lab_does_not_ask(self, autograder, grading):
        assert "There is no question 'adres'" in told(autograder("explain", "ada", NAME, "adres"))

    def test_a_student_without_a_verdict(self, autograder, grading):
        line = told(autograder("explain", "dee", NAME, FIRST))
        assert "dee has no verdict, so there is none to replay: No notebook." in line

    def test_a_record_that_was_cut_off(self, autograder, grading):
        for path in (grading / "journal" / NAME).glob("ada-*"):
            path.write_bytes(path.read_bytes()[:100])
        assert "missing or damaged. Grade the class" in told(
            autograder("explain", "ada", NAME, FIRST)
        )

    def test_bytes_that_were_not_kept(self, autograder, grading):
        assert "cannot be read" in told(autograder("explain", "ada", NAME, FIRST))

    def test_bytes_that_were_changed(self, autograder, grading):
        (grading / "received").mkdir()
        (grading / "received" / "00ff.ipynb").write_bytes(b"{}")
        line = told(autograder("explain", "ada", NAME, FIRST))
        assert "is not the notebook that was graded" in line

    @pytest.mark.jail
    def test_a_machine_without_walls(self, autograder, explained, monkeypatch):
        monkeypatch.setattr(
            grading_step, "probe", lambda: Tier("process", "There is no bwrap.", False)
        )
        assert "--i-trust-students" in told(autograder("explain", "ada", NAME, FIRST))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A class that was really judged: kept bytes, seeds, records."""
    place = tmp_path_factory.mktemp("judged")
    for student, pupil in (("ada", "ada-all-right"), ("gus", "gus-wrong-1")):
        (place / "in" / student).mkdir(parents=True)
        PUPILS[pupil].write(place / "in" / student)
    _write_counting(place / "in" / "cunning")
    done = CliRunner().invoke(
        cli.main,
        ["grade", str(place / "in"), "--out", str(place / "grading"), "--course", str(ROOT)],
    )
    assert done.exit_code == 0, done.output
    return place / "grading"


def _write_counting(folder):
    """The second answer is right only where the first function was called before."""
    from autograder.attacks.sample_class import filled, right_answers

    right = right_answers()
    first = f"calls = []\n{right[FIRST]}".replace("):", "):\n    calls.append(1)", 1)
    second = right[SECOND].replace("):", "):\n    assert calls, 'asked alone'", 1)
    folder.mkdir()
    made = filled({**right, FIRST: first, SECOND: second})
    (folder / f"{NAME}.ipynb").write_text(json.dumps(made))


@pytest.fixture
def explained(judged, tmp_path):
    return Path(shutil.copytree(judged, tmp_path / "grading"))


@pytest.mark.jail
class TestExplain:
    @pytest.mark.parametrize("student", ["ada", "gus"])
    def test_a_verdict_comes_out_again(self, autograder, explained, student):
        result = autograder("explain", student, NAME, FIRST)
        assert result.exit_code == 0, result.output
        assert "The same verdict as recorded." in result.output
        assert "Not everything is as it was" not in result.output
        seed = self.recorded(explained, student, FIRST)["seed"]
        assert str(seed) in result.output

    def recorded(self, folder, student, question):
        (path,) = (folder / "journal" / NAME).glob(f"{student}-*.json")
        body = json.loads(path.read_text(encoding="utf-8").split("\n")[1])
        return next(v for v in body["verdicts"] if v["question"] == question)

    def rewrite(self, folder, student, **changes):
        from autograder.classroom.store.journal import Journal

        journal = Journal(folder / "journal" / NAME)
        line = roster.read(folder, NAME)[student]
        was = journal.read(student, line.key)
        verdicts = [replace(v, **changes) if v.question == FIRST else v for v in was.verdicts]
        journal.write(replace(was, verdicts=tuple(verdicts)))

    def test_another_verdict_is_told_with_both_cards_and_ends_with_1(self, autograder, explained):
        self.rewrite(explained, "ada", cause=Cause.WRONG, points=0.0, got="three")
        result = autograder("explain", "ada", NAME, FIRST)
        assert result.exit_code == 1
        assert "Another verdict than recorded (fail, 0 of 2 points)" in result.output
        assert "The verdict on record:" in result.output
        assert "three" in result.output

    def test_other_versions_are_named_in_one_sentence(self, autograder, explained):
        self.rewrite(explained, "ada", torch="2.11.0", tier="container")
        line = replace(roster.read(explained, NAME)["ada"], version="older")
        roster.update(explained, NAME, [line])
        output = autograder("explain", "ada", NAME, FIRST).output
        (told,) = [line for line in output.splitlines() if line.startswith("Not everything")]
        assert "torch was 2.11.0 and is 2." in told
        assert "have changed since" in told
        assert "it ran in container and now in bubblewrap" in told

    def test_an_answer_that_needs_the_questions_before_it(self, autograder, explained):
        result = autograder("explain", "cunning", NAME, SECOND)
        assert result.exit_code == 0, result.output
        assert "only after the questions before it: asked alone it is fail" in result.output

    def test_nothing_of_the_record_is_changed(self, autograder, explained):
        def all_bytes():
            return {p: p.read_bytes() for p in sorted(explained.rglob("*")) if p.is_file()}

        was = all_bytes()
        assert autograder("explain", "gus", NAME, FIRST).exit_code == 0
        assert all_bytes() == was

    def test_names_may_be_typed_in_small_letters(self, autograder, explained):
        assert autograder("explain", "ADA", NAME.upper(), FIRST).exit_code == 0

    def test_memory_and_time_were_measured(self, judged):
        verdict = self.recorded(judged, "ada", FIRST)
        assert verdict["wall_s"] > 0
        assert 4096 <= verdict["peak_bytes"] < 2**30


@pytest.mark.jail
class TestRegrade:
    """The journal and the bytes that were kept are enough; the hand-ins may be gone."""

    def test_what_the_journal_knows_is_published_alone(self, autograder, explained, monkeypatch):
        monkeypatch.setattr(grading_step.pool, "graded", None)
        roster.update(explained, NAME, [Line("dee", f"dee/{NAME}.ipynb", ungradable="Nothing.")])
        shutil.rmtree(explained / "feedback")
        (explained / "gradebook.db").unlink()
        was = self.state(explained)
        result = autograder("regrade", NAME, "--course", ROOT)
        assert result.exit_code == 0, result.output
        assert "3 already graded, 0 to grade" in result.output
        assert self.state(explained) == was
        pages = explained.glob("feedback/*/*/*.html")
        assert {page.parts[-3] for page in pages} == {"ada", "cunning", "gus"}
        assert "Nothing." in (explained / "ungradable.csv").read_text()

    def test_what_it_does_not_know_is_judged_anew(self, autograder, explained):
        (lost,) = (explained / "journal" / NAME).glob("gus-*.json")
        was = json.loads(lost.read_text().split("\n")[1])["verdicts"]
        lost.unlink()
        result = autograder("regrade", NAME, "--course", ROOT)
        assert result.exit_code == 0, result.output
        assert "2 already graded, 1 to grade" in result.output
        again = json.loads(lost.read_text().split("\n")[1])["verdicts"]
        known = ("question", "cause", "points", "seed", "misconception")
        assert [[v[k] for k in known] for v in again] == [[v[k] for k in known] for v in was]

    def state(self, folder):
        """All that a second run may not change."""
        journal = {path: path.read_bytes() for path in (folder / "journal").rglob("*.json")}
        return journal, roster.read(folder, NAME)

    def test_bytes_that_were_not_kept(self, autograder, grading):
        assert "cannot be read" in told(autograder("regrade", NAME, "--course", ROOT))

    def test_a_lab_that_was_never_graded_leaves_nothing_behind(self, autograder, tmp_path):
        assert "no grading folder" in told(autograder("regrade", NAME, "--course", ROOT))
        assert list(tmp_path.iterdir()) == []
