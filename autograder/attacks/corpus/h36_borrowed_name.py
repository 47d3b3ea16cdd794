"""Writes a neighbour's name into the notebook's metadata: the neighbour gets the wrong answer."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, filled


def hostile(folder: Path) -> Path:
    made = filled(WRONG)
    made["metadata"]["student"] = "ada"
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(made))
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
