"""A verdict: what became of one question, in a form that can be shown, stored and defended."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from . import earlier
from .words import Said, content, from_json, say

NOT_YET = "not yet"


class State(StrEnum):
    """pass; fail; ungradable (a fault of ours or of the machine: goes to a person, costs the
    student nothing); flagged (too good to be true, or a rule about *how* was broken: goes to a
    person).
    """

    PASS = "pass"
    FAIL = "fail"
    UNGRADABLE = "ungradable"
    FLAGGED = "flagged"


class Cause(StrEnum):
    """Why a verdict is as it is; whoever decides anything asks for this, never for a sentence.

    state: of a verdict with this cause. mark: what a person sees at once, as a key: the state, or
    "not yet". is_answer: whether there was an answer to judge; nobody has failed who has not
    answered yet.
    """

    state: State
    mark: str
    is_answer: bool

    def __new__(cls, name: str, state: State = State.FAIL, mark: str = "") -> Cause:
        cause = str.__new__(cls, name)
        cause._value_ = name
        cause.state, cause.mark, cause.is_answer = state, mark or str(state), not mark
        return cause

    PASSED = "passed", State.PASS
    BLANK = "blank", State.FAIL, NOT_YET  # the stub, as it was given out
    MISSING = "missing", State.FAIL, NOT_YET  # there is no function of that name
    RAISED = "raised"
    WRONG = "wrong"
    WROTE_INPUT = "wrote_input"
    REPLACED = "replaced"  # a function of Python's own
    UNSENDABLE = "unsendable"  # it returned what is no answer
    TIMED_OUT = "timeout"
    DIED = "died"
    DEVICE = "device"  # the process can use its GPU no more
    TOO_FAST = "too_fast", State.FLAGGED
    IMPOSSIBLE = "impossible", State.FLAGGED  # a count beyond what memory and arithmetic allow
    NOT_ADMITTED = "not_admitted", State.FLAGGED  # a text that the clean room does not take
    PUT_OFF = "put_off", State.UNGRADABLE  # until it can be asked alone
    GRADER_FAULT = "grader_fault", State.UNGRADABLE  # of its machine: it may not happen again
    CHECK_FAULT = "check_fault", State.UNGRADABLE  # of the check itself: it will


@dataclass(frozen=True)
class Verdict:
    """One question, judged. Times in seconds; memory in bytes. What it says is data until it is
    shown: see `words`.

    evidence: "computed" (judged from values on our side) or "witnessed" (the student's process told
    us how). witnessed: keys of what else a pass rests on that only the student's process could
    tell; a process that lies about it gains no value by that. remarks: what grading adds.
    """

    question: str
    cause: Cause
    points: float
    max_points: float
    seed: int
    title: str = ""
    asked: str = ""
    expected: Said = ""
    got: Said = ""
    where: Said = ""
    misconception: str = ""
    sentence: Said = ""
    next_step: Said = ""
    cost: str = ""
    device: str = "cpu"
    torch: str = ""
    tier: str = ""
    evidence: str = "computed"
    witnessed: tuple[str, ...] = ()
    remarks: tuple[Said, ...] = ()
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote, now or before there were causes. Raises KeyError,
        TypeError or ValueError for anything else."""
        data = data if "cause" in data else earlier.with_a_cause(data)
        if unknown := set(data) - {f.name for f in fields(cls)}:
            raise KeyError(f"no field of a verdict: {sorted(unknown)}")
        told = {name: from_json(value) for name, value in data.items()}
        several = {name: tuple(told.get(name, ())) for name in ("witnessed", "remarks")}
        return cls(**{**told, **several, "cause": Cause(data["cause"])})

    @property
    def state(self) -> State:
        return self.cause.state

    @property
    def is_answered(self) -> bool:
        return self.cause.is_answer

    @property
    def mark(self) -> str:
        return self.cause.mark

    @property
    def place(self) -> str:
        """Where the verdict was earned, in the words of its first line."""
        device = say("simulated_gpu") if self.device == "simulated" else self.device
        seed = say("seed", seed=self.seed)
        return say("place", device=device, torch=self.torch.partition("+")[0], seed=seed)

    @property
    def score(self) -> str:
        return say("score", points=self.points, n=self.max_points)

    @property
    def likely(self) -> Said:
        """The sentence of the known mistake that answers alike; "" where there is none. That it
        answers alike is all that is known: how the code came to it can be another way."""
        return self.sentence if self.misconception else ""

    @property
    def explanation(self) -> str:
        """What is known of this answer itself, and what grading adds."""
        itself = "" if self.misconception else self.sentence
        return " ".join(content(said) for said in (itself, *self.remarks) if said)

    def __str__(self) -> str:
        left = f"{one_line(self.question)}   {say(f'mark.{self.mark}')}   {self.score}"
        gap = WIDTH - len(left) - len(self.place)
        if gap >= 3:
            lines = [left + " " * gap + self.place]
        else:
            lines = [*_wrapped(left, "", "  "), *_wrapped(self.place, "  ", "  ")]
        if self.cause is not Cause.PASSED:
            lines += self._reasons() + _row("why", self.likely)
            lines += _wrapped(self.explanation, "  ", "  ")
            lines += self._next() if self.next_step else []
        return "\n".join(lines + _row("cost", self.cost))

    def _reasons(self) -> list[str]:
        """Expected and got on one line where they fit, so that the eye need not travel."""
        expected, got = _row("expected", self.expected), _row("got", self.got)
        if len(expected) == len(got) == 1:
            both = f"{expected[0]}        {say('row.got')}  {got[0][INDENT:]}"
            expected, got = ([both], []) if len(both) <= WIDTH else (expected, got)
        return [*_row("asked", self.asked), *expected, *got, *_row("where", self.where)]

    def _next(self) -> list[str]:
        lines, call = _row("next", self.next_step), f'hint("{one_line(self.question)}")'
        if len(lines[-1]) + 6 + len(call) <= WIDTH:
            return [*lines[:-1], f"{lines[-1]}      {call}"]
        return lines + _wrapped(call, " " * INDENT, " " * INDENT)


WIDTH = 100
INDENT = 12  # of the text of a row, after its name
MAX_ROWS = 8  # beside those that are quoted
BAR = "│ "
"""Before each line of a program that a verdict quotes: it can draw none of the verdict's own."""


def one_line(text: str) -> str:
    """`text` without line breaks and control characters: a student's text may not draw a line of
    its own, nor move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _row(name: str, said: Said) -> list[str]:
    return _wrapped(content(said), f"  {say(f'row.{name}'):<9} ", " " * INDENT)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """`text` in lines of at most WIDTH, the first one after `first`, the others after `rest`. A
    line that is quoted stays so where it is wrapped."""
    lines: list[str] = []
    paragraphs = text.splitlines()
    for paragraph in paragraphs:
        lines += textwrap.wrap(
            one_line(paragraph),
            WIDTH,
            initial_indent=rest if lines else first,
            subsequent_indent=rest + BAR * paragraph.startswith(BAR),
            break_on_hyphens=False,
        )
    most = MAX_ROWS + len([paragraph for paragraph in paragraphs if paragraph.startswith(BAR)])
    return lines if len(lines) <= most else [*lines[: most - 1], f"{rest}..."]
