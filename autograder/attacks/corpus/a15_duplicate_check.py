"""Hands in the check cell twice, with the same id: a grader that stops there grades nobody else."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, cell_of, filled


def hostile(folder: Path) -> Path:
    made = filled(WRONG)
    made["cells"].append({**cell_of(made, "double_check"), "id": "again"})
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(made))
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.points > 2 for one in taken)


attack = Attack(
    threat="A15",
    layer="D10",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
