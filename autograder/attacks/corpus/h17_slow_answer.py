"""Answers one byte at a time, each before a timeout for the next one has run out."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack
from autograder.attacks.ground import IMPATIENT


def fooled(seen: Seen, folder: Path) -> bool:
    return seen.waited_s > IMPATIENT.wall_s + 0.5


attack = Attack(
    threat="H17",
    layer="D8",
    expected=("timeout",),
    arena=OnTheWire(fooled, calls=1, limits=IMPATIENT),
    hostile="""
def attempt(folder):
    for byte in (100).to_bytes(4, "big") + b" " * 26:
        os.write(3, bytes([byte]))
        time.sleep(0.1)
    return 1
""",
    twin="""
def attempt(folder):
    time.sleep(0.3)
    return 1
""",
)
