"""What has been graded: one file per submission, named after all that its verdicts depend on.

A second run finds its work done; a run that was killed finds what it had finished. A file is whole
or absent, and one that was damaged since is put aside and graded again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import atomic_write
from autograder.judge import Cause, State, Verdict

LAYOUT = 1
"""Of the files. Raise it when their form changes: old ones are then graded again."""


@dataclass(frozen=True)
class CellReport:
    """How one cell ran in the jail: what it raised, and the beginning of what it printed."""

    name: str
    error: str
    output: str


@dataclass(frozen=True)
class Record:
    """A graded submission. key: see `key_of`. sha256: of the notebook that was graded.

    timed_out: questions whose time ran out, or that wait for a quiet machine; never in the journal,
    because they are asked first.
    """

    student: str
    lab: str
    key: str
    sha256: str
    verdicts: tuple[Verdict, ...]
    cells: tuple[CellReport, ...] = ()
    wall_s: float = 0.0
    timed_out: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """False while the grader failed at a question: it is tried again in the next run."""
        return all(verdict.state is not State.UNGRADABLE for verdict in self.verdicts)

    @property
    def causes(self) -> set[Cause]:
        return {verdict.cause for verdict in self.verdicts}

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts)

    def to_json(self) -> str:
        body = vars(self) | {}
        del body["timed_out"]
        for name in ("verdicts", "cells"):  # flat, all of them: `asdict` would copy each string
            body[name] = list(map(vars, body[name]))
        return json.dumps(body, ensure_ascii=False, sort_keys=True)


def digest(text: str) -> str:
    """A hash of a record's JSON: of what was found, so that a gradebook can tell whether it holds
    this record."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(*parts: str) -> str:
    """A hash of the submission's bytes, the lab's version, torch's version, the seed secret and the
    sandbox tier: when one of them changes, the old verdict no longer speaks for the submission."""
    return hashlib.sha256(json.dumps([LAYOUT, *parts]).encode()).hexdigest()


class Journal:
    """The records of one lab, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, student: str, key: str) -> Path:
        return self.folder / f"{student}-{key[:16]}.json"

    def write(self, record: Record) -> None:
        """Keeps `record`; when this returns, no kill and no power cut loses it."""
        text = record.to_json()
        data = f"{digest(text)}\n{text}\n".encode()
        atomic_write.write(self._path(record.student, record.key), data, mode=0o600)

    def read(self, student: str, key: str) -> Record | None:
        """The record of this submission, or None where there is none that can be trusted."""
        path = self._path(student, key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            record = _record(data)
            if (record.student, record.key) != (student, key):
                raise ValueError("it is another submission's record")
        except (ValueError, KeyError, TypeError):
            path.replace(path.with_suffix(".damaged"))
            return None
        return record


def _record(data: bytes) -> Record:
    was, _, text = data.decode().partition("\n")
    if digest(text.removesuffix("\n")) != was:
        raise ValueError("the record was changed or cut off")
    body: Mapping[str, Any] = json.loads(text)
    verdicts = tuple(Verdict.from_mapping(verdict) for verdict in body["verdicts"])
    cells = tuple(CellReport(**cell) for cell in body["cells"])
    return Record(**{**body, "verdicts": verdicts, "cells": cells})
