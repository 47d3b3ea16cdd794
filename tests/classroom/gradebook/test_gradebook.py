"""The bridge to nbgrader, with records made by hand: what it stores, shows and survives."""

from __future__ import annotations

import errno
import json
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from nbconvert.writers import FilesWriter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy.exc import OperationalError

from autograder import atomic_write
from autograder.attacks.sample_class import NAME, ROOT, filled
from autograder.classroom.errors import UserError
from autograder.classroom.gradebook import course as nbcourse
from autograder.classroom.gradebook.converters import Converters
from autograder.classroom.gradebook.course import quiet
from autograder.classroom.gradebook.publish import Graded, Publisher, publish
from autograder.classroom.intake.rebuild import rebuild
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.submissions import Submission
from autograder.classroom.intake.taking import Entry
from autograder.classroom.store.journal import CellReport, Journal, Record, key_of
from autograder.judge import Cause, State, Verdict, text
from tests.classroom.made_class import CAUSES

pytestmark = pytest.mark.whole_class

RELEASE = releases(ROOT)[NAME]
SCRIPT = "</pre><script>alert(1)</script>"


def verdicts(**states):
    """Everything passed, but for these."""
    return tuple(
        Verdict(
            question.name,
            CAUSES[state := states.get(question.name, State.PASS)],
            question.points if state is State.PASS else 0.0,
            question.points,
            77_777,
            title=question.title,
            got=SCRIPT if state is State.FAIL else "",
        )
        for question in RELEASE.lab
    )


class Class:
    """A grading folder and the records that are to be in its gradebook."""

    def __init__(self, folder):
        self.folder = folder

    def record(self, student, found, answer="Because.", submitted=""):
        data = json.dumps(filled({"why_silent": answer})).encode()
        submission = Submission(student, "somewhere", submitted=submitted)
        key = key_of(student, answer)
        printed = (CellReport("address", "", SCRIPT), CellReport("overlaps", f"E: {SCRIPT}", ""))
        record = Record(student, NAME, key, "sha", found, printed)
        Journal(self.folder / "journal" / NAME).write(record)
        return Graded(record, Entry(submission, rebuild(data, RELEASE), "sha"))

    def write(self, *graded):
        with quiet(self.folder / "grade.log") as log:
            return publish(self.folder, RELEASE, graded, log).refused

    def grades(self, student):
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as book:
            (notebook,) = book.find_submission(NAME, student).notebooks
            return {
                grade.name: None if grade.needs_manual_grade else grade.score
                for grade in notebook.grades
            }

    def score(self, student):
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as book:
            return book.find_submission(NAME, student).score

    def page(self, student):
        return (self.folder / "feedback" / student / NAME / f"{NAME}.html").read_text()

    def autograded(self, student):
        return self.folder / "autograded" / student / NAME / f"{NAME}.ipynb"


@pytest.fixture
def course(tmp_path):
    return Class(tmp_path)


def test_every_verdict_becomes_a_grade(course):
    found = verdicts(address=State.FAIL, overlaps=State.UNGRADABLE, gather_flat=State.FLAGGED)
    assert course.write(course.record("ada", found)) == set()
    want = {f"{q.name}_check": q.points for q in RELEASE.lab}
    want |= {"address_check": 0.0, "overlaps_check": None, "gather_flat_check": None}
    assert course.grades("ada") == {**want, "why_silent": None}


def test_partial_credit_is_kept(course):
    half = tuple(replace(v, points=v.points / 2) for v in verdicts())
    course.write(course.record("ada", half))
    assert course.score("ada") == RELEASE.lab.max_points / 2


def test_an_untouched_free_text_is_zero_and_needs_nobody(course):
    course.write(course.record("ada", verdicts(), answer="*Your answer here.*"))
    assert course.grades("ada")["why_silent"] == 0.0


