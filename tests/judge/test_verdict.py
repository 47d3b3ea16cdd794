"""Verdicts: their causes and what they look like."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autograder.judge import Cause, State, Verdict, text
from autograder.judge.verdict import BAR, WIDTH, one_line

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


def test_remarks_follow_the_sentence() -> None:
    verdict = Verdict("q", Cause.WRONG, 0, 1, 1, sentence="So.", remarks=(text("asked_twice"),))
    assert verdict.explanation.startswith("So. It ran out of time")
    alone = Verdict("q", Cause.WRONG, 0, 1, 1, remarks=("One.", "", "Two."))
    assert alone.explanation == "One. Two."


@pytest.mark.parametrize("mean", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800b"])
def test_a_students_text_draws_no_line_of_its_own(mean: str) -> None:
    assert one_line(mean).isprintable()
    assert one_line("plain é") == "plain é"


def lines_of(
    cause: Cause = Cause.WRONG, *, question: str = "is_contiguous", **said: Any
) -> list[str]:
    """What a student reads, line by line, below the first one."""
    head, *rest = str(shown(cause, question=question, **said)).splitlines()
    assert head.startswith(question[:90])
    return rest


def shown(cause: Cause, *, question: str = "is_contiguous", **said: Any) -> Verdict:
    points = 3.0 if cause is Cause.PASSED else 0.0
    return Verdict(question, cause, points, 3.0, 8841, torch="2.13.0+cpu", **said)


def test_the_first_line_says_what_how_and_where_and_fills_the_width() -> None:
    (head,) = str(shown(Cause.WRONG)).splitlines()
    assert head.split("   ")[:3] == ["is_contiguous", "fail", "0 of 3 points"]
    assert head.endswith(" on cpu, torch 2.13.0, seed 8841")
    assert len(head) == WIDTH == 100
    assert "on a simulated" in str(shown(Cause.WRONG, device="simulated"))


def test_a_name_that_leaves_no_room_puts_the_place_below() -> None:
    (head,) = str(shown(Cause.WRONG, question="q" * 43)).splitlines()
    assert head == "q" * 43 + "   fail   0 of 3 points   on cpu, torch 2.13.0, seed 8841"
    for n in (44, 200):
        head, *middle, place = str(shown(Cause.WRONG, question="q" * n)).splitlines()
        assert head.startswith("qqq")
        assert place == "  on cpu, torch 2.13.0, seed 8841"
        assert all(line.startswith(("  q", "  fail")) for line in middle)


def test_a_pass_shows_its_cost_and_nothing_to_do() -> None:
    said = {"cost": "one pass", "next_step": "n", "expected": "e", "sentence": "s"}
    assert lines_of(Cause.PASSED, **said) == ["  cost      one pass"]
    assert lines_of(Cause.PASSED) == []


def test_a_wrong_answer_is_told_row_by_row() -> None:
    said = {"asked": "size (2, 3)", "expected": "True", "got": "False", "next_step": "Look."}
    assert lines_of(**said, where=text("at", place="[1]"), sentence="So it is.") == [
        "  asked     size (2, 3)",
        "  expected  True        got  False",
        "  where     at [1]",
        "  So it is.",
        '  next      Look.      hint("is_contiguous")',
    ]
    known = lines_of(misconception="no_offset", sentence="No offset.", remarks=("Asked again.",))
    assert known == ["  why?      No offset.", "  Asked again."]
    assert lines_of(expected="a\nb", got="c") == [
        "  expected  a", "            b", "  got       c",
    ]  # fmt: skip
    assert lines_of(got="c") == ["  got       c"]


@pytest.mark.parametrize("over", [0, 1])
def test_expected_and_got_share_a_line_where_they_fit(over: int) -> None:
    expected, got = "e" * 40, "g" * (35 + over)
    both = f"  expected  {expected}        got  {got}"
    apart = [f"  expected  {expected}", f"  got       {got}"]
    assert len(both) == WIDTH + over
    assert lines_of(expected=expected, got=got) == (apart if over else [both])


@pytest.mark.parametrize("over", [0, 1])
def test_the_hint_stands_beside_the_next_step_where_it_fits(over: int) -> None:
    step, call = "n" * (61 + over), 'hint("is_contiguous")'
    assert len(f"  next      {step}      {call}") == WIDTH + over
    beside = [f"  next      {step}      {call}"]
    assert lines_of(next_step=step) == (
        [f"  next      {step}", f"            {call}"] if over else beside
    )
    two = lines_of(next_step=f"{'m' * 80} {step}")
    assert two[0] == f"  next      {'m' * 80}"
    assert two[-1].endswith(call)


def test_a_long_text_is_wrapped_at_spaces_and_cut_after_eight_rows() -> None:
    rows = lines_of(asked="\n".join("x" * k for k in range(1, 9)))
    assert rows == [f"  asked     {'x'}", *(" " * 12 + "x" * k for k in range(2, 9))]
    rows = lines_of(asked="\n".join("x" * k for k in range(1, 10)))
    assert rows[-2:] == [" " * 12 + "x" * 7, " " * 12 + "..."]
    assert len(rows) == 8
    assert lines_of(sentence=f"a\n{'c' * 98} well-known") == [
        "  a",
        "  " + "c" * 98,
        "  well-known",
    ]
    assert lines_of(sentence=f"{'c' * 90} well-known") == ["  " + "c" * 90, "  well-known"]


def test_a_quoted_program_is_whole_and_quoted_where_it_is_wrapped() -> None:
    program = "".join(f"\n{BAR}{'    ' * (k > 0)}y{k}" for k in range(20))
    rows = lines_of(asked=f"n 2\nsource:{program}")
    assert rows[:4] == ["  asked     n 2", f"{' ' * 12}source:", f"{' ' * 12}{BAR}y0",
                        f"{' ' * 12}{BAR}    y1"]  # fmt: skip
    assert len(rows) == 22
    wide = lines_of(asked=f"{BAR}{'x' * 80} {'y' * 80}")
    assert wide == [f"  asked     {BAR}{'x' * 80}", f"{' ' * 12}{BAR}{'y' * 80}"]
    rows = lines_of(asked="\n".join(["x"] * 9 + [f"{BAR}y"]))
    assert (len(rows), rows[-1]) == (9, f"{' ' * 12}...")


def test_a_stored_verdict_is_readable_and_the_same_from_run_to_run() -> None:
    stored = shown(Cause.WRONG, got="é").to_json()
    assert '"got": "é"' in stored
    assert list(json.loads(stored)) == sorted(json.loads(stored))


def test_a_verdict_says_little_of_itself() -> None:
    verdict = Verdict("q", Cause.PASSED, 1, 1, 1)
    assert (verdict.wall_s, verdict.cpu_s, verdict.peak_bytes, verdict.explanation) == (0, 0, 0, "")
    assert Cause("timeout") is Cause.TIMED_OUT
    assert f"{Cause.TIMED_OUT}" == "timeout"


def test_an_unknown_field_is_named() -> None:
    known = {"question": "q", "cause": "wrong", "points": 0, "max_points": 1, "seed": 1}
    with pytest.raises(KeyError, match=r"no field of a verdict: .*surprise"):
        Verdict.from_mapping({**known, "surprise": 1})


def test_what_cannot_be_shown_is_a_space() -> None:
    assert one_line("a\nb\x1b[2Jé") == "a b [2Jé"
