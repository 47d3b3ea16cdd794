"""Announces a tensor with negative sizes, whose product is small in no arithmetic."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return seen.asked_bytes > 2**30


attack = Attack(
    threat="C10",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
tensor = [0, "float32", 0, [-(2**31), -(2**31)], [1, 1], False]
header = {"nonce": "NONCE", "tree": {"x": tensor}, "written": [], "sizes": [4]}
forge(json.dumps(header), bytes(4))
def attempt(folder):
    return 1
""",
    twin="""
def attempt(folder):
    return list(range(-1, 2))[-1]
""",
)
