"""The grader's end of the wire, as one writes it who trusts the other end: every number in a header
is believed, JSON is read as it comes, a pickle is opened, and nobody looks at the clock.

What it would have asked the machine for is counted, and never asked for.
"""

from __future__ import annotations

import json
import pickle
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.judge import Cause, Packed, Raised, Reply
from autograder.sandbox import Cell, Jail, JailedStudent
from autograder.sandbox.wire.frames import LENGTH, encode
from autograder.sandbox.wire.messages import call_request

SILENCE_S = 1.5
MOST_BYTES = 2**26


class TooMuch(Exception):
    """More memory was asked for than this machine is made to give."""


@dataclass
class Seen:
    """What the other end did to this one. asked_bytes: the most memory that an answer made it want;
    waited_s: the longest that an answer took; answers: those that were believed."""

    asked_bytes: int = 0
    waited_s: float = 0.0
    answers: list[Any] = field(default_factory=list)


class Credulous(JailedStudent):
    """A jailed student whose every word is believed."""

    def __init__(self, jail: Jail, cells: Sequence[Cell]) -> None:
        self.seen = Seen()
        super().__init__(jail._start, cells, limits=jail.limits, where="believed")

    together = 1

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        running = self._fresh_or_running()
        channel, started = running.channel, time.monotonic()
        channel.settimeout(SILENCE_S)  # for the next byte: it begins anew with each
        try:
            for part in encode(call_request(function, requests, nonce="the same for all")):
                channel.sendall(part)
            return [Reply(self._believed(channel))]
        except (OSError, EOFError, ValueError, TooMuch) as error:
            self._drop()
            return [Reply(Raised(Cause.DIED, type(error).__name__, str(error)))]
        finally:
            self.seen.waited_s = max(self.seen.waited_s, time.monotonic() - started)

    def _believed(self, channel: socket.socket) -> Packed | Raised:
        (length,) = LENGTH.unpack(self._exactly(channel, LENGTH.size))
        header = json.loads(self._exactly(channel, length))
        blobs = [self._exactly(channel, size) for size in header["sizes"]]
        if header.get("raised"):
            return Raised(Cause.RAISED, header["raised"]["error"], header["raised"]["message"])
        if "pickle" in header:
            pickle.loads(blobs[0])
        tree = header["tree"]
        self._want(_elements_bytes(tree))
        self.seen.answers.append(tree)
        return Packed(None)

    def _exactly(self, channel: socket.socket, size: int) -> bytes:
        self._want(size)
        data = b""
        while len(data) < size:
            piece = channel.recv(size - len(data))
            if not piece:
                raise EOFError("it closed its end")
            data += piece
        return data

    def _want(self, size: int) -> None:
        self.seen.asked_bytes = max(self.seen.asked_bytes, size)
        if size > MOST_BYTES:
            raise TooMuch(f"{size:,} bytes")


def _elements_bytes(tree: Any) -> int:
    """What a tensor's announced sizes would need, at four bytes an element."""
    if not isinstance(tree, dict) or "x" not in tree:
        return 0
    elements = 4
    for size in tree["x"][3]:
        elements *= abs(size)
    return elements
