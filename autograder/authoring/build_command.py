"""The command `build`, and `build --check` for CI."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console

from .build import build
from .drift import drift
from .problem import Problem, Refused


@click.command("build", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; fail when a notebook is not what its source gives.",
)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The course's folder. Default: this one.",
)
def build_command(check: bool, root: Path) -> None:
    """Make the notebooks from their percent sources."""
    if check:
        _say(drift(root))
        Console(emoji=False, highlight=False).print("Every notebook is what its source gives.")
        return
    try:
        changes = build(root)
    except Refused as refused:
        _say(refused.problems)
        return
    console = Console(emoji=False, highlight=False, soft_wrap=True)
    for verb, paths in (("wrote", changes.written), ("removed", changes.removed)):
        for path in paths:
            console.print(f"{verb:8} {path}", markup=False)
    total = len(changes.unchanged) + len(changes.written)
    console.print(f"{len(changes.unchanged)} of {total} notebooks were up to date.")
    for problem in changes.untranslated:
        console.print(f"in English {problem}", markup=False)


def _say(problems: Iterable[Problem]) -> None:
    """Print a line per problem and leave with status 1; return where there are none."""
    lines = [str(problem) for problem in problems]
    if not lines:
        return
    console = Console(emoji=False, stderr=True, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(line, markup=False)
    console.print(f"{len(lines)} {'problem' if len(lines) == 1 else 'problems'}.")
    sys.exit(1)
