"""Requests to a student's process, with every way in which they can fail told apart."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from autograder.judge import GraderFault, Malformed, Raised

from ..wire.frames import Frame
from .running import Died, Running, TooLate

T = TypeVar("T")
LAST_BREATH_S = 0.5  # between closing the channel and being gone


class Lost(Exception):
    """The process is gone, and `raised` is what the student is told."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(str(raised))
        self.raised = raised


def ask_in_a_row(
    running: Running,
    requests: Sequence[Callable[..., Frame]],
    read: Callable[[Frame, str], T],
    *,
    patience_s: float,
    max_body_bytes: int = 0,
) -> tuple[list[T], Lost | None]:
    """What `read` makes of the answers to `requests`, each of which is sent before the first is
    answered, and why no more came; then the process is ended. Each request and its `read` are given
    the same nonce. Patience and bytes are for all together.

    Raises GraderFault when the jail itself is gone.
    """
    nonces = [secrets.token_hex(8) for _ in requests]
    frames = [request(nonce=nonce) for request, nonce in zip(requests, nonces, strict=True)]
    answers: list[T] = []

    def take(frame: Frame) -> None:
        answers.append(read(frame, nonces[len(answers)]))

    try:
        deadline = time.monotonic() + patience_s
        running.exchange(frames, take, deadline=deadline, max_body_bytes=max_body_bytes)
    except Died as died:
        return answers, _lost(running, _died(running, str(died)))
    except TooLate:
        message = f"no answer within {patience_s:.3g} s"
        return answers, _lost(running, Raised("timeout", "TimeoutError", message))
    except Malformed as forged:
        message = f"what came back is no answer: {forged}"
        return answers, _lost(running, Raised("unsendable", "Malformed", message))
    return answers, None


def _died(running: Running, how: str) -> Raised:
    if running.wait(LAST_BREATH_S):
        how = running.kill()
    return Raised("died", "ProcessEnded", how)


def _lost(running: Running, raised: Raised) -> Lost:
    running.kill()
    if running.jail_lost:
        raise GraderFault("the jail itself died")
    return Lost(raised)
