"""Announces a part of a terabyte, for a grader that makes room before it looks."""

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
forge('{"nonce": "NONCE", "tree": 1, "written": [], "sizes": [1099511627776]}')
def attempt(folder):
    return 1
""",
    twin="""
junk = bytes(2**20)
def attempt(folder):
    return 1
""",
)
