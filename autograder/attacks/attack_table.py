"""The table that `autograder attack` prints, and the same for a machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from .attack import LAYERS, PASS, Outcome
from .trying import Judged, Tried


def table(tried: Sequence[Tried]) -> Table:
    """One row per attack."""
    made = Table(
        title="autograder attack", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in ("attack", "family", "layer", "verdict", "twin", "defence off"):
        made.add_column(name, no_wrap=True)
    for one in tried:
        made.add_row(*_row(one))
    return made


def _row(one: Tried) -> list[Text]:
    attack = one.named.attack
    head = [Text(one.named.name), Text(attack.family), Text(attack.layer)]
    if one.defended is None or one.twin is None or one.undefended is None:
        return [*head, Text("not run", style="yellow"), Text(""), Text("")]
    stopped = not one.defended.succeeded and one.defended.verdict in attack.expected
    return [
        *head,
        _coloured(one.defended.verdict, good=stopped),
        _coloured(one.twin.verdict, good=one.twin.verdict == PASS),
        _coloured(_live(one.undefended), good=one.undefended.succeeded),
    ]


def _live(outcome: Outcome) -> str:
    return "live" if outcome.succeeded else "NOT LIVE"


def _coloured(word: str, *, good: bool) -> Text:
    return Text(word, style="green" if good else "bold red")


def faults(tried: Sequence[Tried], honest: Sequence[Judged]) -> list[str]:
    """A line for everything that is not as it must be."""
    found = [f"{one.named.name}: {fault}" for one in tried for fault in one.faults]
    return found + [f"{one.program.name}: {fault}" for one in honest for fault in one.faults]


def summary(tried: Sequence[Tried], honest: Sequence[Judged]) -> str:
    """The line under the table."""
    ran = [one for one in tried if one.defended is not None]
    succeeded = sum(bool(one.defended and one.defended.succeeded) for one in ran)
    twins = sum(bool(one.twin and one.twin.verdict != PASS) for one in ran)
    live = sum(bool(one.undefended and one.undefended.succeeded) for one in ran)
    punished = sum(bool(one.faults) for one in honest)
    return (
        f"{len(ran)} attacks: {succeeded} succeeded, {twins} honest twins punished, "
        f"{live} live with the defence off, {len(tried) - len(ran)} not run here; "
        f"{len(honest)} honest programs: {punished} punished"
    )


def as_data(tried: Sequence[Tried], honest: Sequence[Judged]) -> dict[str, Any]:
    """Everything, as JSON takes it."""
    return {
        "summary": summary(tried, honest),
        "faults": faults(tried, honest),
        "machine": {
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "python": platform.python_version(),
            "torch": metadata.version("torch"),
        },
        "layers": LAYERS,
        "attacks": [_attack(one) for one in tried],
        "honest": [{"name": one.program.name, **asdict(one.outcome)} for one in honest],
    }


def _attack(one: Tried) -> dict[str, Any]:
    attack = one.named.attack
    outcomes = {
        name: None if outcome is None else asdict(outcome)
        for name, outcome in (
            ("defended", one.defended),
            ("twin", one.twin),
            ("undefended", one.undefended),
        )
    }
    return {
        "name": one.named.name,
        "threat": attack.threat,
        "family": attack.family,
        "layer": attack.layer,
        "expected": list(attack.expected),
        "strategy": one.named.strategy,
        "not_run": one.not_run,
        "wall_s": round(one.wall_s, 3),
        "faults": list(one.faults),
        **outcomes,
    }
