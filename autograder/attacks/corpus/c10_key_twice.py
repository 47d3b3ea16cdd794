"""Names the value twice in one header: whoever reads first and whoever reads last disagree."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return 7 in seen.answers


attack = Attack(
    threat="C10",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
forge('{"nonce": "NONCE", "tree": 1, "tree": 7, "written": [], "sizes": []}')
def attempt(folder):
    return 1
""",
    twin="""
def attempt(folder):
    return dict([("a", 7), ("a", 1)])["a"]
""",
)
