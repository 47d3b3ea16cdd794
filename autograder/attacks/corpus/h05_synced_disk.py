"""Calls `sync` again and again: the kernel writes everybody's files, and everybody waits."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H05",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    root = os.open("/tmp", os.O_RDONLY)
    return libc.syscall(SYNCFS, root) == 0
SYNCFS = {"x86_64": 306}.get(os.uname().machine, 267)
""",
    twin="""
def attempt():
    with open("/tmp/mine", "w") as file:
        file.write("honest")
        file.flush()
        os.fsync(file.fileno())
    return open("/tmp/mine").read()
""",
)
