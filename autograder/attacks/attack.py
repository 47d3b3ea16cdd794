"""What an attack is, and what became of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .ground import Ground

LAYERS = {
    "D1": "inputs, tolerance and verdict are made outside",
    "D2": "raw bytes, every number checked",
    "D3": "late secret inputs",
    "D4": "frozen, then compared",
    "D5": "the jail",
    "D6": "one process tree per submission",
    "D8": "the clock is ours",
    "D10": "only the text of the answers is taken",
    "D12": "identity and time are the instructor's",
    "D13": "evidence comes from a process that never ran the student's Python",
}
PASS = "pass"


@dataclass(frozen=True)
class Outcome:
    """How a submission fared. verdict: one word; succeeded: it got what it was after; detail: for
    whoever asks why."""

    verdict: str
    succeeded: bool
    detail: str = ""


class Arena(Protocol):
    """A way in which a submission meets a grader.

    `submission` is what the arena takes: a cell's source, a notebook, a function that writes files.
    """

    def defended(self, submission: Any, ground: Ground) -> Outcome:
        """As in grading."""

    def undefended(self, submission: Any, ground: Ground) -> Outcome:
        """Before a grader that lacks the defence, and is built here and nowhere else."""


def anywhere() -> str:
    """Needs nothing."""
    return ""


@dataclass(frozen=True)
class Attack:
    """One attack. Its strategy is the docstring of its module.

    threat: its number in the threat model, whose letter is its family. layer: what must stop it.
    expected: the verdicts with which it must end, in one word each. hostile, twin: submissions for
    `arena`; the twin is honest and must pass. needs: why it cannot be run on this machine, or "".
    """

    threat: str
    layer: str
    expected: tuple[str, ...]
    arena: Arena
    hostile: Any
    twin: Any
    needs: Callable[[], str] = anywhere

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise ValueError(f"no such layer: {self.layer}")
        if not self.expected or PASS in self.expected:
            raise ValueError("an attack ends with another verdict than a pass")

    @property
    def family(self) -> str:
        return self.threat[0]
