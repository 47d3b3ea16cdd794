"""What ties the grader to a student's process: a socket for requests and answers, a pipe for what
it prints, and a pipe that notifies.

Answers are written without a word to the sleeping grader, which is notified when a row of them is
whole: on one core each wake-up hands the turn over, and that takes longer than a short function
does. What was written before a process died or hung is there all the same.
"""

import contextlib
import os
import socket

from .messages import clean

DRAIN_BYTES = 2**20  # no pipe holds more
SILENT_BYTES, SPENT_BYTES = 2**17, 2**10
"""What may lie in the socket without a notify, and what each message takes there besides itself."""
READ_NOW, KEEP_READING = b".", b"+"
"""What the notifier says: all is written, or more of it comes and nobody will ring again for it."""

READY = b"R"
"""The first byte on every channel: no student's code has run, and all walls stand."""


class Line(contextlib.AbstractContextManager["Line"]):
    """Our ends, and theirs. A context manager for the time until a process has those: its end
    closes them here, and an exception closes ours too."""

    def __init__(self, *, keep_bytes: int) -> None:
        """keep_bytes: of what is printed."""
        self.channel, self._their_channel = socket.socketpair()
        self._their_channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * SILENT_BYTES)
        reading, self._their_output = os.pipe()
        self.output = Output(reading, keep_bytes=keep_bytes)
        reading, self._their_notifier = os.pipe()
        os.set_blocking(self._their_notifier, False)  # full of rings is as good as one
        self.notifier = Notifier(reading)
        self.channel.setblocking(False)
        self.theirs = self._their_channel.fileno(), self._their_output, self._their_notifier
        """The channel, the output and the notify_fd, as `serve.settle` takes them."""

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        self._their_channel.close()
        os.close(self._their_output)
        os.close(self._their_notifier)
        if error is not None:
            self.close()

    def close(self) -> None:
        """Closes our ends. Can be called twice."""
        self.channel.close()
        self.output.close()
        self.notifier.close()


class _Reading:
    """The end of a pipe that is never waited for; None once it is closed."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor: int | None = descriptor

    def close(self) -> None:
        """Can be called twice."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Notifier(_Reading):
    """The pipe that says when to look at the channel."""

    def heard(self) -> bool:
        """Takes what it says; whether the channel is to be watched until it rings again, which is
        for ever where nobody is left to ring."""
        assert self.descriptor is not None
        try:
            said = os.read(self.descriptor, 65_536)
        except BlockingIOError:
            return False
        if not said:
            self.close()
        return not said.endswith(READ_NOW)


def notify(notify_fd: int, what: bytes) -> None:
    """From the other end; what does not fit any more need not be said again."""
    with contextlib.suppress(OSError):
        os.write(notify_fd, what)


class Output(_Reading):
    """The pipe that a student's process prints into: the first bytes are kept, all are read."""

    def __init__(self, descriptor: int, *, keep_bytes: int) -> None:
        super().__init__(descriptor)
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
