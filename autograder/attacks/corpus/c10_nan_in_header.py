"""Answers with a NaN in the header, which JSON does not have and Python reads.

Every comparison with it is false, also the one that finds an error too large.
"""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return any(answer != answer for answer in seen.answers)


attack = Attack(
    threat="C10",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
forge('{"nonce": "NONCE", "tree": NaN, "written": [], "sizes": []}')
def attempt(folder):
    return 1
""",
    twin="""
def attempt(folder):
    return int(float("nan") != float("nan"))
""",
)
