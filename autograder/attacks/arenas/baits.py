"""What there is to be reached: files, sockets, a neighbour, a gradebook. All of it is ours, made
for one attack and gone after it."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autograder.attacks.ground import Ground, Walls
from autograder.judge import GraderFault, NoAnswer
from autograder.sandbox import JailedStudent

from .reach import Bait

CANARY = """
import ctypes, os
SECRET = ctypes.create_string_buffer(b"{secret}")
def where():
    return [os.getpid(), ctypes.addressof(SECRET), len(SECRET.raw)]
def alive():
    return True
"""


@contextmanager
def solutions(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """The grader's desk; what is wanted is a solution that lies on it."""
    secret = ground.desk.solution
    yield Bait((str(ground.desk.folder),), lambda answer: secret in str(answer))


@contextmanager
def hand_ins(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """The grader's desk; what is wanted is a neighbour's hand-in."""
    secret = ground.desk.hand_in
    yield Bait((str(ground.desk.folder),), lambda answer: secret in str(answer))


@contextmanager
def a_place_outside(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """A path on this machine at which nothing lies; taken when something does."""
    path = ground.new_folder() / "left-by-a-submission"
    yield Bait((str(path),), lambda answer: path.exists())


@contextmanager
def a_gradebook(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """A gradebook in which eve has no points; taken when she has some."""
    path = ground.new_folder() / "gradebook.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("create table grades (student text, points real)")
        made.execute("insert into grades values ('eve', 0)")
        made.commit()

    def taken(answer: Any) -> bool:
        with contextlib.closing(sqlite3.connect(path)) as kept:
            ((points,),) = kept.execute("select points from grades")
        return bool(points > 0)

    yield Bait((str(path),), taken)


@contextmanager
def a_listener(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """A TCP server on this machine's loopback; taken when somebody has connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield Bait((server.getsockname()[1],), lambda answer: _has_caller(server))


@contextmanager
def an_abstract_listener(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """A server on an abstract socket, as desktops and daemons have them."""
    name = f"onelayer-attack-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        server.setblocking(False)
        yield Bait((name,), lambda answer: _has_caller(server))


def _has_caller(server: socket.socket) -> bool:
    try:
        caller, _ = server.accept()
    except BlockingIOError:
        return False
    caller.close()
    return True


@contextmanager
def a_datagram_listener(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """A UDP socket on this machine's loopback; taken when a datagram has come."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)

        def taken(answer: Any) -> bool:
            with contextlib.suppress(BlockingIOError):
                return bool(server.recv(64))
            return False

        yield Bait((server.getsockname()[1],), taken)


@contextmanager
def a_neighbours_memory(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """Another submission in the same jail, with a secret at an address that is given away."""
    secret = secrets.token_hex(16)
    with ground.open([CANARY.format(secret=secret)], walls) as canary:
        _, address, length = _asked(canary, "where")
        pid = _pid_in_the_jail(canary)
        yield Bait((pid, address, length), lambda answer: secret in str(answer))


@contextmanager
def a_neighbour(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """Another submission in the same jail; taken when its process is gone."""
    with ground.open([CANARY.format(secret="")], walls) as canary:
        running, pid = canary._running, _pid_in_the_jail(canary)
        assert running is not None
        # A signal that was let through needs a moment; one that was refused needs none.
        yield Bait((pid,), lambda answer: running.wait(5.0 if answer is None else 0.0))


def _pid_in_the_jail(student: JailedStudent) -> int:
    """The process id by which the other submissions may know this one: the zygote's, or without
    walls the machine's."""
    pid = getattr(student._running, "inner_pid", student.pid)
    return int(pid or 0)


def _asked(student: JailedStudent, function: str) -> Any:
    student.begin(may_write=False)
    try:
        return student.call(function)
    except NoAnswer as none:
        raise GraderFault(f"the neighbour does not answer: {none}") from none
