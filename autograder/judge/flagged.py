"""What no machine should decide: too good to be true, or outside what a check can judge. A person
looks at it, and nobody gains or loses a point until then."""

from __future__ import annotations

from .verdict import Cause
from .words import Said, text


class Flagged(Exception):
    """The verdict is `flagged`, for `cause`; `why` is the sentence for whoever looks at it, and
    `where` the student's own lines."""

    cause = Cause.IMPOSSIBLE

    def __init__(self, why: Said, where: Said = "") -> None:
        self.why, self.where = why, where
        super().__init__(why)


class Impossible(Flagged):
    """A count lies below what physics allows: there is a load for each byte that has to come."""

    def __init__(self, what: str, got: int, floor: int) -> None:
        super().__init__(text("impossible", what=what, got=got, floor=floor))


class NotAdmitted(Flagged):
    """A text is not taken into a clean room. line: its number in the answer's cell, from 1."""

    cause = Cause.NOT_ADMITTED

    def __init__(self, line: int, source: str, reason: str) -> None:
        line_there = text("line", number=line, source=source.strip()[:80])
        why = text("not_admitted", line=line, reason=reason)
        super().__init__(why, text("lines", lines=[line_there]))
