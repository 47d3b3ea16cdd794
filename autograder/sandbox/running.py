"""The grader's end of one student's process: ask, wait no longer than agreed, read what it prints,
and end it.

Everything that arrives here was written by a stranger. All clocks are ours (CLOCK_MONOTONIC).
"""

from __future__ import annotations

import os
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from .gpu import CONTEXT_BYTES, Gpu
from .limits import Limits
from .memory import tree
from .messages import clean
from .wire import Frame, Inbox, encode, joined

TICK_S = 0.1  # between two looks at memory
MOST_AT_ONCE = 64  # reads, of at most a piece each
DRAIN_BYTES = 2**20  # no pipe holds more


class Died(Exception):
    """The process ended, or closed its end, before it answered; the text says how."""


class TooLate(Exception):
    """The deadline passed."""


class Output:
    """The pipe that a student's process prints into: the first bytes are kept, all are read."""

    def __init__(self, descriptor: int, *, keep_bytes: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor: int | None = descriptor
        self._room, self._kept, self._cut = keep_bytes, bytearray(), False

    def read(self) -> int:
        """Takes what is there, up to 64 KiB; how many bytes came."""
        if self.descriptor is None:
            return 0
        try:
            data = os.read(self.descriptor, 65_536)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        self._kept += data[: self._room]
        self._cut = self._cut or len(data) > self._room
        self._room = max(0, self._room - len(data))
        return len(data)

    def drain(self) -> None:
        """Takes all that was printed so far; stops for one who never stops printing."""
        left = DRAIN_BYTES
        while left > 0 and (n := self.read()):
            left -= n

    def take(self) -> str:
        """The text since the last `take`."""
        text = clean(self._kept.decode("utf-8", errors="replace"))
        cut, self._cut = self._cut, False
        self._kept.clear()
        return text + "\n[more was printed than is kept]\n" if cut else text

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Running(ABC):
    """One student's process. pid: as this machine counts."""

    pid: int

    def __init__(
        self, channel: socket.socket, output: Output, limits: Limits, gpu: Gpu | None = None
    ) -> None:
        channel.setblocking(False)
        self.channel, self.output, self.limits, self.gpu = channel, output, limits, gpu
        self.device_bytes = 0  # of the GPU, for the question that is being asked
        self._incoming = select.poll()
        self._incoming.register(channel, select.POLLIN)
        self._ended = ""
        self.jail_lost = False  # the jail around it died: nothing of the student's is to blame

    @abstractmethod
    def wait(self, patience_s: float) -> bool:
        """Whether the process ended by itself within so many seconds."""

    @abstractmethod
    def _end(self) -> str:
        """Kills it with all its children, waits for that, and says how it had ended."""

    @abstractmethod
    def check_memory(self) -> None:
        """Raises Died when the tree uses more than its limits, unless the kernel sees to that."""

    def check_device(self) -> None:
        """Raises Died when the tree uses more of the GPU than its question may: the limit inside
        is the student's own process's to keep, or not."""
        used = self.gpu.used_bytes(tree(self.pid)) if self.gpu else None
        if used is not None and used > self.device_bytes + CONTEXT_BYTES:
            raise Died(f"it needed more than {self.device_bytes // 2**20:,} MiB of the GPU")

    def kill(self) -> str:
        """Ends the process and all it started; how it had ended, in words. Can be called twice."""
        if not self._ended:
            self._ended = self._end()
            self.output.drain()
            self.output.close()
            self.channel.close()
        return self._ended

    def said_something_unasked(self) -> bool:
        """Whether bytes wait to be read although no request is open."""
        return bool(self._incoming.poll(0))

    def exchange(
        self, requests: Sequence[Frame], *, deadline: float, max_body_bytes: int
    ) -> list[Frame]:
        """The frames that answer `requests`, one each and in their order, by `deadline` (of
        time.monotonic), of `max_body_bytes` together.

        Raises Died, TooLate, or Malformed.
        """
        parts = joined([part for request in requests for part in encode(request)])
        return _Exchange(self, parts, len(requests), max_body_bytes).run(deadline)

    def expect(self, text: bytes, *, deadline: float) -> None:
        """Waits for exactly these bytes. Raises Died or TooLate."""
        if not self._incoming.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TooLate("it did not get ready in time")
        if self.channel.recv(len(text)) != text:
            raise Died("it ended before it was ready")


class _Exchange:
    """Requests and their answers, without a thread: writes, reads and drains as each is ready."""

    def __init__(
        self, running: Running, parts: Sequence[bytes], answers: int, max_body_bytes: int
    ) -> None:
        self.running, self.expected, self.left_bytes = running, answers, max_body_bytes
        self.unsent = [memoryview(part) for part in parts]
        self.answers: list[Frame] = []
        self.inbox = Inbox(max_body_bytes=max_body_bytes)

    def run(self, deadline: float) -> list[Frame]:
        next_look = time.monotonic() + TICK_S
        self._send()  # most frames fit into the socket: no need to ask whether it is ready
        while len(self.answers) < self.expected:
            now = time.monotonic()
            if now >= deadline:
                raise TooLate
            if now >= next_look:
                self.running.check_memory()
                self.running.check_device()
                next_look = time.monotonic() + TICK_S
            self._step(min(deadline, next_look) - now)
        self.running.output.drain()
        return self.answers

    def _step(self, patience_s: float) -> None:
        poll, channel, output = select.poll(), self.running.channel, self.running.output
        poll.register(channel, select.POLLIN | (select.POLLOUT if self.unsent else 0))
        if output.descriptor is not None:
            poll.register(output.descriptor, select.POLLIN)
        for descriptor, events in poll.poll(max(0.0, patience_s) * 1000):
            if descriptor != channel.fileno():
                output.read()
                continue
            if events & select.POLLOUT:
                self._send()
            if events & ~select.POLLOUT:
                self._receive()

    def _send(self) -> None:
        """Writes until all is written, or until the socket is full."""
        while self.unsent:
            try:
                sent = self.running.channel.send(self.unsent[0])
            except BlockingIOError:
                return
            except OSError as error:
                raise Died("it closed its end") from error
            self.unsent[0] = self.unsent[0][sent:]
            if not self.unsent[0]:
                del self.unsent[0]

    def _receive(self) -> None:
        """Reads what is there, and no more than MOST_AT_ONCE: clock and memory are looked at
        between."""
        for _ in range(MOST_AT_ONCE):
            try:
                n = self.running.channel.recv_into(self.inbox.space())
            except BlockingIOError:
                return
            except OSError as error:
                raise Died("it closed its end") from error
            if n == 0:
                raise Died("it closed its end")
            self.inbox.took(n)
            if self.inbox.frame is not None and self._was_last(self.inbox.frame):
                return

    def _was_last(self, answer: Frame) -> bool:
        """Takes an answer; the next one may have as many bytes as are left."""
        self.answers.append(answer)
        self.left_bytes -= sum(map(len, answer.blobs))
        self.inbox = Inbox(max_body_bytes=self.left_bytes)
        return len(self.answers) == self.expected


def wait_for_end(handle: int, *, patience_s: float) -> bool:
    """Whether the process behind a pidfd ended within `patience_s`."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))


def how_it_ended(status: int | None) -> str:
    """An exit status in words; negative for a signal, None where nobody knows."""
    if status is None:
        return "it ended"
    return f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"
