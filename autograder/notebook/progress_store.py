"""What is remembered of a student's work, and where: one small file, written whole or not at all.

{"schema": 1,
 "questions": {"contiguous_strides": {"state": "pass", "points": 2, "checks": 3, "hints": 1}},
 "predictions": {"bytes_copied_by_T": {"first": 153600, "last": 0, "unit": "01_strides",
                                       "right": false}}}

Two notebooks may write at once (a lock), the machine may die in the middle (`atomic_write`), the
file may have become anything (it is set aside and named), the disk may refuse (the kernel remembers
until it ends). None of it stops a student; each is one sentence.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock

from autograder import atomic_write
from autograder.judge import Text, say, text
from autograder.judge.verdict import NOT_YET

from .guess import Plain, is_plain

NAME = "progress.json"
SCHEMA = 1
MARKS = (NOT_YET, "fail", "pass")
MAX_HINTS = 3
MAX_COUNT = 10**9
MAX_BYTES = 4 * 2**20
WAIT_S = 2.0


class Broken(ValueError):
    """The file is no record of ours; `why` says why."""

    def __init__(self, key: str, **facts: Any) -> None:
        self.why = text(f"broken.{key}", **facts)
        super().__init__(self.why)


class Newer(ValueError):
    """The text was written by a later version, whose meaning we cannot know."""


@dataclass(frozen=True)
class Asked:
    """One question: state and points of its last check, the number of checks, the hints used."""

    state: str = NOT_YET
    points: float = 0.0
    checks: int = 0
    hints: int = 0

    def __post_init__(self) -> None:
        earned = type(self.points) in (int, float) and 0 <= self.points < math.inf
        if self.state not in MARKS or not earned:
            raise Broken("points")
        for number, most in ((self.checks, MAX_COUNT), (self.hints, MAX_HINTS)):
            if type(number) is not int or not 0 <= number <= most:
                raise Broken("count")


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
            raise Broken("prediction")
        if not (self.right is None or type(self.right) is bool):
            raise Broken("right")


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


def from_json(record: str) -> Progress:
    """The Progress that `to_json` wrote. Raises Broken, or Newer for a schema after ours."""
    try:
        data = json.loads(record)
    except (ValueError, RecursionError) as error:
        raise Broken("json") from error
    if not isinstance(data, dict) or type(data.get("schema")) is not int or data["schema"] < 1:
        raise Broken("schema")
    if data["schema"] > SCHEMA:
        raise Newer(text("newer"))
    questions = _entries(data, "questions", Asked)
    return Progress(questions, _entries(data, "predictions", Prediction))


def _entries(data: Mapping[str, Any], part: str, kind: type) -> dict[str, Any]:
    entries, found = data.get(part), {}
    if not isinstance(entries, dict):
        raise Broken("no_part", part=part)
    try:
        for name, entry in entries.items():
            found[name] = kind(**entry)
    except TypeError as error:
        raise Broken("fields", part=part) from error
    return found


Edit = Callable[[Progress], Progress]


@dataclass(frozen=True)
class Kept:
    """What is remembered now, and a sentence where something about the file needs saying."""

    progress: Progress
    note: str = ""


def progress_store() -> ProgressStore:
    """The store of this user: in ~/.onelayer, or where ONELAYER_HOME says."""
    home = os.environ.get("ONELAYER_HOME")
    return _store_in(Path(home) if home else Path(os.path.expanduser("~")) / ".onelayer")


@cache
def _store_in(folder: Path) -> ProgressStore:
    """One store per folder, since it remembers what could not be written."""
    return ProgressStore(folder)


class ProgressStore:
    """Progress in `folder`/progress.json. Its methods never raise for the state of the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._unwritten: list[Edit] = []

    def read(self) -> Kept:
        """What is remembered, without changing anything but a broken file's name."""
        try:
            unwritten = say("unwritten", path=self.path) if self._unwritten else ""
            return Kept(self._edited(_load(self.path)), unwritten)
        except Broken:
            return self.change()
        except (OSError, Newer) as error:
            return Kept(self._edited(Progress()), _not_stored(self.path, error))

    def change(self, *edits: Edit) -> Kept:
        """Applies `edits` to what is remembered. What cannot be written now is written with the
        next change."""
        self._unwritten += edits
        note = ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=WAIT_S):
                try:
                    stored = _load(self.path)
                except Broken as broken:
                    stored, note = Progress(), _set_aside(self.path, broken.why)
                progress = self._edited(stored)
                atomic_write.write(self.path, progress.to_json().encode())
        except (OSError, NotImplementedError, Newer) as error:
            progress = self._edited(_load_or_empty(self.path))
            return Kept(progress, _not_stored(self.path, error))
        self._unwritten.clear()
        return Kept(progress, note)

    def _edited(self, progress: Progress) -> Progress:
        for edit in self._unwritten:
            progress = edit(progress)
        return progress


def _load(path: Path) -> Progress:
    """Raises Broken, Newer or OSError. A file that is not there is an empty one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return Progress()
    if not stat.S_ISREG(found.st_mode):
        raise Broken("no_file")
    if found.st_size > MAX_BYTES:
        raise Broken("large")
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise Broken("no_text") from error


def _load_or_empty(path: Path) -> Progress:
    try:
        return _load(path)
    except (OSError, Broken, Newer):
        return Progress()


def _set_aside(path: Path, why: Text) -> str:
    names = (path.with_name(f"{path.name}.broken-{n}") for n in count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return say("set_aside", path=path, why=why, aside=aside.name)


def _not_stored(path: Path, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return say("not_stored", path=path, reason=reason)