def test_nothing_a_student_wrote_becomes_markup(course):
    found = verdicts(address=State.FAIL)
    course.write(course.record("ada", found, answer=f"{SCRIPT} [x](javascript:alert(1))"))
    page = course.page("ada")
    assert "alert(1)" in page
    assert "<script" not in page
    assert 'href="javascript' not in page
    notebook = json.loads(course.autograded("ada").read_text())
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            assert "<script" not in "".join(output.get("data", {}).get("text/html", ""))


def test_a_page_that_shows_every_question_and_no_seed(course):
    course.write(course.record("ada", verdicts(address=State.FAIL)))
    page = course.page("ada")
    assert all(question.name in page for question in RELEASE.lab)
    assert "77777" not in page


def nbgraders_own(course, *command):
    program = str(Path(sys.executable).parent / "nbgrader")
    subprocess.run([program, *command], cwd=course.folder, check=True, capture_output=True)


def test_nbgraders_own_commands_make_the_same_of_it(course):
    """Formgrader's buttons run these: the grades, the notebook and the page stay as they are."""
    found = verdicts(address=State.FAIL, overlaps=State.FLAGGED)
    course.write(course.record("ada", found, submitted="2026-11-20 10:00:00"))
    grades, page = course.grades("ada"), course.page("ada")
    notebook = course.autograded("ada").read_bytes()
    nbgraders_own(course, "autograde", NAME, "--force")
    nbgraders_own(course, "generate_feedback", NAME, "--force")
    assert course.grades("ada") == grades
    assert course.page("ada") == page
    assert course.autograded("ada").read_bytes() == notebook
    nbgraders_own(course, "export", "--to", "grades.csv")
    assert f",{course.score('ada')}," in (course.folder / "grades.csv").read_text()


def test_a_comment_of_a_person_is_on_the_page_after_a_new_submission(course):
    course.write(course.record("ada", verdicts(address=State.FAIL)))
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, "ada").notebooks
        (comment,) = [one for one in notebook.comments if one.name == "why_silent"]
        comment.manual_comment = "Nearly."
        book.db.commit()
    course.write(course.record("ada", verdicts(), answer="Better."))
    assert "Nearly." in course.page("ada")


def test_a_gradebook_that_somebody_else_holds_is_one_line(course, monkeypatch):
    course.write(course.record("ada", verdicts()))
    holder = sqlite3.connect(course.folder / "gradebook.db", isolation_level=None)
    monkeypatch.setattr(nbcourse, "LOCKED_S", 0.2)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UserError, match=r"is in use: close formgrader.*The verdicts are safe"):
        course.write(course.record("bob", verdicts()))
    assert "database is locked" in (course.folder / "grade.log").read_text()
    holder.execute("COMMIT")
    holder.close()
    assert course.write(course.record("bob", verdicts())) == set()
    assert course.score("bob") == course.score("ada")


@pytest.mark.parametrize("step", ["submitted", "autograded", "feedback"])
def test_a_disk_that_is_full_is_nobodys_refusal(course, monkeypatch, step):
    """It is raised for the command to say, and the next run makes what is missing."""
    course.write(course.record("ada", verdicts()))
    write, writer = atomic_write.write, FilesWriter.write

    def expect_room(path):
        if step in path.parts and "bob" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")

    def ours(path, data, **options):
        expect_room(path)
        write(path, data, **options)

    def theirs(self, *given, **options):
        expect_room(Path(self.build_directory))
        return writer(self, *given, **options)

    everybody = [course.record(student, verdicts()) for student in ("ada", "bob", "cy")]
    with monkeypatch.context() as patched:
        patched.setattr(atomic_write, "write", ours)
        patched.setattr(FilesWriter, "write", theirs)
        with pytest.raises(OSError, match="No space left"):
            course.write(*everybody)
    assert course.write(*everybody) == set()
    assert course.score("ada") == course.score("bob") == course.score("cy")
    assert all(course.page(one).rstrip().endswith("</html>") for one in ("ada", "bob", "cy"))


