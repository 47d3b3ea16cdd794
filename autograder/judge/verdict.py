"""A verdict: what became of one question, in a form that can be shown, stored and defended."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """pass; fail; ungradable (a fault of ours or of the machine: goes to a person, costs the
    student nothing); flagged (too good to be true, or a rule about *how* was broken: goes to a
    person).
    """

    PASS = "pass"
    FAIL = "fail"
    UNGRADABLE = "ungradable"
    FLAGGED = "flagged"


@dataclass(frozen=True)
class Verdict:
    """One question, judged. Texts are plain; times in seconds; memory in bytes.

    evidence: "computed" (judged from values on our side) or "witnessed" (the student's process told
    us how). witnessed: what else a pass rests on that only the student's process could tell; a
    process that lies about it gains no value by that.
    """

    question: str
    state: State
    points: float
    max_points: float
    seed: int
    title: str = ""
    asked: str = ""
    expected: str = ""
    got: str = ""
    where: str = ""
    misconception: str = ""
    sentence: str = ""
    next_step: str = ""
    cost: str = ""
    device: str = "cpu"
    torch: str = ""
    tier: str = ""
    evidence: str = "computed"
    witnessed: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else."""
        known = {f.name for f in fields(cls)}
        if unknown := set(data) - known:
            raise KeyError(f"no field of a verdict: {sorted(unknown)}")
        return cls(**{**data, "state": State(data["state"])})

    @property
    def place(self) -> str:
        """Where the verdict was earned, in the words of its first line."""
        device = "a simulated GPU" if self.device == "simulated" else self.device
        return f"on {device}, torch {self.torch.partition('+')[0]}, seed {self.seed}"

    @property
    def blank(self) -> bool:
        """Whether there was no answer to judge: every judged answer has something that came."""
        return self.state is State.FAIL and not (self.asked or self.expected or self.got)

    @property
    def word(self) -> str:
        """The state as a person reads it: nobody has failed who has not answered yet."""
        return "not yet" if self.blank else str(self.state)

    @property
    def score(self) -> str:
        unit = "point" if self.max_points == 1 else "points"
        return f"{self.points:g} of {self.max_points:g} {unit}"

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._body()])

    def _head(self) -> list[str]:
        left = f"{one_line(self.question)}   {self.word}   {self.score}"
        gap = WIDTH - len(left) - len(self.place)
        if gap >= 3:
            return [left + " " * gap + self.place]
        return [*_wrapped(left, "", "  "), *_wrapped(self.place, "  ", "  ")]

    def _body(self) -> list[str]:
        lines = [*_row("asked", self.asked), *self._difference(), *_row("where", self.where)]
        lines += _wrapped(self.sentence, "  ", "  ")
        lines += self._next() if self.next_step else []
        return lines + _row("cost", self.cost)

    def _difference(self) -> list[str]:
        """Expected and got on one line where they fit, so that the eye need not travel."""
        expected, got = _row("expected", self.expected), _row("got", self.got)
        if len(expected) == len(got) == 1:
            both = f"{expected[0]}        got  {got[0][INDENT:]}"
            if len(both) <= WIDTH:
                return [both]
        return expected + got

    def _next(self) -> list[str]:
        lines, call = _row("next", self.next_step), f'hint("{one_line(self.question)}")'
        if len(lines[-1]) + 6 + len(call) <= WIDTH:
            return [*lines[:-1], f"{lines[-1]}      {call}"]
        return lines + _wrapped(call, " " * INDENT, " " * INDENT)


WIDTH = 100
INDENT = 12  # of the text of a row, after its name
MAX_ROWS = 8


def one_line(text: str) -> str:
    """`text` without line breaks and control characters: a student's text may not draw a line of
    its own, nor move a terminal's cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split(" "))


def _row(name: str, text: str) -> list[str]:
    return _wrapped(text, f"  {name:<9} ", " " * INDENT)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """`text` in lines of at most WIDTH, the first one after `first`, the others after `rest`."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        indent = rest if lines else first
        lines += textwrap.wrap(
            one_line(paragraph),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=rest,
            break_on_hyphens=False,
        )
    return lines if len(lines) <= MAX_ROWS else [*lines[: MAX_ROWS - 1], f"{rest}..."]
