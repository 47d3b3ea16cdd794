"""One request to a student's process, with every way in which it can fail told apart."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from autograder.judge import Cause, GraderFault, Malformed, Raised, Text, text

from ..wire.frames import Frame
from .running import Died, Running, TooLate

T = TypeVar("T")
LAST_BREATH_S = 0.5  # between closing the channel and being gone


class Lost(Exception):
    """The process is gone, and `raised` is what the student is told."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(str(raised))
        self.raised = raised


def ask_process(
    running: Running,
    request: Callable[[str], Frame],
    read: Callable[[Frame, str], T],
    *,
    patience_s: float,
    max_body_bytes: int = 0,
) -> T:
    """What `read` makes of the answer to `request`; both are given the nonce.

    Raises Lost when no proper answer came, and then the process is ended; GraderFault when the jail
    itself is gone.
    """
    answers, lost = ask_in_a_row(
        running, [request], read, patience_s=patience_s, max_body_bytes=max_body_bytes
    )
    if lost is not None:
        raise lost
    return answers[0]


def ask_in_a_row(
    running: Running,
    requests: Sequence[Callable[[str], Frame]],
    read: Callable[[Frame, str], T],
    *,
    patience_s: float,
    max_body_bytes: int = 0,
) -> tuple[list[T], Lost | None]:
    """As `ask_process`, for requests that are sent before the first is answered: what came, and why
    no more. Patience and bytes are for all together. Raises GraderFault."""
    nonces = [secrets.token_hex(8) for _ in requests]
    frames = [request(nonce) for request, nonce in zip(requests, nonces, strict=True)]
    answers: list[T] = []

    def take(frame: Frame) -> None:
        answers.append(read(frame, nonces[len(answers)]))

    try:
        deadline = time.monotonic() + patience_s
        running.exchange(frames, take, deadline=deadline, max_body_bytes=max_body_bytes)
    except Died as died:
        return answers, _lost(running, _died(running, died.how))
    except TooLate:
        why = text("no_answer_in_time", seconds=patience_s)
        return answers, _lost(running, Raised(Cause.TIMED_OUT, "TimeoutError", why=why))
    except Malformed as forged:
        why = text("no_answer", detail=str(forged))
        return answers, _lost(running, Raised(Cause.UNSENDABLE, "Malformed", why=why))
    return answers, None


def _died(running: Running, how: Text) -> Raised:
    if running.wait(LAST_BREATH_S):
        how = running.kill()
    return Raised(Cause.DIED, "ProcessEnded", why=how)


def _lost(running: Running, raised: Raised) -> Lost:
    running.kill()
    if running.jail_lost:
        raise GraderFault("the jail itself died")
    return Lost(raised)
