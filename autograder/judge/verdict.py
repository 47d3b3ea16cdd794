"""A verdict: what became of one question, in a form that can be shown, stored and defended."""

from __future__ import annotations

import json
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
    us how).
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
        return f"on {self.device}, torch {self.torch}, seed {self.seed}"

    def __str__(self) -> str:
        score = f"{self.points:g} of {self.max_points:g} points"
        head = f"{self.question:<24} {self.state:<6} {score:<20} {self.place}"
        return "\n".join([head, *("  " + line for line in self._lines())])

    def _lines(self) -> list[str]:
        rows = [
            ("asked", self.asked),
            ("expected", self.expected),
            ("got", self.got),
            ("where", self.where),
        ]
        lines = [f"{name:<9} {text}" for name, text in rows if text]
        if self.sentence:
            lines.append(self.sentence)
        lines += [
            f"{name:<9} {text}"
            for name, text in [("next", self.next_step), ("cost", self.cost)]
            if text
        ]
        return lines
