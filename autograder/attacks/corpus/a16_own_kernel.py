"""Names another kernel in the notebook: the grader would start the student's program for it."""

from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn, honest
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, WRONG, as_bytes, filled


def hostile(folder: Path) -> Path:
    made = filled(WRONG)
    made["metadata"]["kernelspec"] = {"name": "mine", "display_name": "mine", "language": "x"}
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(made))
    return folder / "class"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.kernel == "mine" for one in taken)


attack = Attack(
    threat="A16",
    layer="D10",
    expected=("fail",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=honest,
)
