"""Hands in a link to the notebook of a neighbour, whose answers would be graded as one's own."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, RIGHT, as_bytes, filled


def hostile(folder: Path) -> Path:
    for name in ("ada", EVE):
        (folder / "class" / name).mkdir(parents=True)
    neighbours = folder / "class" / "ada" / f"{NAME}.ipynb"
    neighbours.write_bytes(as_bytes(filled(RIGHT)))
    (folder / "class" / EVE / f"{NAME}.ipynb").symlink_to(neighbours)
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.owner == EVE and "x + x" in one.text for one in taken)


attack = Attack(
    threat="A27",
    layer="D10",
    expected=("ungradable",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
