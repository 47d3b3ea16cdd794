"""Verdicts of before there were causes, as an old grading folder holds them."""

from __future__ import annotations

import json

import pytest

from autograder.judge import Cause, Verdict

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
    ({"state": "fail", "sentence": "Lab 1.1 is not answered yet.", "got": "3"}, Cause.WRONG),
    ({"state": "fail", "got": "Malformed: a frame"}, Cause.UNSENDABLE),
    (
        {"state": "fail", "got": "MemoryError: the answers of this question are too large"},
        Cause.UNSENDABLE,
    ),
    ({"state": "fail", "got": "MemoryError: no room", "expected": "a value"}, Cause.RAISED),
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
    found = Verdict.from_mapping({**old, **fields})
    assert (found.cause, found.state, found.witnessed) == (cause, fields["state"], ())
    assert Verdict.from_mapping(json.loads(found.to_json())) == found


@pytest.mark.parametrize(
    ("told", "keys"),
    [
        ("no argument was written into", ("not_written",)),
        (
            "no argument was written into; the answer shares memory with an argument",
            ("not_written", "shared"),
        ),
        ("whatever else", ()),
    ],
)
def test_what_an_old_one_rested_on_is_a_key_now(told: str, keys: tuple[str, ...]) -> None:
    old = {"question": "q", "points": 1.0, "max_points": 1.0, "seed": 1, "state": "pass"}
    assert Verdict.from_mapping({**old, "witnessed": told}).witnessed == keys


def test_the_old_fields_are_left_alone() -> None:
    """Who opens a folder may read it twice."""
    old = {"question": "q", "points": 1.0, "max_points": 1.0, "seed": 1, "state": "pass"}
    Verdict.from_mapping(old)
    assert "cause" not in old
    assert old["state"] == "pass"
