"""Hand-ins for the tests of intake: a folder or an archive, and what is taken from it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from autograder.classroom.intake.submissions import files_in, submissions

LAB = "01_strides"


KNOWN = [LAB, "02_autograd"]


def in_folder(root: Path, paths: dict[str, bytes]) -> Path:
    for path, data in paths.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def in_zip(root: Path, paths: dict[str, bytes]) -> Path:
    made = root / "hand_in.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in paths.items():
            archive.writestr(path, data)
    return made


def taken(source: Path, lab: str = LAB) -> dict[str, object]:
    return {one.student: one for one in submissions(files_in(source), lab, KNOWN)}