def test_a_database_on_a_full_disk_is_one_line(course):
    course.write(course.record("ada", verdicts()))
    error = OperationalError("INSERT", {}, Exception("database or disk is full"))
    with (
        quiet(course.folder / "grade.log") as log,
        pytest.raises(UserError, match="because the disk is full"),
        nbcourse.in_one_line(course.folder, log),
    ):
        raise error


def test_the_same_again_writes_nothing(course):
    graded = course.record("ada", verdicts())
    course.write(graded)
    was = course.autograded("ada").stat().st_mtime_ns
    course.write(graded)
    assert course.autograded("ada").stat().st_mtime_ns == was


def test_a_new_submission_replaces_and_a_persons_grade_stays(course):
    course.write(course.record("ada", verdicts(address=State.FAIL)))
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, "ada").notebooks
        (grade,) = [grade for grade in notebook.grades if grade.name == "why_silent"]
        grade.manual_score = 3.0
        book.db.commit()
    course.write(course.record("ada", verdicts(), answer="Better."))
    assert course.score("ada") == RELEASE.lab.max_points + 3


def mark(course, student, points, cell="why_silent"):
    """As a person does in formgrader."""
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, student).notebooks
        (grade,) = [grade for grade in notebook.grades if grade.name == cell]
        grade.manual_score, grade.needs_manual_grade = points, False
        book.db.commit()


def test_the_same_text_is_marked_once(course):
    course.write(course.record("ada", verdicts(address=State.FAIL)))
    mark(course, "ada", 3.0)
    again = course.record("ada", verdicts())
    course.write(replace(again, record=replace(again.record, key=key_of("another"))))
    assert course.grades("ada")["why_silent"] == 3.0
    course.write(course.record("ada", verdicts(), answer="Better."))
    assert course.grades("ada")["why_silent"] is None
    mark(course, "ada", 4.0)
    nbgraders_own(course, "autograde", NAME, "--force")
    assert course.grades("ada")["why_silent"] == 4.0


def test_a_changed_text_is_marked_again_though_a_kill_came_between(course, monkeypatch):
    course.write(course.record("ada", verdicts()))
    mark(course, "ada", 3.0)
    better = course.record("ada", verdicts(), answer="Better.")
    with monkeypatch.context() as killed:
        killed.setattr(Converters, "autograde", kill)
        with pytest.raises(KeyboardInterrupt):
            course.write(better)
    course.write(better)
    assert course.grades("ada")["why_silent"] is None


def test_a_flagged_answer_that_a_person_settled_stays_settled_until_its_verdict_is_another(course):
    flagged = verdicts(address=State.FLAGGED)
    course.write(course.record("ada", flagged))
    mark(course, "ada", 1.5, "address_check")
    course.write(course.record("ada", verdicts(address=State.FLAGGED, overlaps=State.FAIL)))
    assert course.grades("ada")["address_check"] == 1.5
    course.write(course.record("ada", verdicts(overlaps=State.FAIL)))
    assert course.grades("ada")["address_check"] is None  # a person has not seen this verdict


def test_nbgraders_own_command_opens_nothing_that_a_person_settled(course):
    flagged = verdicts(address=State.FLAGGED, overlaps=State.UNGRADABLE)
    course.write(course.record("ada", flagged))
    mark(course, "ada", 1.5, "address_check")
    mark(course, "ada", 0.5, "gather_flat_check")  # which had passed
    nbgraders_own(course, "autograde", NAME, "--force")
    found = course.grades("ada")
    assert (found["address_check"], found["gather_flat_check"]) == (1.5, 0.5)
    assert found["overlaps_check"] is None  # nobody has looked


def test_a_mark_of_the_same_text_stands_wherever_a_kill_came(course, monkeypatch):
    """Before nbgrader's steps, among them, and after them; three times in a row."""
    course.write(course.record("ada", verdicts(address=State.FLAGGED, overlaps=State.FAIL)))
    mark(course, "ada", 3.0)
    mark(course, "ada", 1.5, "address_check")
    again = course.record("ada", verdicts(address=State.FLAGGED))
    steps = (Converters, "autograde"), (AssignLatePenalties, "preprocess"), (Converters, "feedback")
    for step in steps:
        with monkeypatch.context() as killed:
            killed.setattr(*step, kill)
            with pytest.raises(KeyboardInterrupt):
                course.write(again)
    course.write(again)
    found = course.grades("ada")
    assert (found["why_silent"], found["address_check"]) == (3.0, 1.5)
    assert found["overlaps_check"] == RELEASE.lab.questions["overlaps"].points


