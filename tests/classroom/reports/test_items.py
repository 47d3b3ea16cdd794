"""What the questions of a lab tell about a class, and the class about the questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.classroom.reports.items import Spread, discrimination, items, misconceptions, spread
from autograder.classroom.store.journal import Record
from autograder.judge import State
from tests.classroom.made_class import (
    LAB,
    class_of,
    record,
    verdict,
)

FIRST, SECOND, *OTHERS = LAB.questions


def test_every_state_is_counted_once() -> None:
    records = [
        record("a"),
        record("b", **{FIRST: verdict(FIRST, State.FAIL, got="3")}),
        record("c", **{FIRST: verdict(FIRST, State.FAIL, blank=True)}),
        record("d", **{FIRST: verdict(FIRST, State.FLAGGED)}),
        record("e", **{FIRST: verdict(FIRST, State.UNGRADABLE)}),
    ]
    item = items(LAB, records)[0]
    assert (item.passed, item.wrong, item.blank, item.open) == (1, 1, 1, 2)
    assert item.pass_rate == pytest.approx(1 / 3)


def test_discrimination_is_the_correlation_with_all_other_questions() -> None:
    """Against the definition, written out."""
    records = [one.record for one in class_of(200) if one.record]
    whole = [r for r in records if {v.state for v in r.verdicts} <= {"pass", "fail"}]
    for question in LAB:
        own = [v.points for r in whole for v in r.verdicts if v.question == question.name]
        rest = [r.points - x for r, x in zip(whole, own, strict=True)]
        mx, my = sum(own) / len(own), sum(rest) / len(rest)
        top = sum((x - mx) * (y - my) for x, y in zip(own, rest, strict=True))
        below = sum((x - mx) ** 2 for x in own) * sum((y - my) ** 2 for y in rest)
        assert discrimination(question, records) == pytest.approx(top / below**0.5)


def test_a_question_that_only_the_weak_pass_is_negative() -> None:
    good = [record(f"g{n}", **{FIRST: verdict(FIRST, State.FAIL, got="3")}) for n in range(4)]
    wrong = {q: verdict(q, State.FAIL, got="3") for q in LAB.questions if q != FIRST}
    weak = [record(f"w{n}", **wrong) for n in range(4)]
    assert discrimination(LAB.questions[FIRST], good + weak) == pytest.approx(-1)


@pytest.mark.parametrize("size", [0, 1, 2, 50])
def test_where_all_are_alike_it_does_not_exist(size: int) -> None:
    alike = [record(f"s{n}") for n in range(size)]
    assert all(item.discrimination is None for item in items(LAB, alike))


def test_an_open_question_keeps_its_student_out() -> None:
    people = [record(f"s{n}") for n in range(4)]
    people += [record(f"f{n}", **{FIRST: verdict(FIRST, State.FAIL, got="3")}) for n in (1, 2)]
    people += [record("x", **{SECOND: verdict(SECOND, State.FAIL, got="3")})]
    was = discrimination(LAB.questions[FIRST], people)
    hung = record(
        "open", **{FIRST: verdict(FIRST, State.FAIL), SECOND: verdict(SECOND, State.FLAGGED)}
    )
    assert was is not None
    assert discrimination(LAB.questions[FIRST], [*people, hung]) == was


def test_misconceptions_come_by_frequency_with_their_sentence() -> None:
    def mistaken(student: str, name: str) -> Record:
        made = verdict(FIRST, State.FAIL, misconception=name, sentence=f"About {name}.")
        return record(student, **{FIRST: made})

    found = misconceptions([mistaken("a", "rare"), mistaken("b", "often"), mistaken("c", "often")])
    assert [(one.name, one.students) for one in found] == [
        ("often", ("b", "c")),
        ("rare", ("a",)),
    ]
    assert found[0].sentence == "About often."
    assert misconceptions([]) == []


def test_a_spread_says_the_median_and_what_nearly_all_stay_below() -> None:
    made = spread([float(n) for n in range(1, 101)])
    assert made == Spread(50.5, 96.0, 100)
    assert spread([3.0]) == spread([3.0, 3.0, 3.0][:1])
    assert spread([]) is None


@pytest.mark.parametrize("cost", ["wall_s", "peak_bytes"])
def test_a_process_that_was_killed_does_not_count_as_having_used_nothing(cost: str) -> None:
    """Nor does a stub that nobody answered count as quick."""
    costs = [verdict(FIRST, State.PASS, **{cost: value}) for value in (0, 0, 4096, 0.5)]
    costs.append(verdict(FIRST, State.FAIL, blank=True, **{cost: 1}))
    measured = items(LAB, [record(f"s{n}", **{FIRST: one}) for n, one in enumerate(costs)])[0]
    assert getattr(measured, cost) == Spread(2048.25, 4096, 2)


def test_a_question_that_nobody_was_asked_has_no_number() -> None:
    item = items(LAB, [])[0]
    assert (item.question.name, item.passed, item.wrong, item.blank, item.open) == (FIRST, *[0] * 4)
    assert (item.pass_rate, item.discrimination) == (None, None)
    assert (item.wall_s, item.peak_bytes) == (None, None)


def failed(student: str, *questions: str) -> Record:
    return record(student, **{name: verdict(name, State.FAIL, got="3") for name in questions})


def test_of_three_students_there_is_a_correlation_and_of_two_there_is_none() -> None:
    three = [record("a"), failed("b", FIRST, SECOND), failed("c", FIRST, *OTHERS)]
    assert discrimination(LAB.questions[FIRST], three) is not None
    assert discrimination(LAB.questions[FIRST], three[:2]) is None


@pytest.mark.parametrize("alike", [[(), (FIRST,), (FIRST,)], [(), (SECOND,), (SECOND, *OTHERS)]])
def test_where_one_side_is_alike_it_does_not_exist(alike: list[tuple[str, ...]]) -> None:
    people = [failed(f"s{n}", *questions) for n, questions in enumerate(alike)]
    assert discrimination(LAB.questions[FIRST], people) is None


def test_who_was_graded_before_there_was_the_question_is_kept_out() -> None:
    people = [record("a"), failed("b", FIRST, SECOND), failed("c", FIRST, *OTHERS)]
    old = record("old")
    old = replace(old, verdicts=tuple(v for v in old.verdicts if v.question != FIRST))
    was = discrimination(LAB.questions[FIRST], people)
    assert discrimination(LAB.questions[FIRST], [*people, old]) == was


def test_misconceptions_that_are_as_frequent_come_by_question_and_name() -> None:
    def mistaken(student: str, **names: str) -> Record:
        made = {q: verdict(q, State.FAIL, misconception=name) for q, name in names.items()}
        return record(student, **made)

    later, earlier = sorted((FIRST, SECOND), reverse=True)
    found = misconceptions(
        [
            mistaken("a", **{later: "a name", earlier: "z name"}),
            mistaken("b", **{earlier: "a name"}),
        ]
    )
    assert [(one.question, one.title, one.name) for one in found] == [
        (earlier, LAB.questions[earlier].title, "a name"),
        (earlier, LAB.questions[earlier].title, "z name"),
        (later, LAB.questions[later].title, "a name"),
    ]
