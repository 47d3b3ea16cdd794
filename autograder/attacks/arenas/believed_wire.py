"""A submission writes to the channel itself; undefended, the other end believes every word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import LIMITS, Ground, Walls
from autograder.judge import NoAnswer
from autograder.sandbox import Cell, JailedStudent, Limits

from .credulous import Credulous, Seen

FORGING = """
import json, os, struct, sys, time
import autograder.sandbox.inside.serve as serve
from autograder.sandbox.wire.messages import nonces_of

def forge(header, *blobs):
    # From now on every call is answered with this header (text, with NONCE in it) and these bytes.
    def replies(request, shell):
        for nonce in nonces_of(request):
            text = header.replace("NONCE", nonce)
            yield [struct.pack(">I", len(text)), text.encode(), *blobs]
    serve._answers = replies
"""
"""What a hostile cell has at hand: it runs in the process that answers."""


@dataclass(frozen=True)
class OnTheWire:
    """fooled: whether the grader was, from what its end has seen and from the folder in which only
    the grader writes. The function `attempt` is called, `calls` times, with that folder's path; an
    honest one returns 1. limits: of the submission."""

    fooled: Callable[[Seen, Path], bool]
    calls: int = 2
    limits: Limits = LIMITS

    def defended(self, submission: str, ground: Ground) -> Outcome:
        with ground.open([FORGING + submission], Walls(limits=self.limits)) as student:
            return self._called(student, Seen(), ground.new_folder())

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        student = Credulous(ground.jail(), [Cell("cell", FORGING + submission)])
        with student:
            return self._called(student, student.seen, ground.new_folder())

    def _called(self, student: JailedStudent, seen: Seen, folder: Path) -> Outcome:
        words: list[str] = []
        details: list[str] = []
        for _ in range(self.calls):
            student.begin(may_write=False)
            try:
                answer: Any = student.call("attempt", str(folder))
                words.append(PASS if answer == 1 else "answered")
                seen.answers.append(answer)
            except NoAnswer as none:
                words.append(none.raised.kind)
                details.append(str(none.raised))
        fooled = self.fooled(seen, folder)
        word = "reached" if fooled else max(words, key=lambda word: word != PASS)
        return Outcome(word, fooled, "; ".join(details)[:200])
