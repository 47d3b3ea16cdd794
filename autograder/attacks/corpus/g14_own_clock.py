"""Enters a namespace in which the clocks show another time."""

from autograder.attacks.arenas.kernel_needs import time_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="G14",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    needs=time_obstacle,
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    new_user, new_time = 0x10000000, 0x80
    return libc.unshare(new_user | new_time) == 0
""",
    twin="""
def attempt():
    return "honest" if time.clock_gettime(time.CLOCK_MONOTONIC) > 0 else None
""",
)
