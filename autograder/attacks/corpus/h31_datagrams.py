"""Sends a datagram, as a question to a name server would be sent."""

from autograder.attacks.arenas.baits import a_datagram_listener
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H31",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("network", "seccomp"), bait=a_datagram_listener),
    hostile="""
def attempt(port):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"seen", ("127.0.0.1", port))
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt(port):
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.send(b"honest")
    return right.recv(100).decode()
""",
)
