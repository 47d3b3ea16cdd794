"""Opens a netlink socket, through which the kernel's network is configured."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H30",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    hostile="""
def attempt():
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
    except OSError as error:
        return error.errno
    return True
""",
    twin="""
def attempt():
    left, right = socket.socketpair()
    left.sendall(b"honest")
    return right.recv(6).decode()
""",
)
