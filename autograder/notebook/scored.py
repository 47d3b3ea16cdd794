"""A verdict as nbgrader reads it, when nbgrader runs a notebook itself: its Validate does.

nbgrader takes a number for the points and an error for none. Anything else, a card too, is full
marks to it: it would call a lab of wrong answers a success.
"""

from __future__ import annotations

from autograder.judge import State, Verdict

from .card import Shown


class NotPassed(Exception):
    """The verdict of an answer that did not pass, in words."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback of ours, and Validate under "The error was"."""
        return [str(self)]


def scored(shown: Shown, verdict: Verdict) -> Shown:
    """`shown` with its points as its text. A fault of ours keeps its words and costs no point.

    Raises NotPassed with the words of a verdict that is a failure.
    """
    if verdict.state is State.FAIL:
        raise NotPassed(shown.text)
    return Shown(f"{verdict.points:g}", shown.html) if verdict.state is State.PASS else shown
