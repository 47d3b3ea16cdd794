"""Takes memory in pieces and holds it, half as much again as it may have."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H03",
    layer="D5",
    expected=("raised", "died"),
    arena=Reach(missing("limits")),
    hostile="""
def attempt():
    hoard = []
    for _ in range(36):
        hoard.append(bytearray(b"x") * 2**24)
    return True
""",
    twin="""
def attempt():
    for _ in range(100):
        piece = bytearray(2**24)
    return "honest"
""",
)
