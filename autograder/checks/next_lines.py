"""Where to look after a known wrong answer, from next_lines.toml: the section that cures it.

These lines stand in one file and not beside each wrong answer, because a section that changes its
title changes many of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from autograder.judge import Said, text

FILE = Path(__file__).with_name("next_lines.toml")


@cache
def next_lines() -> Mapping[str, Mapping[str, Said]]:
    """By question and name of the wrong answer; "" where its own sentence says all."""
    tables = tomllib.loads(FILE.read_text("utf-8"))
    titles = tables.pop("sections")
    return {
        question: {
            name: _line(section, titles) for section, names in cures.items() for name in names
        }
        for question, cures in tables.items()
    }


def _line(section: str, titles: Mapping[str, str]) -> Said:
    return section and text("look_again", chapter=section[:2], title=titles[section])
