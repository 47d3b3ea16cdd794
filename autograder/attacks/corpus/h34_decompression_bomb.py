"""Hands in an archive of some kilobytes that unpacks to many megabytes."""

import zipfile
from pathlib import Path

from autograder.attacks.arenas.handed_in import EVE, HandedIn
from autograder.attacks.arenas.naive import Taken
from autograder.attacks.attack import Attack

from ..paper_lab import NAME, RIGHT, as_bytes, filled


def hostile(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "class.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{EVE}/{NAME}.ipynb", b" " * (32 * 2**20))
    return folder / "class.zip"


def twin(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "class.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{EVE}/{NAME}.ipynb", as_bytes(filled(RIGHT)))
    return folder / "class.zip"


def gained(taken: list[Taken], folder: Path) -> bool:
    return any(one.read_bytes > 20 * 2**20 for one in taken)


attack = Attack(
    threat="H34",
    layer="D10",
    expected=("ungradable",),
    arena=HandedIn(gained),
    hostile=hostile,
    twin=twin,
)
