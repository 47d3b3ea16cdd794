"""Cell headers: the one line above each cell of a percent source.

    # %% [markdown] id="contiguous-strides"                  prose
    # %% id="setup" tags=["setup"]                           code
    # %% id="contiguous_strides" role="solution"             the student's answer
    # %% id="contiguous_strides_check" role="check"          its check says the points
    # %% id="contiguous_strides_alternative" role="alternative"   another right answer
    # %% [markdown] id="why_copies" role="free_text" points=3 minutes=5 difficulty=2

Jupytext reads `key=value` pairs, takes what it cannot read for a title, and drops or guesses in
silence. An author who mistypes a header should hear about it, so whatever is not understood here is
refused.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""nbformat's rule for cell ids and nbgrader's for grade ids, both at once."""

ROLES = ("solution", "check", "alternative", "free_text")
VIEW_KEYS = ("jupyter", "mystnb")
COUNTS = ("minutes", "difficulty")
KEYS = ("id", "role", "points", "tags", "about_lines", *COUNTS, *VIEW_KEYS)

_JUPYTEXT_OWN = ("lines_to_next_cell", "cell_marker")


@dataclass(frozen=True)
class Header:
    """What a cell header says. `points` is None where none were given; `view` goes into the
    notebook unread."""

    id: str
    role: str | None = None
    points: float | None = None
    tags: tuple[str, ...] = ()
    about_lines: int | None = None
    view: Mapping[str, Any] = field(default_factory=dict)
    minutes: int | None = None
    difficulty: int | None = None


def complaints(line: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    """Everything wrong with the header `line`, which Jupytext understood as `metadata`."""
    if {"incorrectly_encoded_metadata", "title", "cell_depth"} & set(metadata):
        instead = 'write # %% id="name" or # %% [markdown] id="name"'
        yield f"cannot read the header {line.strip()!r}; {instead}"
        return
    for key in sorted(set(metadata) - set(KEYS) - set(_JUPYTEXT_OWN)):
        yield f"unknown key {key!r} in the header; known are {', '.join(KEYS)}"
    for key, count in Counter(re.findall(r"\s(\w+)=", line)).items():
        if count > 1 and key in KEYS:
            yield f"the header gives {key!r} {count} times"
    yield from _id_complaints(metadata)
    yield from _role_complaints(metadata)
    yield from _size_complaints(metadata)


def _id_complaints(metadata: Mapping[str, Any]) -> Iterator[str]:
    if "id" not in metadata:
        yield 'the cell has no id; write # %% id="name"'
    elif not isinstance(metadata["id"], str) or not ID.fullmatch(metadata["id"]):
        yield (
            f"{metadata['id']!r} is no id: nbgrader and nbformat take "
            "1 to 64 letters, digits, hyphens and underscores"
        )


def _role_complaints(metadata: Mapping[str, Any]) -> Iterator[str]:
    role, points = metadata.get("role"), metadata.get("points")
    if role is not None and role not in ROLES:
        yield f"unknown role {role!r}; roles are {', '.join(ROLES)}"
    if "points" in metadata and not _is_positive_number(points):
        yield f"points={points!r} is not a positive number"
    if role == "free_text" and "points" not in metadata:
        yield "a free_text cell needs points, as in points=2"
    if role not in ("check", "free_text") and "points" in metadata:
        yield "points belong in the header of a check or free_text cell"


def _size_complaints(metadata: Mapping[str, Any]) -> Iterator[str]:
    about = metadata.get("about_lines")
    counts = type(about) is int and about >= 1 and metadata.get("role") == "solution"
    if about is not None and not counts:
        yield f"about_lines={about!r} must be a whole number in the header of a solution cell"
    for key in COUNTS:
        if key in metadata and (
            type(metadata[key]) is not int or metadata.get("role") != "free_text"
        ):
            yield f"{key}={metadata[key]!r} must be a whole number in a free_text cell's header"


def _is_positive_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]


def header(metadata: Mapping[str, Any]) -> Header:
    """The header of a cell whose metadata had no complaints."""
    return Header(
        id=metadata["id"],
        role=metadata.get("role"),
        points=metadata.get("points"),
        tags=tuple(metadata.get("tags", ())),
        about_lines=metadata.get("about_lines"),
        view={key: metadata[key] for key in VIEW_KEYS if key in metadata},
        minutes=metadata.get("minutes"),
        difficulty=metadata.get("difficulty"),
    )
