"""Answers with four bytes and a stride of zero: to whoever compares, a trillion elements."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return seen.asked_bytes > 2**30


attack = Attack(
    threat="D11",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
tensor = [0, "float32", 0, [2**40], [0], False]
header = {"nonce": "NONCE", "tree": {"x": tensor}, "written": [], "sizes": [4]}
forge(json.dumps(header), bytes(4))
def attempt(folder):
    return 1
""",
    twin="""
import torch
def attempt(folder):
    return int(torch.ones(1).expand(2**40)[0])
""",
)
