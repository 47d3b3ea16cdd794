"""Intake as one writes it who believes what was handed in: links are followed, archives unpacked
where their names say, and points, kernel, owner and time read out of the notebook.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 2**26


@dataclass(frozen=True)
class Taken:
    """What a grader took one hand-in for. points: as the notebook itself says; read_bytes: how much
    came out of the file."""

    owner: str
    text: str = ""
    points: float = 0.0
    kernel: str = ""
    submitted: str = ""
    read_bytes: int = 0


def believed(hand_in: Path) -> list[Taken]:
    """Every notebook of the hand-in, taken at its word. Writes below the parent of `hand_in`, where
    an archive wants it. Raises Aborted where a cell's id comes twice, as nbgrader's checks do."""
    root = _unpacked(hand_in) if hand_in.is_file() else hand_in
    return [_read(path, root) for path in sorted(root.rglob("*.ipynb"))]


def _unpacked(archive: Path) -> Path:
    root = archive.parent / "unpacked"
    root.mkdir()
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            place = root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(name) as member:
                place.write_bytes(member.read(MOST_BYTES))  # all of it, for a true believer
    return root


class Aborted(Exception):
    """One notebook has ended the run for everybody."""


def _read(path: Path, root: Path) -> Taken:
    data = path.read_bytes()
    try:
        made = json.loads(data)
    except ValueError:
        made = {}
    metadata = made.get("metadata", {})
    cells = made.get("cells", [])
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    if any(name and ids.count(name) > 1 for name in ids):
        raise Aborted("duplicate grade id")
    timestamp = path.parent / "timestamp.txt"
    return Taken(
        metadata.get("student") or path.relative_to(root).parts[-2],
        data.decode(errors="replace"),
        sum(map(_claimed, cells)),
        metadata.get("kernelspec", {}).get("name", ""),
        timestamp.read_text() if timestamp.exists() else "",
        len(data),
    )


def _claimed(cell: dict[str, Any]) -> float:
    """The points of a check cell, for which its saved outputs are proof enough."""
    graded = cell.get("metadata", {}).get("nbgrader", {})
    if not graded.get("grade") or cell["cell_type"] != "code":
        return 0.0
    shown = [output.get("output_type") for output in cell["outputs"]]
    proved = "execute_result" in shown and "error" not in shown
    return float(graded["points"]) if proved else 0.0