def test_what_a_second_person_marks_meanwhile_stays(course):
    """Formgrader is open beside the command that publishes."""
    ada = course.record("ada", verdicts(address=State.FAIL))
    course.write(ada)

    def arriving():
        yield ada
        mark(course, "ada", 3.0)
        yield course.record("bob", verdicts())
        mark(course, "bob", 2.0)
        again = course.record("ada", verdicts())
        yield replace(again, record=replace(again.record, key=key_of("again")))

    with quiet(course.folder / "grade.log") as log:
        assert publish(course.folder, RELEASE, arriving(), log).refused == set()
    assert course.grades("ada")["why_silent"] == 3.0
    assert course.grades("bob")["why_silent"] == 2.0
    assert course.score("ada") == RELEASE.lab.max_points + 3


def kill(*_):
    raise KeyboardInterrupt


def test_an_open_question_that_was_settled_later_is_settled(course):
    course.write(course.record("ada", verdicts(address=State.UNGRADABLE)))
    assert course.grades("ada")["address_check"] is None
    course.write(course.record("ada", verdicts()))
    assert course.grades("ada")["address_check"] == 2.0


def test_a_known_time_is_nbgraders_time(course):
    course.write(course.record("ada", verdicts(), submitted="2026-11-20 10:00:00"))
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as book:
        assert str(book.find_submission(NAME, "ada").timestamp) == "2026-11-20 10:00:00"


def test_one_that_nbgrader_refuses_stops_nobody(course):
    """As one would whose verdict cannot be said."""
    unsaid = (replace(verdicts()[0], cause=Cause.WRONG, sentence=text("of no catalogue")),)
    found = {"ada": verdicts(), "bob": unsaid, "cy": verdicts()}
    graded = [course.record(student, of) for student, of in found.items()]
    assert course.write(*graded) == {"bob"}
    assert course.score("ada") == course.score("cy") == RELEASE.lab.max_points
    assert not course.autograded("bob").exists()
    assert "of no catalogue" in (course.folder / "grade.log").read_text()


def test_formgraders_button_neither_runs_nor_grades_what_was_not_judged(course):
    """nbgrader would execute a notebook that somebody put into submitted/ by hand."""
    course.write(course.record("ada", verdicts()))
    foreign = course.folder / "submitted" / "eve" / NAME / f"{NAME}.ipynb"
    foreign.parent.mkdir(parents=True)
    trace = course.folder / "trace"
    foreign.write_text(json.dumps(filled({"setup": f"open({str(trace)!r}, 'w')"})))
    command = [str(Path(sys.executable).parent / "nbgrader"), "autograde", NAME]
    done = subprocess.run(command, cwd=course.folder, capture_output=True, check=False, timeout=120)
    assert done.returncode != 0
    assert not trace.exists()
    assert not course.autograded("eve").exists()


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\x00" + b"\xff" * 5_000])
def test_a_damaged_gradebook_is_one_line_or_made_anew(course, content):
    (course.folder / "gradebook.db").write_bytes(content)
    if content:
        with pytest.raises(UserError, match=r"gradebook.db is damaged"):
            course.write(course.record("ada", verdicts()))
    else:  # to SQLite an empty file is an empty database
        assert course.write(course.record("ada", verdicts())) == set()


def test_a_gradebook_that_was_begun_when_the_power_went(course):
    for name in (".gradebook.begun", ".gradebook.begun-journal"):
        (course.folder / name).write_bytes(b"half a database")
    assert course.write(course.record("ada", verdicts())) == set()


