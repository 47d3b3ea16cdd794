"""Writes a thousand points into the check cell's metadata, unlocks it, and lets it test nothing."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, cell_of, filled


def hostile(folder: Path) -> Path:
    made = filled(WRONG)
    check = cell_of(made, "double_check")
    check["metadata"]["nbgrader"] |= {"points": 1000, "locked": False}
    check["source"] = "1000"
    shown = {"output_type": "execute_result", "data": {"text/plain": "1000"}, "metadata": {}}
    check["outputs"] = [shown | {"execution_count": 1}]
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(made))
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.owner == EVE and one.points > 2 for one in taken)


attack = Attack(
    threat="A15",
    layer="D10",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
