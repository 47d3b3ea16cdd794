"""Hands in a wrong answer with the outputs of a passed check already in the file."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, cell_of, filled


def hostile(folder: Path) -> Path:
    made = filled(WRONG)
    passed = {"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}}
    cell_of(made, "double_check")["outputs"] = [passed | {"execution_count": 1}]
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(made))
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.owner == EVE and one.points > 0 for one in taken)


attack = Attack(
    threat="A14",
    layer="D10",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
