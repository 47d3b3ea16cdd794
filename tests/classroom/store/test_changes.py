"""What an instructor changed after the grading, as it counts: points by hand, no class graded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.store import changes
from autograder.classroom.store.changes import Change, Judged, applied, changed, newest, points
from autograder.classroom.store.journal import Record
from autograder.judge import Cause, Verdict
from tests.classroom.made_class import LAB

RIGHT = Verdict("address", Cause.PASSED, 2.0, 2.0, 7)
WRONG = Verdict("overlaps", Cause.WRONG, 0.0, 3.0, 8, misconception="spans", sentence="It spans.")
HALF = Verdict("copied_bytes", Cause.WRONG, 1.0, 4.0, 9)
RECORD = Record("ada", "01_strides", "key", "00ff", (RIGHT, WRONG, HALF))
WHEN = "2026-11-24 10:00"


def change(question: str, **more: object) -> Change:
    return Change(question, "a typo", WHEN, **more)


def scores(*made: Change, record: Record = RECORD) -> list[tuple[float, float]]:
    return [(verdict.points, verdict.max_points) for verdict in applied(record, made).verdicts]


def test_nothing_changed_is_the_very_same():
    assert applied(RECORD, []) is RECORD
    undone = change("address", points=0.0, undone=f"{WHEN}: it was right")
    assert applied(RECORD, [undone]) is RECORD


def test_a_dropped_question_is_worth_nothing_and_costs_nothing():
    assert scores(change("overlaps", points=0.0)) == [(2, 2), (0, 0), (1, 4)]


def test_other_points_keep_the_share():
    assert scores(change("copied_bytes", points=10.0)) == [(2, 2), (0, 3), (2.5, 10)]


def test_a_share_is_rounded_to_what_a_gradebook_can_hold():
    third = replace(RECORD, verdicts=(replace(HALF, points=1.0, max_points=3.0),))
    assert scores(change("copied_bytes", points=2.0), record=third) == [(0.666667, 2.0)]


@pytest.mark.parametrize("first", [0.0, 1.0, 8.0, 1 / 3])
def test_of_changes_of_one_question_the_last_counts(first):
    """Whoever drops a question and then thinks better of it has taken nothing from anybody."""
    twice = change("copied_bytes", points=first), change("copied_bytes", points=2.0)
    assert scores(*twice) == [(2, 2), (0, 3), (0.5, 2)]
    back = change("address", points=0.0), change("address", points=2.0)
    assert scores(*back) == [(2, 2), (0, 3), (1, 4)]


def test_what_was_worth_nothing_has_no_share_to_keep():
    free = replace(RECORD, verdicts=(replace(RIGHT, points=0.0, max_points=0.0),))
    assert scores(change("address", points=5.0), record=free) == [(0, 5)]


def test_an_accepted_misconception_passes_and_is_none_any_more():
    accepted = change("overlaps", misconception="spans")
    verdict = applied(RECORD, [accepted]).verdicts[1]
    assert verdict == replace(WRONG, cause=Cause.PASSED, points=3.0, misconception="", sentence="")


def test_accepted_and_worth_something_else():
    """In whichever order the two were told."""
    both = [change("overlaps", points=6.0), change("overlaps", misconception="spans")]
    assert scores(*both) == scores(*both[::-1]) == [(2, 2), (6, 6), (1, 4)]


@pytest.mark.parametrize(
    "other",
    [
        {"misconception": "reversed"},
        {"misconception": ""},
        {"student": "bob", "sha256": "00ff"},
        {"student": "ada", "sha256": "11ff"},
        {"student": "bob", "sha256": "11ff", "misconception": "spans"},
    ],
)
def test_what_was_accepted_of_others_is_not_accepted_here(other):
    assert scores(change("overlaps", **other)) == [(2, 2), (0, 3), (1, 4)]


def test_a_misconception_is_accepted_for_its_question_alone():
    assert scores(change("copied_bytes", misconception="spans")) == [(2, 2), (0, 3), (1, 4)]


def test_one_students_answer_is_accepted_whatever_was_found():
    for question, want in (("overlaps", [(2, 2), (3, 3), (1, 4)]),
                           ("copied_bytes", [(2, 2), (0, 3), (4, 4)])):  # fmt: skip
        accepted = change(question, student="ada", sha256="00ff")
        assert scores(accepted) == want


@pytest.mark.parametrize(
    "kind", [{"points": 1.0}, {"judged": (Judged("ada", "key", WRONG),)}, {}], ids=str
)
def test_only_an_acceptance_accepts(kind):
    made = change("overlaps", **kind)
    assert not made.accepts(RECORD, replace(WRONG, misconception=""))
    assert not replace(made, misconception="spans", **kind).accepts(RECORD, RIGHT)
    if kind:
        assert replace(made, misconception="spans").accepts(RECORD, WRONG) is False


def test_an_acceptance_is_of_its_own_question():
    accepted = change("overlaps", misconception="spans")
    assert accepted.accepts(RECORD, WRONG)
    assert not accepted.accepts(RECORD, replace(WRONG, question="address"))


def test_a_question_that_nobody_changed_is_not_rounded():
    third = replace(RECORD, verdicts=(replace(HALF, points=1 / 3), WRONG))
    assert scores(change("overlaps", points=6.0), record=third) == [(1 / 3, 4), (0, 6)]


def again(verdict: Verdict, student: str = "ada", key: str = "key", **more: object) -> Change:
    return change("", judged=(Judged(student, key, verdict),), **more)


def test_what_was_judged_again_takes_the_place_of_its_question():
    now = replace(WRONG, cause=Cause.PASSED, points=3.0)
    assert newest(RECORD, [again(now)]).verdicts == (RIGHT, now, HALF)
    assert scores(again(now), change("overlaps", points=6.0)) == [(2, 2), (6, 6), (1, 4)]


def test_the_last_time_counts():
    first, last = replace(WRONG, points=1.0), replace(WRONG, points=2.0)
    assert newest(RECORD, [again(first), again(last)]).verdicts[1] == last
    undone = again(last, undone=f"{WHEN}: no")
    assert newest(RECORD, [again(first), undone]).verdicts[1] == first


@pytest.mark.parametrize("other", [{"student": "bob"}, {"key": "another"}, {"undone": "since"}])
def test_what_was_judged_again_of_others_changes_nothing(other):
    assert newest(RECORD, [again(replace(WRONG, points=1.0), **other)]) is RECORD


def test_what_questions_are_worth_now():
    made = [
        change("address", points=5.0),
        change("address", points=3.0),
        change("overlaps", points=0.0),
        change("copied_bytes", points=9.0, undone=f"{WHEN}: no"),
        change("view_strides", misconception="spans"),
    ]
    assert points(made) == {"address": 3.0, "overlaps": 0.0}
    shown = changed(LAB, made)
    assert {q.name: q.points for q in shown} == {q.name: q.points for q in LAB} | points(made)
    assert shown.title == LAB.title
    assert LAB.questions["address"].points == 2  # the lab itself is asked as ever


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (change("address", points=2.5), "address: 2.5 points"),
        (change("address", points=0.0), "address: dropped"),
        (change("address", misconception="spans"), "address: spans accepted"),
        (change("address", student="ada"), "address: the answer of ada accepted"),
        (again(WRONG), "every question: judged again, 1 otherwise"),
        (
            replace(again(WRONG), question="address", student="ada"),
            "address: of ada judged again, 1 otherwise",
        ),
    ],
)
def test_a_change_in_words(made, said):
    assert str(made) == f"{said}, {WHEN}: a typo"
    undone = replace(made, undone="2026-11-25 11:00: a mistake")
    assert str(undone) == f"{said}, {WHEN}: a typo; undone 2026-11-25 11:00: a mistake"


def test_what_was_written_is_read(tmp_path):
    made = [
        change("address", points=0.0),
        change("overlaps", misconception="spans", undone="später"),
        change("overlaps", student="ada", sha256="00ff"),
        again(WRONG),
    ]
    changes.write(tmp_path, "01_strides", made)
    assert changes.read(tmp_path, "01_strides") == made
    assert changes.read(tmp_path, "02_dispatcher") == []
    (path,) = (tmp_path / "changes").iterdir()
    assert path.name == "01_strides.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "später" in path.read_text("utf-8")  # whoever opens it can read it
    assert len(path.read_text("utf-8").splitlines()) > 10


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[1]", b"[{}]", b'[{"question": "a"}]', b'[{"judged": [{}]}]', b"\xff", b"3"],
)
def test_a_damaged_list_is_said_and_grades_are_not_guessed(tmp_path, damaged):
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "01_strides.json").write_bytes(damaged)
    with pytest.raises(UserError, match=r"01_strides\.json, which says .* is damaged"):
        changes.read(tmp_path, "01_strides")


def test_a_list_that_cannot_be_read_is_said_too(tmp_path):
    (tmp_path / "changes" / "01_strides.json").mkdir(parents=True)
    with pytest.raises(UserError, match="is damaged"):
        changes.read(tmp_path, "01_strides")
