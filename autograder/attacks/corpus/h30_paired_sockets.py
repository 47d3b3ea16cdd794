"""Asks for a pair of netlink sockets: there is none, but the kernel makes both to find that out."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H30",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    hostile="""
import errno
def attempt():
    try:
        socket.socketpair(socket.AF_NETLINK, socket.SOCK_RAW)
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP
""",
    twin="""
def attempt():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    left.send(b"honest")
    return right.recv(6).decode()
""",
)
