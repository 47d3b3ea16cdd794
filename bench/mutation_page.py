"""The page docs/mutation.md: the score of each room, kept where others are asked later."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEAD = """\
# Would a test notice?

`python -m bench.mutation ROOM` changes every module of a room in one place at a time (an operator,
a constant, a dropped statement, a branch that is never taken, ...) and runs the tests of that room.
*Noticed*: a test failed. *Explained*: nobody could notice, and `bench/equivalent_mutants.toml` says
why. *Open*: a test is missing.

"""
Row = tuple[str, int, int, int]
"""A module, how many mutants it has, how many were noticed, and how many are explained."""
Room = dict[str, list[Any]]
"""By module: the day on which it was asked, and the numbers of its row."""


def write(page: Path, room: str, row: Row, unasked: Sequence[str] = ()) -> None:
    """Writes the page anew with this module's row of today. unasked: the modules of the room that
    have mutants, of which those are named that have no row yet."""
    kept = read(page)
    module, *numbers = row
    asked = {name: found for name, found in kept.get(room, {}).items() if name in unasked}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    kept[room] = {**{name: [] for name in unasked}, **asked, module: [today, *numbers]}
    parts = [HEAD, *(section(name, kept[name]) for name in sorted(kept))]
    page.write_text("".join(parts) + f"<!-- {json.dumps(kept, sort_keys=True)} -->\n", "utf-8")


def read(page: Path) -> dict[str, Room]:
    """What the page says of every room that was ever asked."""
    if not page.exists():
        return {}
    found = re.search(r"<!-- (\{.*\}) -->", page.read_text("utf-8"))
    return {} if found is None else dict(json.loads(found[1]))


def section(name: str, room: Room) -> str:
    """One room: a line per module, their sum, and who was not asked."""
    asked = {module: found for module, found in sorted(room.items()) if found}
    total = ["", *(sum(found[k] for found in asked.values()) for k in (1, 2, 3))]
    lines = [f"## {name}\n\n| module | asked | mutants | noticed | explained | open |\n"]
    lines.append("|---|---|---|---|---|---|\n")
    for module, (day, made, noticed, explained) in {**asked, "**all**": total}.items():
        left = made - noticed - explained
        lines.append(f"| {module} | {day} | {made} | {noticed} | {explained} | {left} |\n")
    if unasked := sorted(set(room) - set(asked)):
        lines.append(f"\nNot asked yet: {', '.join(unasked)}.\n")
    return "".join(lines) + "\n"
