"""Hands in an archive in which a name leads upwards, out of the folder in which it is unpacked."""

import zipfile
from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, RIGHT, WRONG, as_bytes, filled


def hostile(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "class.zip", "w") as archive:
        archive.writestr(f"{EVE}/../../escaped.ipynb", as_bytes(filled(WRONG)))
    return folder / "class.zip"


def twin(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "class.zip", "w") as archive:
        archive.writestr(f"{EVE}/{NAME}.ipynb", as_bytes(filled(RIGHT)))
    return folder / "class.zip"


def gained(taken: list[Taken], folder: Path) -> bool:
    return (folder / "escaped.ipynb").exists()


attack = Attack(
    threat="A26",
    layer="D10",
    expected=("ungradable",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=twin,
)
