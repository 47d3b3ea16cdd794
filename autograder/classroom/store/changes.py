"""What an instructor changed of a lab after it was graded: a question dropped or worth something
else, an answer accepted, a submission judged again. Each with its reason and its time.

The journal stays as it was judged. Whoever reads a record from it applies the changes that are in
force; one that was undone stays on the list, and changes nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autograder import atomic_write
from autograder.judge import Cause, Lab, Verdict

from ..errors import UserError
from .journal import Record


@dataclass(frozen=True)
class Judged:
    """A verdict that takes the place of another one, in the record of `student` with this key."""

    student: str
    key: str
    verdict: Verdict


@dataclass(frozen=True)
class Change:
    """points: what the question is worth from now on, 0 where it is dropped; None where an answer
    is accepted. That answer is the one with this `misconception`, or the one of `student` in the
    notebook with the hash `sha256`. judged: what came out otherwise where it was judged again; of
    all questions where `question` is "", of everybody where `student` is. when: in UTC. undone:
    when, and why; "" while in force."""

    question: str
    reason: str
    when: str
    points: float | None = None
    misconception: str = ""
    student: str = ""
    sha256: str = ""
    undone: str = ""
    judged: tuple[Judged, ...] = ()

    def __str__(self) -> str:
        what = f"{self.question or 'every question'}: "
        if self.judged:
            of = f"of {self.student} " if self.student else ""
            what += f"{of}judged again, {len(self.judged)} otherwise"
        elif self.points is not None:
            what += f"{self.points:g} points" if self.points else "dropped"
        elif self.student:
            what += f"the answer of {self.student} accepted"
        else:
            what += f"{self.misconception} accepted"
        undone = f"; undone {self.undone}" if self.undone else ""
        return f"{what}, {self.when}: {self.reason}{undone}"

    def accepts(self, record: Record, verdict: Verdict) -> bool:
        if self.points is not None or self.judged or self.question != verdict.question:
            return False
        if self.student:
            return (self.student, self.sha256) == (record.student, record.sha256)
        return bool(self.misconception) and self.misconception == verdict.misconception


def read(folder: Path, lab: str) -> list[Change]:
    """Every change of `lab` in the grading folder, in its order. Raises UserError for a damaged
    list: grades are not guessed."""
    path = _path(folder, lab)
    try:
        return [_change(**told) for told in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}, which says what was changed after the grading, is damaged. Put a copy back."
        ) from error


def _change(judged: Sequence[Mapping[str, Any]] = (), **told: Any) -> Change:
    found = (Judged(**{**one, "verdict": Verdict.from_mapping(one["verdict"])}) for one in judged)
    return Change(**told, judged=tuple(found))


def write(folder: Path, lab: str, changes: Sequence[Change]) -> None:
    data = json.dumps([asdict(change) for change in changes], ensure_ascii=False, indent=1)
    atomic_write.write(_path(folder, lab), data.encode(), mode=0o600)


def applied(record: Record, changes: Iterable[Change]) -> Record:
    """`record` as it counts."""
    in_force = [change for change in changes if not change.undone]
    if not in_force:
        return record
    verdicts = tuple(_changed(record, one, in_force) for one in newest(record, in_force).verdicts)
    return replace(record, verdicts=verdicts)


def newest(record: Record, changes: Iterable[Change]) -> Record:
    """`record` as it was judged, the last time of each question."""
    again = {
        one.verdict.question: one.verdict
        for change in changes
        for one in change.judged
        if (one.student, one.key) == (record.student, record.key) and not change.undone
    }
    verdicts = tuple(again.get(verdict.question, verdict) for verdict in record.verdicts)
    return replace(record, verdicts=verdicts) if again else record


def _changed(record: Record, verdict: Verdict, in_force: Sequence[Change]) -> Verdict:
    if any(change.accepts(record, verdict) for change in in_force):
        verdict = replace(
            verdict, cause=Cause.PASSED, points=verdict.max_points, misconception="", sentence=""
        )
    worth = points(in_force).get(verdict.question, verdict.max_points)
    if worth == verdict.max_points:
        return verdict
    share = verdict.points / verdict.max_points if verdict.max_points else 0.0
    return replace(verdict, points=round(share * worth, 6), max_points=worth)


def points(changes: Iterable[Change]) -> dict[str, float]:
    """What questions are worth now, those that were worth something else."""
    return {c.question: c.points for c in changes if c.points is not None and not c.undone}


def changed(lab: Lab, changes: Iterable[Change]) -> Lab:
    """`lab` with the points that its questions are worth now: to be shown, not to be asked."""
    now = points(changes)
    worth = {q.name: replace(q, points=now.get(q.name, q.points)) for q in lab}
    return replace(lab, questions=worth)


def _path(folder: Path, lab: str) -> Path:
    return folder / "changes" / f"{lab}.json"
