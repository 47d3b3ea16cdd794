"""The grader's end of one student's process: ask, wait no longer than agreed, read what it prints,
and end it.

Everything that arrives here was written by a stranger. All clocks are ours (CLOCK_MONOTONIC).
"""

import contextlib
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autograder.judge import GraderFault, Text, text

from ..engines.gpu import CONTEXT_BYTES, Gpu
from ..engines.left_running import Watch
from ..engines.limits import Limits
from ..engines.memory import tree, used_by_tree
from ..wire.channel import READY, Line
from ..wire.frames import JOINED_BYTES, Frame, Inbox, Room, whole

TICK_S = 0.1  # between two looks at memory
LAST_LOOK_S = 0.2  # at what lies in the socket when the time is over
MOST_AT_ONCE = 64  # reads, of at most a piece each
BUSY = 3
"""Of the seconds that were agreed, no more than so many times: a class must end."""


class Died(Exception):
    """The process ended, or closed its end, before it answered; `how` says how."""

    def __init__(self, how: Text) -> None:
        super().__init__(how)
        self.how = how


class Busy(Died):
    """What it started keeps the processor from it."""


class TooLate(Exception):
    """The deadline passed."""


@dataclass
class Patience:
    """With one request: so many seconds from `began` on, on a clock that stands while the machine
    has no processor for the process; up to `most_s`, and to BUSY times as many."""

    seconds: float
    most_s: float = 0.0
    kept_waiting_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def longer_s(self) -> float:
        """By how much it has grown."""
        most_s = min(self.most_s, BUSY * self.seconds) - self.seconds
        return max(0.0, min(self.kept_waiting_s, most_s))


