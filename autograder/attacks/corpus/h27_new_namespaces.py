"""Makes a user namespace, in which it is root: half of all escapes begin there."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H27",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    return libc.unshare(0x10000000) == 0
""",
    twin="""
def attempt():
    return "honest" if os.readlink("/proc/self/ns/user") else None
""",
)
