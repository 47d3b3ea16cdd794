"""Lays a folder with a neighbour's name into one's own, with a wrong notebook in it."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, filled


def hostile(folder: Path) -> Path:
    for inner in (EVE, f"{EVE}/ada"):
        (folder / "class" / inner).mkdir(parents=True)
        (folder / "class" / inner / f"{NAME}.ipynb").write_bytes(as_bytes(filled(WRONG)))
    (folder / "class" / "bob").mkdir()
    (folder / "class" / "bob" / f"{NAME}.ipynb").write_bytes(as_bytes(filled(WRONG)))
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.owner == "ada" for one in taken)


attack = Attack(
    threat="H36",
    layer="D12",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