def test_a_folder_that_nbgrader_would_take_for_a_pattern(tmp_path):
    folder = tmp_path / "autumn [2026]"
    folder.mkdir()
    course = Class(folder)
    with pytest.raises(UserError, match=r"one of \* \? \["):
        course.write(course.record("ada", verdicts()))


def test_a_lab_that_lost_a_question_since_the_first_grading(course):
    course.write(course.record("ada", verdicts()))
    shorter = json.loads(RELEASE.notebook)
    shorter["cells"] = [c for c in shorter["cells"] if not c["id"].startswith("address")]
    changed = replace(RELEASE, notebook=json.dumps(shorter).encode())
    graded = course.record("bob", verdicts())
    with (
        quiet(course.folder / "grade.log") as log,
        pytest.raises(UserError, match="has other cells now"),
    ):
        publish(course.folder, changed, [graded], log)


class TestAhead:
    """What is written while others are still being graded."""

    @pytest.mark.parametrize("meanwhile", [True, False])
    def test_is_what_would_be_written_at_the_end(self, course, meanwhile):
        everybody = [course.record(one, verdicts(address=State.FAIL)) for one in ("ada", "bob")]
        with Publisher(course.folder, RELEASE, None, meanwhile=meanwhile) as publisher:
            for one in everybody:
                publisher.add(one)
        ahead = {path: path.read_bytes() for path in course.folder.rglob("*.html")}
        written = {path: path.stat().st_mtime_ns for path in course.folder.glob("*/*/*/*.*")}
        assert len(ahead) == 2
        assert course.write(*everybody) == set()
        assert written == {path: path.stat().st_mtime_ns for path in written}
        for path in ahead:
            path.unlink()
        assert course.write(*everybody) == set()
        assert ahead == {path: path.read_bytes() for path in ahead}
        assert course.score("ada") == course.score("bob") == RELEASE.lab.max_points - 2

    def test_a_refused_one_costs_no_neighbour(self, course):
        unsaid = (replace(verdicts()[0], cause=Cause.WRONG, sentence=text("of no catalogue")),)
        bad, good = course.record("a b", unsaid), course.record("bob", verdicts())
        with Publisher(course.folder, RELEASE, None) as publisher:
            publisher.add(bad)
            publisher.add(good)
        assert publisher.published.refused == {"a b"}
        assert course.page("bob")
        assert course.write(bad, good) == {"a b"}

    def test_with_no_processor_for_it_nothing_is_begun_before_the_end(self, course):
        with Publisher(course.folder, RELEASE, None, meanwhile=False) as publisher:
            publisher.add(course.record("ada", verdicts()))
            assert "publisher" not in str(threading.enumerate())
            assert not (course.folder / "gradebook.db").exists()
        assert publisher.published.written == 1
        assert course.page("ada")

    def test_a_gradebook_that_somebody_else_holds_is_said_at_the_end(self, course, monkeypatch):
        course.write(course.record("ada", verdicts()))
        holder = sqlite3.connect(course.folder / "gradebook.db", isolation_level=None)
        monkeypatch.setattr(nbcourse, "LOCKED_S", 0.2)
        holder.execute("BEGIN EXCLUSIVE")
        late = course.record("bob", verdicts())
        with (
            pytest.raises(UserError, match="is in use"),
            Publisher(course.folder, RELEASE, None) as publisher,
        ):
            publisher.add(late)
        holder.execute("COMMIT")
        holder.close()
        assert not (course.folder / "feedback" / "bob").exists()
        assert course.write(late) == set()
        assert course.page("bob")

    @pytest.mark.parametrize("meanwhile", [True, False])
    def test_when_grading_stops_it_stops(self, course, meanwhile):
        publisher = Publisher(course.folder, RELEASE, None, meanwhile=meanwhile)
        stopped = KeyboardInterrupt()
        publisher.__enter__()
        for name in "abcdefgh":
            publisher.add(course.record(name, verdicts()))
        publisher.__exit__(KeyboardInterrupt, stopped, None)
        assert len(list(course.folder.rglob("*.html"))) < 8
