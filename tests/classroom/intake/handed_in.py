"""Hand-ins for the tests of intake: a folder or an archive, and what is taken from it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from autograder.classroom.intake.files import Found
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


FOLDER = {
    "ada/": None,
    "ada/./01_strides.ipynb": ("ada/01_strides.ipynb", "file"),
    "ada//data/": ("ada/data", "empty"),
    "bob/": None,
    "bob/deep/": ("bob/deep", "empty"),
    "cy/": ("cy", "empty"),
    "cy/.DS_Store": ("cy/.DS_Store", "hidden"),
    "dan/": None,
    "dan/lab/": None,
    "dan/lab/.git/": ("dan/lab/.git", "hidden"),
    "dan/lab/.git/refs/heads": None,
    "dan/lab/.git/refs/.lock": None,
    "dan/lab/x.txt": ("dan/lab/x.txt", "file"),
}
"""Paths, of which those that end in / are folders; by each, what of it is found and as what."""


def kinds(source: Path) -> dict[str, str]:
    """By its path, what each thing that is found in a hand-in is; no path is found twice."""
    found = files_in(source)
    told = {"/".join(file.path): _kind(file) for file in found}
    assert len(told) == len(found)
    assert [kind == "file" for kind in told.values()] == [file.is_file for file in found]
    return told


def _kind(file: Found) -> str:
    if file.spoils:
        return "spoils"
    if file.is_hidden:
        return "hidden"
    if file.is_empty_folder:
        return "empty"
    return "file" if file.is_file else "no file"
