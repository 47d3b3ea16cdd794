"""The page docs/mutation.md: the score of each room, kept where other rooms are asked later."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

HEAD = """\
# Would a test notice?

`python -m bench.mutation ROOM` changes every module of a room in one place at a time (an operator,
a constant, a dropped statement, a branch that is never taken, ...) and runs the tests of that room.
*Noticed*: a test failed. *Explained*: nobody could notice, and `bench/equivalent_mutants.toml` says
why. *Open*: a test is missing.

"""
Row = tuple[str, int, int, int]


def write(page: Path, room: str, rows: Sequence[Row]) -> None:
    """Writes the page anew with this room's rows of today."""
    kept = read(page)
    kept[room] = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "rows": list(rows)}
    parts = [HEAD, *(section(name, kept[name]) for name in sorted(kept))]
    page.write_text("".join(parts) + f"<!-- {json.dumps(kept, sort_keys=True)} -->\n", "utf-8")


def read(page: Path) -> dict[str, dict[str, object]]:
    """What the page says of every room that was ever asked."""
    if not page.exists():
        return {}
    found = re.search(r"<!-- (\{.*\}) -->", page.read_text("utf-8"))
    return {} if found is None else dict(json.loads(found[1]))


def section(room: str, kept: dict[str, object]) -> str:
    """One room: a line per module, and their sum."""
    rows: list[Row] = [(str(n), a, b, c) for n, a, b, c in kept["rows"]]  # type: ignore[attr-defined]
    total = ("**all**", *(sum(row[k] for row in rows) for k in (1, 2, 3)))
    lines = [f"## {room}, {kept['date']}\n\n| module | mutants | noticed | explained | open |\n"]
    lines.append("|---|---|---|---|---|\n")
    for name, made, noticed, explained in [*rows, total]:  # type: ignore[list-item]
        lines.append(
            f"| {name} | {made} | {noticed} | {explained} | {made - noticed - explained} |\n"
        )
    return "".join(lines) + "\n"
