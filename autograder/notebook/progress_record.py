"""What is remembered of a student's work, and its form on disk.

{"schema": 1,
 "questions": {"contiguous_strides": {"state": "pass", "points": 2, "checks": 3, "hints": 1}},
 "predictions": {"bytes_copied_by_T": {"first": 153600, "last": 0, "unit": "01_strides",
                                       "right": false}}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .guess import Plain, is_plain

SCHEMA = 1
STATES = ("not yet", "fail", "pass")
MAX_HINTS = 3
MAX_COUNT = 10**9


class Broken(ValueError):
    """The text is no record of ours; the message says why."""


class Newer(ValueError):
    """The text was written by a later version, whose meaning we cannot know."""


@dataclass(frozen=True)
class Asked:
    """One question: state and points of its last check, the number of checks, the hints used."""

    state: str = "not yet"
    points: float = 0.0
    checks: int = 0
    hints: int = 0

    def __post_init__(self) -> None:
        if self.state not in STATES or not _is_number(self.points) or self.points < 0:
            raise Broken("a question with an impossible state or points")
        if not (_is_count(self.checks, MAX_COUNT) and _is_count(self.hints, MAX_HINTS)):
            raise Broken("a question with an impossible count")


@dataclass(frozen=True)
class Prediction:
    """One guess: the first one counts; the last one is what the reader says now. `right` is None
    until the answer was revealed."""

    first: Plain
    last: Plain
    unit: str = ""
    right: bool | None = None

    def __post_init__(self) -> None:
        if not (is_plain(self.first) and is_plain(self.last) and type(self.unit) is str):
            raise Broken("a prediction of an impossible kind")
        if not (self.right is None or type(self.right) is bool):
            raise Broken("a prediction that is neither right nor wrong")


@dataclass(frozen=True)
class Progress:
    """Everything that is remembered, by the name of the question and the key of the prediction."""

    questions: Mapping[str, Asked] = field(default_factory=dict)
    predictions: Mapping[str, Prediction] = field(default_factory=dict)

    def asked(self, name: str) -> Asked:
        return self.questions.get(name, Asked())

    def with_question(self, name: str, asked: Asked) -> Progress:
        return replace(self, questions={**self.questions, name: asked})

    def with_prediction(self, key: str, prediction: Prediction) -> Progress:
        return replace(self, predictions={**self.predictions, key: prediction})

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def from_json(text: str) -> Progress:
    """The Progress that `to_json` wrote. Raises Broken, or Newer for a schema after ours."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Broken("it is no JSON") from error
    if not isinstance(data, dict) or type(data.get("schema")) is not int or data["schema"] < 1:
        raise Broken("it names no schema")
    if data["schema"] > SCHEMA:
        raise Newer("a later version of the course wrote it")
    questions = _entries(data, "questions", Asked)
    return Progress(questions, _entries(data, "predictions", Prediction))


def _entries(data: Mapping[str, Any], part: str, kind: type) -> dict[str, Any]:
    entries = data.get(part)
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise Broken(f"it has no {part}")
    try:
        return {name: kind(**entry) for name, entry in entries.items()}
    except TypeError as error:
        raise Broken(f"an entry of {part} has other fields") from error


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
