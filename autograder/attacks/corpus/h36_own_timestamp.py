"""Lays a `timestamp.txt` beside the notebook, with a time before the deadline."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, filled


def hostile(folder: Path) -> Path:
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(filled(WRONG)))
    (folder / "class" / EVE / "timestamp.txt").write_text("2020-01-01 00:00:00 UTC")
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.submitted.startswith("2020-01-01") for one in taken)


attack = Attack(
    threat="H36",
    layer="D12",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
