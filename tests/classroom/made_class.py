"""A graded class made by hand: records, grades and a roster, without running anybody's code."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autograder.attacks.sample_class import NAME, ROOT, filled
from autograder.classroom.gradebook import late_policy
from autograder.classroom.gradebook.course import database, quiet
from autograder.classroom.gradebook.publish import Graded, publish
from autograder.classroom.intake.rebuild import rebuild
from autograder.classroom.intake.release import CHECK_SUFFIX, releases
from autograder.classroom.intake.submissions import Submission
from autograder.classroom.intake.taking import Entry
from autograder.classroom.reports.results import Grade, Mark, Result
from autograder.classroom.store import roster
from autograder.classroom.store.journal import Journal, Record, key_of
from autograder.classroom.store.roster import Line
from autograder.judge import Cause, State, Verdict

RELEASE = releases(ROOT)[NAME]
LAB = RELEASE.lab
FREE_TEXT = "why_silent"
SCRIPT = "</pre></td><script>document.title='owned'</script><img src=x onerror=alert(1)>"


CAUSES = {State.FLAGGED: Cause.TOO_FAST, State.UNGRADABLE: Cause.GRADER_FAULT}
CAUSES |= {State.PASS: Cause.PASSED, State.FAIL: Cause.WRONG}


def verdict(question: str, state: State = State.PASS, **more: object) -> Verdict:
    """As the judge makes them; `blank=True` for an untouched stub."""
    asked = LAB.questions[question]
    points = asked.points if state is State.PASS else 0.0
    where = {"torch": "2.13.0+cpu", "tier": "bubblewrap", "title": asked.title}
    costs = {"wall_s": 0.01, "peak_bytes": 40_000}
    cause = Cause.BLANK if more.pop("blank", False) else CAUSES[state]
    made = Verdict(question, cause, points, asked.points, 77_777, **where, **costs)
    return replace(made, **more)


def record(student: str, **different: Verdict) -> Record:
    """All right, but for these."""
    verdicts = tuple(different.get(q.name, verdict(q.name)) for q in LAB)
    return Record(student, NAME, key_of(student), "00ff", verdicts, (), 0.4)


def result(student: str, made: Record | None = None, **more: object) -> Result:
    """A student with grades as nbgrader would have them: the free text is open."""
    made = made or record(student)
    marks = {v.question + CHECK_SUFFIX: Mark(v.points, v.max_points, False) for v in made.verdicts}
    grade = Grade(marks | {FREE_TEXT: Mark(0.0, 5.0, True)})
    line = Line(student, f"{student}/{NAME}.ipynb", key=made.key, sha256=made.sha256)
    return replace(Result(line, made, grade), **more)


def marked(one: Result, points: float, cell: str = FREE_TEXT) -> Result:
    """After a person has marked the free text, or looked at another cell."""
    assert one.grade is not None
    marks = dict(one.grade.marks)
    marks[cell] = Mark(points, marks[cell].max_points, False)
    return replace(one, grade=replace(one.grade, marks=marks))


def late(one: Result, penalty: float, late_s: float = 1.0) -> Result:
    """Handed in `late_s` too late, which costs `penalty` points."""
    assert one.grade is not None
    return replace(one, grade=replace(one.grade, penalty=penalty, late_s=late_s))


def ungradable(student: str, reason: str) -> Result:
    return Result(Line(student, f"{student}/{NAME}.ipynb", ungradable=reason), reason=reason)


def class_of(size: int, seed: int = 1) -> list[Result]:
    """A class with ability in it: who knows more answers more questions right."""
    drawn = random.Random(seed)
    return [_student(f"student-{number:04d}", drawn) for number in range(size)]


def _student(name: str, drawn: random.Random) -> Result:
    ability = drawn.gauss(0.75, 0.2)
    verdicts: dict[str, Verdict] = {}
    for number, question in enumerate(LAB):
        if drawn.random() < ability - 0.03 * number:
            made = verdict(question.name)
        elif drawn.random() < 0.3:
            made = verdict(question.name, State.FAIL, blank=True)
        else:
            made = _wrong(question.name, drawn.choice([*question.wrong_answers, None]))
        if drawn.random() < 0.004:
            made = verdict(question.name, drawn.choice([State.FLAGGED, State.UNGRADABLE]),
                           sentence="Faster than the memory of this machine allows.")  # fmt: skip
        wall_s = 0.004 * (1 + number) * drawn.lognormvariate(0, 0.6)
        size = int(30_000 * (1 + number) * drawn.lognormvariate(0, 1))
        verdicts[question.name] = replace(made, wall_s=wall_s, peak_bytes=size)
    return result(name, record(name, **verdicts))


def _wrong(question: str, known: object) -> Verdict:
    if known is None:
        return verdict(question, State.FAIL, got="3", expected="4", asked="size (2, 3)")
    return verdict(question, State.FAIL, misconception=known.name, sentence=known.sentence,
                   got="3", expected="4", asked="size (2, 3)")  # fmt: skip


def grading_folder(
    folder: Path,
    records: Sequence[Record],
    *,
    policy: late_policy.Policy | None = None,
    submitted: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    log: str = "grade.log",
    language: str = "en",
) -> Path:
    """A grading folder as `autograder grade` leaves it: journal, nbgrader's gradebook, roster."""
    folder.mkdir(parents=True, exist_ok=True)
    times = submitted or {}
    rebuilt = rebuild(json.dumps(filled({FREE_TEXT: "Because."})).encode(), RELEASE)
    rebuilt = replace(rebuilt, language=language)
    graded, lines = [], []
    for one in records:
        Journal(folder / "journal" / NAME).write(one)
        handed_in = Submission(
            one.student,
            origin(one.student),
            submitted=times.get(one.student, ""),
            note=(notes or {}).get(one.student, ""),
        )
        graded.append(Graded(one, Entry(handed_in, rebuilt, one.sha256)))
        lines.append(Line(one.student, origin(one.student), key=one.key, sha256=one.sha256))
    with quiet(folder / log) as logger:
        assert publish(folder, RELEASE, graded, logger, policy=policy).refused == set()
    roster.update(folder, NAME, lines)
    return folder


