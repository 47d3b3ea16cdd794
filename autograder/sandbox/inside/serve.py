"""The student's side of the wire: reads a request, runs a cell or a function, writes the answer.

It runs beside the student's code, so it decides nothing and is trusted with nothing.
"""

import contextlib
import io
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.judge import DEVICES, Cause, Device, Packed, Raised, Reply, answer, raised_by, text

from ..wire.channel import KEEP_READING, READ_NOW, SILENT_BYTES, SPENT_BYTES, notify
from ..wire.frames import Frame, Inbox, TooLong, encode
from ..wire.messages import calls_of, cell_reply, raised_reply, reply_frame
from .shell import NotebookShell
from .statements import Statements


def serve(channel: socket.socket, notify_fd: int, shell: NotebookShell) -> None:
    """Answers requests until the other side closes, and rings when one is answered."""
    os.register_at_fork(after_in_child=channel.close)  # one process answers, not its children
    os.register_at_fork(after_in_child=lambda: os.closerange(notify_fd, notify_fd + 1))
    while (request := receive(channel)) is not None:
        silent_bytes = 0
        for reply in _answers(request, shell):
            _flush()
            silent_bytes += sum(map(len, reply)) + SPENT_BYTES
            if silent_bytes > SILENT_BYTES:
                notify(notify_fd, KEEP_READING)
                silent_bytes = 0
            for part in reply:
                channel.sendall(part)
        notify(notify_fd, READ_NOW)


def receive(channel: socket.socket) -> Frame | None:
    """The next frame; None when the other side has closed. Raises Malformed."""
    inbox = Inbox()
    while inbox.frame is None:
        n = channel.recv_into(inbox.space())
        if n == 0:
            return None
        inbox.took(n)
    return inbox.frame


def _answers(request: Frame, shell: NotebookShell) -> Iterator[list[bytes]]:
    """The answer to a cell, or to each call of a row as it is made."""
    header: dict[str, Any] = request.header
    if header["do"] == "cell":
        yield encode(_ran(request, shell))
        return
    function, device = header["function"], DEVICES[header["device"]]
    for nonce, packed in calls_of(request):
        reply = _called(shell, function, packed, device, header["cap_bytes"])
        yield _encoded(reply, nonce)


def _encoded(reply: Reply, nonce: str) -> list[bytes]:
    try:
        return encode(reply_frame(reply, nonce=nonce))
    except TooLong as error:
        what = text("unsendable.frame", reason=str(error))
        raised = Raised(Cause.UNSENDABLE, "TypeError", why=text("returned", what=what))
        return encode(raised_reply(raised, nonce=nonce))


def _ran(request: Frame, shell: NotebookShell) -> Frame:
    header, source = request.header, request.blobs[0].decode("utf-8")
    statements = Statements(header["time_ms"] / 1000, header["skipped"])
    only_definitions = header["only_definitions"]
    raised = shell.run(header["name"], source, statements, only_definitions=only_definitions)
    lines = dict(enumerate(source.splitlines(), 1))
    overran = [(number, line, lines.get(line, "")) for number, line in statements.overran]
    return cell_reply(raised, overran, nonce=header["nonce"])


def _called(
    shell: NotebookShell, function: str, request: Packed, device: Device, cap_bytes: int
) -> Reply:
    try:
        device.begin(cap_bytes)
        reply = answer(shell.namespace, function, request, device)
    except BaseException as error:  # KeyboardInterrupt and SystemExit are answers here too
        reply = Reply(raised_by(error))
    if isinstance(reply.value, Raised) and device.broken:
        return Reply(replace(reply.value, kind=Cause.DEVICE))  # and this process is of no more use
    return reply


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()


def settle(channel: int, output: int, notify_fd: int) -> tuple[socket.socket, int]:
    """Moves the channel to descriptor 3, the notifier to 4 and the output to 1 and 2, and closes
    every other one; the channel and the notifier."""
    while min(channel, output, notify_fd) <= 4:  # out of the way of what they are to replace
        channel, output, notify_fd = os.dup(channel), os.dup(output), os.dup(notify_fd)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2), (channel, 3), (notify_fd, 4)):
        os.dup2(source, target, inheritable=target < 3)
    os.closerange(5, os.sysconf("SC_OPEN_MAX"))
    # Line by line: what was printed before a crash is seen.
    sys.stdout, sys.stderr = _lines_to(1), _lines_to(2)
    return socket.socket(fileno=3), 4


def _lines_to(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding="utf-8", errors="replace", line_buffering=True)
