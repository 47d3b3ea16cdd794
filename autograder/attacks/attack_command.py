"""`autograder attack`: the corpus on this machine, the table, and whether all of it held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder.sandbox import probe

from .attack_table import as_data, faults, summary, table
from .collected import Named, chosen
from .ground import Ground
from .trying import Judged, Tried, judge_honest, try_attack


def attack(
    console: Console, *, family: str = "", names: Sequence[str] = (), result: Path | None = None
) -> bool:
    """Runs what is chosen, and the honest programs where all is; whether nothing is at fault.

    Raises LookupError where nothing of that name is there, GraderFault where the grader fails.
    """
    picked = chosen(family, names)
    if result is not None:
        result.touch()  # who cannot write it should not hear so at the end
    tier = probe()
    if not tier.safe:
        tried = [Tried(named, not_run="no jail") for named in picked]
        console.print(f"No attack is run here without a jail: {tier.reason}", style="bold red")
        _write(result, tried, [])
        return False
    tried, honest = _run(console, picked, everything=not family and not names)
    return _shown(console, tried, honest, result)


def _run(
    console: Console, picked: Sequence[Named], *, everything: bool
) -> tuple[list[Tried], list[Judged]]:
    tried: list[Tried] = []
    with Ground() as ground, _progress(console) as progress:
        bar = progress.add_task("", total=len(picked))
        for named in picked:
            progress.update(bar, description=named.name)
            tried.append(try_attack(named, ground))
            progress.advance(bar)
        progress.update(bar, description="honest programs")
        honest = list(judge_honest(ground)) if everything else []
    return tried, honest


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _shown(
    console: Console, tried: Sequence[Tried], honest: Sequence[Judged], result: Path | None
) -> bool:
    console.print(table(tried))
    wrong = faults(tried, honest)
    for line in wrong:
        console.print(line, style="bold red", markup=False, highlight=False, soft_wrap=True)
    for one in tried:
        if one.not_run:
            console.print(f"not run here: {one.named.name}: {one.not_run}", markup=False)
    console.print(summary(tried, honest), markup=False, highlight=False, soft_wrap=True)
    _write(result, tried, honest)
    return not wrong


def _write(result: Path | None, tried: Sequence[Tried], honest: Sequence[Judged]) -> None:
    if result is not None:
        result.write_text(json.dumps(as_data(tried, honest), indent=1) + "\n", encoding="utf-8")
