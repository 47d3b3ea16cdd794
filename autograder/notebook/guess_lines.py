"""What is behind a tempting wrong guess, from guess_lines.toml: a line of the course's for each.

They do not stand in the notebooks, where whoever reads on before guessing would see them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from autograder.judge import content_room

FILE = Path(__file__).with_name("guess_lines.toml")
content_room(FILE.parent)


def lines_for(key: str) -> Mapping[str, str]:
    """Each tempting guess at `key`, as a reader sees it, and its line. Empty for most keys."""
    return _lines().get(key, {})


@cache
def _lines() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(FILE.read_text("utf-8"))