class Running(ABC):
    """One student's process. pid: as this machine counts."""

    pid: int

    def __init__(self, line: Line, limits: Limits, gpu: Gpu | None = None) -> None:
        self.line, self.limits, self.gpu = line, limits, gpu
        self.channel, self.output = line.channel, line.output
        self.device_bytes = 0  # of the GPU, for the question that is being asked
        self._incoming = select.poll()
        self._incoming.register(self.channel, select.POLLIN)
        self._ended: Text | None = None
        self.jail_lost = False  # the jail around it died: nothing of the student's is to blame

    @abstractmethod
    def wait(self, patience_s: float) -> bool:
        """Whether the process ended by itself within so many seconds."""

    @abstractmethod
    def _end(self) -> Text:
        """Kills it with all its children, waits for that, and says how it had ended."""

    own_bytes = 0
    """Of memory, what a process of this kind uses before any student's code runs."""

    def check_memory(self) -> None:
        """Raises Died when the tree uses more than its limits."""
        used, processes = used_by_tree(self.pid)
        if used > self.limits.memory_bytes + self.own_bytes:
            raise Died(self.out_of_memory)
        if processes > self.limits.processes:
            raise Died(text("started_processes", processes=self.limits.processes))

    @property
    def out_of_memory(self) -> Text:
        """How a process ends that needs too much."""
        return text("needed_memory", mib=self.limits.memory_bytes // 2**20)

    def check_device(self) -> None:
        """Raises Died when the tree uses more of the GPU than its question may: the limit inside
        is the student's own process's to keep, or not."""
        used = self.gpu.used_bytes(tree(self.pid)) if self.gpu else None
        if used is not None and used > self.device_bytes + CONTEXT_BYTES:
            raise Died(text("needed_gpu_memory", mib=self.device_bytes // 2**20))

    def kill(self) -> Text:
        """Ends the process and all it started; how it had ended. Can be called twice."""
        if self._ended is None:
            self._ended = self._end()
            self.output.drain()
            self.line.close()
        return self._ended

    def said_something_unasked(self) -> bool:
        """Whether bytes wait to be read although no request is open."""
        return bool(self._incoming.poll(0))

    def exchange(
        self,
        parts: Sequence[bytes],
        answers: int,
        take: Callable[[Frame], None],
        *,
        patience: Patience,
        max_body_bytes: int,
    ) -> None:
        """Sends the `parts` of a request and gives the frames that answer it, so many, to `take`,
        until `patience` ends. The answers share `max_body_bytes`, and the header of one.

        Raises Died, TooLate, Malformed, or what `take` raises; then the answers that were there
        have been taken.
        """
        _Exchange(self, parts, answers, take, patience, max_body_bytes).run()

    def await_ready(self, patience_s: float) -> None:
        """Waits for READY. Raises GraderFault, and ends the process, where it does not come: no
        student's code has run yet."""
        how = "it did not get ready in time"
        with contextlib.suppress(OSError):
            if self._incoming.poll(patience_s * 1000):
                if self.channel.recv(len(READY)) == READY:
                    return
                how = "it ended before it was ready"
        self.kill()
        raise GraderFault(f"a process is not ready: {how} {self.output.take()[-500:]}")


class _Exchange:
    """Requests and their answers, without a thread: writes, reads and drains as each is ready."""

    def __init__(
        self,
        running: Running,
        parts: Sequence[bytes],
        answers: int,
        take: Callable[[Frame], None],
        patience: Patience,
        max_body_bytes: int,
    ) -> None:
        self.patience, self.deadline = patience, patience.began + patience.seconds
        self.running, self.left, self.take = running, answers, take
        self.unsent = [memoryview(part) for part in parts]
        self.inbox = Inbox(Room(body_bytes=max_body_bytes))
        # More than the notifier will ring for, as where nobody can any more.
        self.announced = running.line.notifier.descriptor is None
        self.unread = False  # more than was read at once
        self.next_look = time.monotonic() + TICK_S
        self.watch: Watch | None = None  # from the first look on: most answers are there before

    def run(self) -> None:
        try:
            self._send()  # most frames fit into the socket: no need to ask whether it is ready
            while self.left:
                self._step()
        except (Died, TooLate):
            self._receive_what_is_there()
            if self.left:
                raise
        self.running.output.drain()

    def _receive_what_is_there(self) -> None:
        """What was written before the end, and nobody rang for."""
        until = time.monotonic() + LAST_LOOK_S
        with contextlib.suppress(Died):
            while self.left and self._receive() and time.monotonic() < until:
                pass

    def _step(self) -> None:
        now, deadline = time.monotonic(), self.deadline
        if now >= deadline:
            raise TooLate
        if now >= self.next_look:
            self.running.check_memory()
            self.running.check_device()
            self._watch()
            self.next_look = time.monotonic() + TICK_S
        patience_s = min(deadline, self.next_look) - now
        poll, channel, line = select.poll(), self.running.channel, self.running.line
        for descriptor in (line.notifier.descriptor, line.output.descriptor):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        reading = select.POLLIN if self.announced or self.unread else 0
        poll.register(channel, reading | (select.POLLOUT if self.unsent else 0))
        # The channel's end is told unasked.
        for descriptor, events in poll.poll(max(0.0, patience_s) * 1000):
            if descriptor == line.output.descriptor:
                line.output.read()
                continue
            if descriptor == line.notifier.descriptor:
                self.announced = line.notifier.heard()
            elif events & select.POLLOUT:
                self._send()
            if events & ~select.POLLOUT:
                self.unread = self._receive()

    def _watch(self) -> None:
        if self.watch is None:
            self.watch = Watch(self.running.pid)
            return
        patience = self.patience
        patience.kept_waiting_s += self.watch.look()
        self.deadline = patience.began + patience.seconds + patience.longer_s()
        if others := self.watch.starved_by():
            raise Busy(text("starved", n=others))

    def _send(self) -> None:
        """Writes until all is written, or until the socket is full."""
        while self.unsent:
            try:
                sent = self.running.channel.send(self.unsent[0])
            except BlockingIOError:
                return
            except OSError as error:
                raise Died(text("closed")) from error
            self.unsent[0] = self.unsent[0][sent:]
            if not self.unsent[0]:
                del self.unsent[0]

    def _receive(self) -> bool:
        """Reads what is there, and no more than MOST_AT_ONCE: clock and memory are looked at
        between. Whether more may be there."""
        for _ in range(MOST_AT_ONCE):
            try:
                if not (self.inbox.is_untouched and self._receive_whole()):
                    self._receive_piece()
            except BlockingIOError:
                return False
            except OSError as error:
                raise Died(text("closed")) from error
            if not self.left:
                return False
        return True

    def _receive_whole(self) -> bool:
        """Takes the answers that are there from their first to their last byte, and leaves the
        others in the socket: most are short, and reading each by itself takes longer than to make
        it. Whether there were any."""
        channel, end, room = self.running.channel, 0, self.inbox.room
        data = channel.recv(JOINED_BYTES, socket.MSG_PEEK)
        while self.left and (found := whole(data, end, room)):
            frame, end, room = found
            self._taken(frame)
        self.inbox, left = Inbox(room), end
        while left:
            left -= len(channel.recv(left))
        return end > 0

    def _receive_piece(self) -> None:
        n = self.running.channel.recv_into(self.inbox.space())
        if n == 0:
            raise Died(text("closed"))
        self.inbox.took(n)
        if self.inbox.frame is not None:
            self._taken(self.inbox.frame)
            self.inbox = Inbox(self.inbox.room)

    def _taken(self, frame: Frame) -> None:
        self.take(frame)
        self.left -= 1


def how_it_ended(status: int | None) -> Text:
    """What an exit status means; negative for a signal, None where nobody knows."""
    if status is None:
        return text("ended")
    if status < 0:
        return text("ended_by_signal", signal=-status)
    return text("ended_with_status", status=status)
