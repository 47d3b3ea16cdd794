"""Requests to a student's process, with every way in which they can fail told apart."""

from collections.abc import Callable
from typing import TypeVar

from autograder.judge import Cause, GraderFault, Malformed, Raised, Text, text

from ..engines.left_running import left_running
from ..wire.frames import Frame
from ..wire.messages import encoded, nonces_of
from .running import Busy, Died, Patience, Running, TooLate

T = TypeVar("T")
LEFT_RUNNING = "LeftRunning"
LAST_BREATH_S = 0.5  # between closing the channel and being gone


class Lost(Exception):
    """The process is gone, and `raised` is what the student is told."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(str(raised))
        self.raised = raised


def ask_in_a_row(
    running: Running,
    request: Frame,
    read: Callable[[Frame, str], T],
    *,
    patience: Patience,
    max_body_bytes: int = 0,
) -> tuple[list[T], Lost | None]:
    """What `read` makes of the answers to `request`, of which a row of calls has many, and why no
    more came; then the process is ended. `read` is given the nonce that its answer must repeat.
    Patience and bytes are for all together.

    Raises GraderFault when the jail itself is gone.
    """
    answers, nonces = list[T](), nonces_of(request)

    def take(frame: Frame) -> None:
        answers.append(read(frame, nonces[len(answers)]))

    try:
        parts = encoded(request)
        running.exchange(parts, len(nonces), take, patience=patience, max_body_bytes=max_body_bytes)
    except Busy as busy:
        return answers, _busy(running, busy.how)
    except Died as died:
        return answers, _lost(running, _died(running, died.how))
    except TooLate:
        why = text("no_answer_in_time", seconds=patience.seconds)
        return answers, _lost(running, Raised(Cause.TIMED_OUT, "TimeoutError", why=why))
    except Malformed as forged:
        why = text("no_answer", detail=str(forged))
        return answers, _lost(running, Raised(Cause.UNSENDABLE, "Malformed", why=why))
    return answers, None


def expect_quiet(running: Running) -> None:
    """Raises Lost, and ends the process, where what it started keeps the processor busy although
    nothing is asked."""
    if busy := left_running(running.pid):
        raise _busy(running, text("left_running", n=busy))


def _busy(running: Running, how: Text) -> Lost:
    return _lost(running, Raised(Cause.DIED, LEFT_RUNNING, why=how))


def _died(running: Running, how: Text) -> Raised:
    if running.wait(LAST_BREATH_S):
        how = running.kill()
    return Raised(Cause.DIED, "ProcessEnded", why=how)


def _lost(running: Running, raised: Raised) -> Lost:
    running.kill()
    if running.jail_lost:
        raise GraderFault("the jail itself died")
    return Lost(raised)
