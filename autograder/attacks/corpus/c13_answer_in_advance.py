"""Writes two answers to the first question: the second one waits for whatever is asked next."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return 7 in seen.answers


attack = Attack(
    threat="C13",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
def attempt(folder):
    header = json.dumps({"nonce": "0", "tree": 7, "written": [], "sizes": []}).encode()
    os.write(3, struct.pack(">I", len(header)) + header)
    return 1
""",
    twin="""
answers = [1, 1]
def attempt(folder):
    return answers.pop()
""",
)