def four_students(folder: Path) -> Path:
    """Ada right; Bob and Cy wrong in the same way in the first question; Dee wrong in her own, and
    with 3 points for her free text by a person. What they handed in is kept."""
    first = next(iter(LAB.questions))
    wrong = LAB.questions[first].wrong_answers[0].name
    known = verdict(first, State.FAIL, misconception=wrong, sentence="So not.")
    failed = {"bob": known, "cy": known, "dee": verdict(first, State.FAIL, got="3")}
    records = [record("ada"), *(record(name, **{first: one}) for name, one in failed.items())]
    sha256 = kept(folder, {FREE_TEXT: "Because."})
    grading_folder(folder, [replace(one, sha256=sha256) for one in records])
    mark(folder, "dee", 3.0)
    return folder


def kept(folder: Path, answers: Mapping[str, str]) -> str:
    """The hash of a notebook with these answers, which lies in the folder as it came in."""
    data = json.dumps(filled(answers)).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    (folder / "received").mkdir(parents=True, exist_ok=True)
    (folder / "received" / f"{sha256}.ipynb").write_bytes(data)
    return sha256


def mark(
    folder: Path, student: str, points: float, comment: str = "", cell: str = FREE_TEXT
) -> None:
    """As formgrader does it."""
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as book:
        grade = book.find_grade(cell, NAME, NAME, student)
        grade.manual_score, grade.needs_manual_grade = points, False
        if comment:
            book.find_comment(cell, NAME, NAME, student).manual_comment = comment
        book.db.commit()


def origin(student: str) -> str:
    return f"{student}/{NAME}.ipynb"
