"""Sends what it has seen to a server, over TCP."""

from autograder.attacks.arenas.baits import a_listener
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="B17",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("network", "seccomp"), bait=a_listener),
    hostile="""
def attempt(port):
    try:
        socket.create_connection(("127.0.0.1", port), 2).sendall(b"seen")
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt(port):
    left, right = socket.socketpair()
    left.sendall(b"honest")
    return right.recv(100).decode()
""",
)
