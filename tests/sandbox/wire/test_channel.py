"""What ties two processes together, both ends in one: who rings, what is kept of what is printed,
and that every end is closed once and no more."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from autograder.sandbox.wire import channel
from autograder.sandbox.wire.channel import KEEP_READING, READ_NOW, Line, Notifier, Output, notify


@contextlib.contextmanager
def pipe(kind: type, **options: int) -> Iterator[tuple[channel._Reading, int]]:
    """The reading end as a `kind`, and the descriptor of the other end, which may be closed."""
    reading, writing = os.pipe()
    ours = kind(reading, **options)
    try:
        yield ours, writing
    finally:
        ours.close()
        with contextlib.suppress(OSError):
            os.close(writing)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def ends(line: Line) -> list[int]:
    ours = line.channel.fileno(), line.output.descriptor, line.notifier.descriptor
    assert None not in ours
    return [*ours, *line.theirs]


def test_their_ends_live_for_the_start_of_a_process_and_ours_longer():
    with Line(keep_bytes=10) as line:
        assert all(map(is_open, ends(line)))
        assert len(set(ends(line))) == 6
        ours, theirs = ends(line)[:3], line.theirs
    assert all(map(is_open, ours))
    assert not any(map(is_open, theirs))
    line.close()
    assert not any(map(is_open, ours))
    line.close()  # twice does no harm


def test_a_process_that_cannot_be_started_leaves_no_end_open():
    line = Line(keep_bytes=10)
    found = ends(line)
    line.__exit__(OSError, OSError("no process"), None)
    assert not any(map(is_open, found))


def test_what_one_end_writes_the_other_reads():
    with Line(keep_bytes=10) as line, contextlib.closing(line):
        channel_, output, notifier = line.theirs
        os.write(channel_, b"asked")
        os.write(output, b"printed")
        notify(notifier, READ_NOW)
        assert line.channel.recv(100) == b"asked"
        line.output.read()
        assert line.output.take() == "printed"
        assert line.notifier.heard() is False


def test_nobody_waits_for_an_end():
    with Line(keep_bytes=10) as line, contextlib.closing(line):
        with pytest.raises(BlockingIOError):
            line.channel.recv(1)
        assert line.notifier.heard() is False
        assert line.output.read() == 0
        assert os.get_blocking(line.theirs[0])  # a student's process waits for what it is asked


def test_a_row_of_answers_lies_in_the_socket_unread():
    """Else a process that answers in silence would hang before it rings."""
    with Line(keep_bytes=10) as line, contextlib.closing(line):
        theirs = socket.socket(fileno=os.dup(line.theirs[0]))
        with contextlib.closing(theirs):
            theirs.settimeout(5)
            for _ in range(channel.SILENT_BYTES // channel.SPENT_BYTES):
                theirs.sendall(b"x" * 100)
            theirs.sendall(b"x" * channel.SILENT_BYTES)
            room = theirs.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            assert room >= 2 * channel.SILENT_BYTES


def test_a_notifier_full_of_rings_is_as_good_as_one():
    with Line(keep_bytes=10) as line, contextlib.closing(line):
        for _ in range(100):
            notify(line.theirs[2], KEEP_READING * 4096)  # more than a pipe holds; none of it waits
        assert line.notifier.heard() is True


@pytest.mark.parametrize(
    ("said", "watched"),
    [
        (b"", False),
        (READ_NOW, False),
        (KEEP_READING, True),
        (KEEP_READING + READ_NOW, False),
        (READ_NOW + KEEP_READING, True),
    ],
)
def test_the_last_ring_says_whether_to_watch(said, watched):
    with pipe(Notifier) as (notifier, theirs):
        notify(theirs, said)
        assert notifier.heard() is watched
        assert notifier.heard() is False  # taken
        assert notifier.descriptor is not None


def test_where_nobody_is_left_to_ring_the_channel_is_watched_for_ever():
    with pipe(Notifier) as (notifier, theirs):
        notify(theirs, READ_NOW)
        os.close(theirs)
        assert notifier.heard() is False
        assert notifier.heard() is True
        assert notifier.descriptor is None


def test_a_ring_that_nobody_hears_is_no_error():
    with pipe(Notifier) as (notifier, theirs):
        notifier.close()
        notify(theirs, READ_NOW)


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ([b""], ""),
        ([b"abcd"], "abcd"),
        ([b"ab", b"cd"], "abcd"),
        ([b"abcde"], "abcd\n[more was printed than is kept]\n"),
        ([b"abc", b"de"], "abcd\n[more was printed than is kept]\n"),
        ([b"abcd", b"e"], "abcd\n[more was printed than is kept]\n"),
        ([b"abcde", b""], "abcd\n[more was printed than is kept]\n"),
        ([b"a\r\nb"], "a\nb"),
        ([b"\xff"], "\N{REPLACEMENT CHARACTER}"),
        ([b"\x1b[2J"], "\N{REPLACEMENT CHARACTER}[2J"),
    ],
    ids=str,
)
def test_the_first_bytes_are_kept_and_all_are_read(printed, kept):
    with pipe(Output, keep_bytes=4) as (output, theirs):
        for part in printed:
            os.write(theirs, part)
            assert output.read() == len(part)
        assert output.take() == kept
        assert output.take() == ""


def test_what_was_kept_once_leaves_no_room_for_more():
    with pipe(Output, keep_bytes=4) as (output, theirs):
        os.write(theirs, b"abc")
        output.read()
        assert output.take() == "abc"
        os.write(theirs, b"def")
        output.read()
        assert output.take() == "d\n[more was printed than is kept]\n"
        os.write(theirs, b"g")
        output.read()
        assert output.take() == "\n[more was printed than is kept]\n"


def test_a_closed_output_has_nothing_more_to_say():
    with pipe(Output, keep_bytes=9) as (output, theirs):
        os.write(theirs, b"last words")
        os.close(theirs)
        assert output.read() == 10
        assert output.descriptor is not None
        assert output.read() == 0
        assert output.descriptor is None
        assert output.read() == 0
        assert output.take() == "last word\n[more was printed than is kept]\n"


def test_a_read_takes_no_more_than_a_pipe_holds():
    with pipe(Output, keep_bytes=1) as (output, theirs):
        assert os.write(theirs, b"x" * 65_536) == 65_536
        assert output.read() == 65_536


def test_all_that_was_printed_so_far_is_drained():
    with pipe(Output, keep_bytes=9) as (output, theirs):
        os.write(theirs, b"ab")
        output.drain()
        assert output.take() == "ab"
        output.drain()  # nothing there: it does not wait
        os.close(theirs)
        output.drain()


def test_one_who_never_stops_printing_is_left_in_the_end(monkeypatch):
    taken = []

    def read(output: Output) -> int:
        taken.append(65_536)
        assert len(taken) < 1_000, "it is drained for ever"
        return 65_536

    monkeypatch.setattr(Output, "read", read)
    with pipe(Output, keep_bytes=9) as (output, _):
        output.drain()
    assert sum(taken) == channel.DRAIN_BYTES
