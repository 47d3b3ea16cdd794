"""What races came to: one file for each answer that was raced, so that a race that was stopped goes
on where it was, and nobody is raced twice.

A file is named after all that its ratios depend on: the record whose verdict is right, the question
and torch. One that is damaged is raced again.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder import atomic_write


@dataclass(frozen=True)
class Laps:
    """The ratios of one answer, turn by turn; or why there are none."""

    ratios: tuple[float, ...] = ()
    why: str = ""


def write(folder: Path, key: str, laps: Laps) -> None:
    """Keeps what a race came to in the grading folder."""
    atomic_write.write(_path(folder, key), json.dumps(asdict(laps)).encode(), mode=0o600)


def read(folder: Path, key: str) -> Laps | None:
    """None where nobody raced under this key, or where the file cannot be believed."""
    try:
        told = json.loads(_path(folder, key).read_bytes())
        ratios, why = told["ratios"], told["why"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Laps(tuple(ratios), why) if _are_ratios(ratios) and isinstance(why, str) else None


def _are_ratios(ratios: object) -> bool:
    return isinstance(ratios, Sequence) and all(
        isinstance(one, float) and 0 < one < float("inf") for one in ratios
    )


def _path(folder: Path, key: str) -> Path:
    return folder / "races" / f"{key[:32]}.json"
