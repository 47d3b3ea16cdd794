"""One lab, asked of all its known answers, and what came out of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten

from autograder.classroom.run.job import Fault
from autograder.classroom.run.pool import Pool
from autograder.classroom.store.journal import Record
from autograder.judge import State, Verdict

from .answers import RIGHT, Known

LOOK_S = 0.25
MAX_TEXT = 300
Found = dict[tuple[str, str], Verdict | str]
"""(answer, question) -> the verdict, or why there is none."""


@dataclass(frozen=True)
class Asked:
    """A lab's answers on one device. peak_bytes: of the GPU, above what was used before; None where
    nobody knows."""

    found: Found
    seconds: float
    peak_bytes: int | None = None


def asked(pool: Pool, known: Sequence[Known], used_bytes: Callable[[], int | None]) -> Asked:
    """Every answer of a lab, by the workers of `pool`."""
    started = time.monotonic()
    with Peak(used_bytes) as peak:
        found = dict(_found(pool, known))
    return Asked(found, round(time.monotonic() - started, 1), peak.bytes)


def _found(pool: Pool, known: Sequence[Known]) -> Iterator[tuple[tuple[str, str], Verdict | str]]:
    for job, outcome in pool.run([one.job for one in known]):
        if isinstance(outcome, Fault):
            yield (job.student, "".join(job.only)), f"the grader failed: {outcome.reason}"
        if isinstance(outcome, Record):
            for verdict in outcome.verdicts:
                yield (job.student, verdict.question), verdict


class Peak:
    """The most that a device lends while this is open, above what it lent before; looked at four
    times a second, so an allocation that lives shorter can be missed."""

    def __init__(self, used_bytes: Callable[[], int | None]) -> None:
        self._used_bytes, self._over = used_bytes, threading.Event()
        self._idle = used_bytes()
        self._most = self._idle
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peak:
        if self._idle is not None:
            self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._looking.is_alive():
            self._looking.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self._most = max(self._most or 0, self._used_bytes() or 0)

    @property
    def bytes(self) -> int | None:
        return None if self._idle is None or self._most is None else self._most - self._idle


@dataclass
class Outcome:
    """What one lab's answers say. faults: sentences about answers that were judged wrongly on the
    GPU; differs: questions, by name, with such an answer that the CPU judges as it must be."""

    right: int = 0
    wrong: int = 0
    faults: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    devices: dict[str, int] = field(default_factory=dict)


def outcome(
    known: Sequence[Known], gpu: Found, ask_cpu: Callable[[Sequence[Known]], Found]
) -> Outcome:
    """The verdicts of the GPU, against what must be. ask_cpu: asks answers once more, on the CPU;
    it is given those that the GPU judged otherwise."""
    made, sentence_of = Outcome(), {one.name: one.sentence for one in known}
    faults = _faults(gpu, sentence_of)
    for (answer, question), verdict in gpu.items():
        if (answer, question) in faults:
            text = faults[answer, question]
            made.faults.append(f"{question or 'every question'}, {answer}: {text}")
        elif sentence_of[answer] == RIGHT:
            made.right += 1
        else:
            made.wrong += 1
        if isinstance(verdict, Verdict):
            made.devices[verdict.device] = made.devices.get(verdict.device, 0) + 1
    doubted = {answer for answer, _ in faults}
    cpu = ask_cpu([one for one in known if one.name in doubted]) if doubted else {}
    same = _faults(cpu, sentence_of)
    made.differs = sorted({q for answer, q in faults if (answer, q) not in same})
    return made


def _faults(found: Found, sentence_of: Mapping[str, str]) -> dict[tuple[str, str], str]:
    texts = {key: _fault(verdict, sentence_of[key[0]]) for key, verdict in found.items()}
    return {key: text for key, text in texts.items() if text}


def _fault(verdict: Verdict | str, sentence: str) -> str:
    """What is wrong with a verdict; "" if it is as it must be."""
    if isinstance(verdict, str):
        return verdict
    text = f"{verdict.state}: {verdict.got} {verdict.sentence}".strip()
    text = shorten(text, MAX_TEXT, placeholder=" ...")
    if sentence == RIGHT:
        return "" if verdict.state is State.PASS else text
    if verdict.state is not State.FAIL:
        return f"not rejected ({text})"
    return "" if verdict.sentence == sentence else f"rejected with another sentence ({text})"
