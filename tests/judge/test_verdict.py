"""Verdicts: their causes, what they look like, and those of before there were causes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autograder.judge import Cause, State, Verdict, text
from autograder.judge.verdict import one_line

STATES = {
    State.PASS: {Cause.PASSED},
    State.FLAGGED: {Cause.TOO_FAST, Cause.IMPOSSIBLE, Cause.NOT_ADMITTED},
    State.UNGRADABLE: {Cause.PUT_OFF, Cause.GRADER_FAULT, Cause.CHECK_FAULT},
}


@pytest.mark.parametrize("cause", Cause)
def test_a_state_follows_from_its_cause(cause: Cause) -> None:
    state = next((state for state, causes in STATES.items() if cause in causes), State.FAIL)
    verdict = Verdict("q", cause, 0, 1, 1)
    assert verdict.state is state
    assert verdict.is_answered is (cause not in (Cause.BLANK, Cause.MISSING))
    assert verdict.mark == (state if verdict.is_answered else "not yet")


@pytest.mark.parametrize("cause", [Cause.TIMED_OUT, Cause.REPLACED, Cause.DIED])
def test_an_answer_without_a_value_is_an_answer(cause: Cause) -> None:
    """What ran out of time was once "not yet" on its card, and wrong in the report."""
    assert str(Verdict("q", cause, 0, 1, 1)).startswith("q   fail   0 of 1 point ")


def test_a_verdict_is_stored_and_read_back_whole() -> None:
    said = text(
        "error", error="E", message=text("lines", lines=[text("line", number=1, source="")])
    )
    verdict = Verdict("q", Cause.RAISED, 0.0, 1.0, 7, got=said, where=text("at", place="[1]"))
    verdict = Verdict(**{**vars(verdict), "remarks": (text("asked_twice"), "own words")})
    assert Verdict.from_mapping(json.loads(verdict.to_json())) == verdict


@pytest.mark.parametrize(
    "data",
    [
        {"state": "pass", "points": 99, "surprise": 1},
        {"question": "q", "cause": "won", "points": 0, "max_points": 1, "seed": 1},
        {"question": "q", "state": "won", "points": 0, "max_points": 1, "seed": 1},
        {"cause": "passed"},
        {},
    ],
    ids=str,
)
def test_what_is_no_verdict_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Verdict.from_mapping(data)


NOT_WRITTEN = "no argument was written into"
OLD = [
    ({"state": "pass"}, Cause.PASSED),
    ({"state": "flagged", "sentence": "An answer came after 3 microseconds."}, Cause.TOO_FAST),
    ({"state": "ungradable", "sentence": "The grader failed, not you: gone"}, Cause.GRADER_FAULT),
    ({"state": "ungradable", "sentence": "The check itself failed (E: x)."}, Cause.CHECK_FAULT),
    ({"state": "fail", "sentence": "Lab 1.1 is not answered yet."}, Cause.BLANK),
    (
        {"state": "fail", "sentence": "Lab 1.1 is not answered yet. Another cell answers it."},
        Cause.BLANK,
    ),
    (
        {
            "state": "fail",
            "sentence": "Your answer calls that of another question, which is not answered yet.",
            "expected": "a value",
            "got": "NotImplementedError: Lab 1.2: other",
        },
        Cause.RAISED,
    ),
    (
        {"state": "fail", "got": "there is no function 'f' yet", "expected": "a value"},
        Cause.MISSING,
    ),
    ({"state": "fail", "got": "TimeoutError: no answer within 4 s"}, Cause.TIMED_OUT),
    ({"state": "fail", "got": "ProcessEnded: it ended"}, Cause.DIED),
    ({"state": "fail", "got": "TypeError: it returned a set; an answer"}, Cause.UNSENDABLE),
    ({"state": "fail", "got": "ValueError: x", "expected": "a value"}, Cause.RAISED),
    ({"state": "fail", "got": "3", "expected": "4"}, Cause.WRONG),
    ({"state": "fail", "sentence": "Your function wrote into its input: so"}, Cause.WROTE_INPUT),
    (
        {"state": "fail", "sentence": "The questions before this one had used up the notebook's 9"},
        Cause.TIMED_OUT,
    ),
]


@pytest.mark.parametrize(("fields", "cause"), OLD, ids=lambda one: str(one)[:40])
def test_a_verdict_of_before_there_were_causes_is_read(
    fields: dict[str, str], cause: Cause
) -> None:
    """As `to_json` wrote them until then, so that an old grading folder opens."""
    old = {"question": "q", "points": 0.0, "max_points": 1.0, "seed": 1, "title": "Lab 1.1"}
    found = Verdict.from_mapping({**old, "witnessed": NOT_WRITTEN, **fields})
    assert (found.cause, found.state) == (cause, fields["state"])
    assert found.witnessed == ("not_written",)
    assert Verdict.from_mapping(json.loads(found.to_json())) == found


def test_remarks_follow_the_sentence() -> None:
    verdict = Verdict("q", Cause.WRONG, 0, 1, 1, sentence="So.", remarks=(text("asked_twice"),))
    assert verdict.explanation.startswith("So. It ran out of time")


@pytest.mark.parametrize("mean", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800b"])
def test_a_students_text_draws_no_line_of_its_own(mean: str) -> None:
    assert one_line(mean).isprintable()
    assert one_line("plain é") == "plain é"
