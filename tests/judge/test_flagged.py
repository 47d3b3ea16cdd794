"""What goes to a person: why, and where, as data."""

from __future__ import annotations

from autograder.judge import Cause, text
from autograder.judge.flagged import Flagged, Impossible, NotAdmitted


def test_a_count_that_no_machine_reaches() -> None:
    flagged = Impossible("loads", 9, 10)
    assert isinstance(flagged, Flagged)
    assert (flagged.cause, flagged.where) == (Cause.IMPOSSIBLE, "")
    assert flagged.why == text("impossible", what="loads", got=9, floor=10)
    assert str(flagged) == str(flagged.why)


def test_a_line_that_is_not_admitted_is_shown_in_at_most_eighty_characters() -> None:
    flagged = NotAdmitted(3, "    " + "x" * 90, "`x` is none of its names.")
    assert flagged.cause is Cause.NOT_ADMITTED
    assert flagged.why == text("not_admitted", line=3, reason="`x` is none of its names.")
    assert flagged.where == text("lines", lines=[text("line", number=3, source="x" * 80)])
