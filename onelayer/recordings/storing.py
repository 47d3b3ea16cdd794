"""Puts a recording in its place: cleaned, small, readable, whole or not at all."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onelayer.model import weights
from onelayer.recordings import HERE, Content, read_recording, recording_of, shows_of
from onelayer.recordings.cleaning import cleaned
from onelayer.recordings.provenance import Provenance

MOST_BYTES = 200_000  # of a file: it lies in git, and on a page


def store(name: str, content: Content, made: Provenance, folder: Path = HERE) -> Path:
    """Writes `content` as `NAME.json` in `folder`, with its provenance, and returns the file.

    Raises ValueError, and leaves what was there before, for a recording that is too large, that
    cannot be read back once it is cleaned, that a CPU made and that is to lie among the shipped
    ones, or that a mocked device made where a GPU's lies.
    """
    if folder.resolve() == HERE.resolve() and made.ran_on == "cpu":
        raise ValueError(f"{name} ran on {made.device}: what is shipped comes from a GPU")
    before = read_recording(name, folder=folder).made
    if before and (before.ran_on, made.ran_on) == ("cuda", "mocked"):
        raise ValueError(f"{name} was recorded on {before.device}, and a GPU's stays")
    held = cleaned({**asdict(made), "shows": shows_of(content), "content": content.plain()})
    text = _written(held)
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"{name} takes {len(text.encode()):,} bytes, over {MOST_BYTES:,}")
    recording_of(name, json.loads(text))
    file = folder / f"{name}.json"
    weights.replace(file, text.encode())
    return file


def _written(held: dict[str, Any]) -> str:
    """JSON with a line for each field, and for each part of the content."""
    content = ",\n".join(f"  {_line(k)}: {_line(v)}" for k, v in held["content"].items())
    fields = [f" {_line(k)}: {_line(v)}" for k, v in held.items() if k != "content"]
    return ",\n".join(["{\n" + fields[0], *fields[1:], f' "content": {{\n{content}\n }}\n}}\n'])


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
