"""What a function printed while it was asked: the end of it, however much it was.

A check calls a function many times, and the last call is the one that went wrong: so the end is
what helps. It is shown behind a fold, not above the card.
"""

from __future__ import annotations

import io

from autograder.judge.verdict import one_line

KEPT = 2_000


class Printed(io.TextIOBase):
    """A stand-in for stdout that remembers its last KEPT characters and counts the rest."""

    def __init__(self) -> None:
        self.tail = ""
        self.length = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.length += len(text)
        self.tail = (self.tail + text[-KEPT:])[-KEPT:]
        return len(text)

    def close(self) -> None:
        """A student's function may close stdout; the next call prints all the same."""

    @property
    def text(self) -> str:
        left_out = self.length - len(self.tail)
        head = f"... {left_out:,} characters before this ...\n" if left_out else ""
        lines = [one_line(line) for line in self.tail.splitlines()]
        return head + "\n".join(lines) if self.tail.strip() else ""
