"""What the questions of a lab tell about the class, and the class about the questions."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autograder.judge import Lab, Question, State, Verdict

from ..store.journal import Record

FEW = 3
"""Fewer complete records than this and no correlation is shown."""


@dataclass(frozen=True)
class Spread:
    """How a measured quantity lies over the class: its median, what 95 of 100 stay below, how many
    were measured."""

    median: float
    most: float
    count: int


@dataclass(frozen=True)
class Item:
    """A question in numbers. open: verdicts that wait for a person.

    discrimination: the item-rest correlation, see `discrimination`. wall_s: seconds; peak_bytes: by
    how much the student's process grew.
    """

    question: Question
    passed: int
    wrong: int
    blank: int
    open: int
    discrimination: float | None
    wall_s: Spread | None
    peak_bytes: Spread | None

    @property
    def pass_rate(self) -> float | None:
        """Among those whose verdict stands."""
        judged = self.passed + self.wrong + self.blank
        return self.passed / judged if judged else None


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that has a name: the sentence that its students read, and who they are."""

    question: str
    title: str
    name: str
    sentence: str
    students: tuple[str, ...]


def items(lab: Lab, records: Sequence[Record]) -> list[Item]:
    """One Item per question of `lab`, in its order."""
    return [
        _item(question, _verdicts(question, records), discrimination(question, records))
        for question in lab
    ]


def _verdicts(question: Question, records: Iterable[Record]) -> list[Verdict]:
    return [v for record in records for v in record.verdicts if v.question == question.name]


def _item(question: Question, verdicts: Sequence[Verdict], correlation: float | None) -> Item:
    states = Counter(v.state.value if v.is_answered else "blank" for v in verdicts)
    answered = [v for v in verdicts if v.is_answered]
    return Item(
        question,
        passed=states[State.PASS],
        wrong=states[State.FAIL],
        blank=states["blank"],
        open=states[State.UNGRADABLE] + states[State.FLAGGED],
        discrimination=correlation,
        wall_s=spread([v.wall_s for v in answered if v.wall_s > 0]),
        peak_bytes=spread([v.peak_bytes for v in answered if v.peak_bytes > 0]),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """None where nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(statistics.median(ordered), ordered[int(0.95 * len(ordered))], len(ordered))


def discrimination(question: Question, records: Iterable[Record]) -> float | None:
    """The item-rest correlation: Pearson's, between the points for this question and the points for
    all others.

    Only students count whose every verdict stands. None where it does not exist: too few of them,
    or all alike.
    """
    own, rest = [], []
    for record in records:
        points = {v.question: v.points for v in record.verdicts if _stands(v)}
        if question.name in points and len(points) == len(record.verdicts):
            own.append(points[question.name])
            rest.append(sum(points.values()) - points[question.name])
    if len(own) < FEW or len(set(own)) == 1 or len(set(rest)) == 1:
        return None
    return statistics.correlation(own, rest)


def _stands(verdict: Verdict) -> bool:
    return verdict.state in (State.PASS, State.FAIL)


def misconceptions(records: Iterable[Record]) -> list[Misconception]:
    """Every wrong answer that was recognised, the most frequent first."""
    students: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Verdict] = {}
    for record in records:
        for verdict in record.verdicts:
            if verdict.misconception:
                key = (verdict.question, verdict.misconception)
                students.setdefault(key, []).append(record.student)
                first.setdefault(key, verdict)
    found = [
        Misconception(key[0], v.title, key[1], str(v.sentence), tuple(students[key]))
        for key, v in first.items()
    ]
    return sorted(found, key=lambda one: (-len(one.students), one.question, one.name))
