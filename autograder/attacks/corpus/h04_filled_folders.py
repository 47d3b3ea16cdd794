"""Fills `/tmp` and `/dev/shm`, which are memory, with many files."""

from dataclasses import replace

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import LIMITS, Walls

ROOMY = replace(LIMITS, tmp_bytes=64 * 2**20)

attack = Attack(
    threat="H04",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(limits=ROOMY)),
    hostile="""
def attempt():
    try:
        for place in ("/tmp", "/dev/shm"):
            for k in range(12):
                open(f"{place}/{k}", "wb").write(bytes(2**20))
    except OSError as error:
        return error.errno
    return True
""",
    twin="""
def attempt():
    open("/tmp/large", "wb").write(bytes(3 * 2**20))
    open("/dev/shm/large", "wb").write(bytes(3 * 2**20))
    return "honest"
""",
)
