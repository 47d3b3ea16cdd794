"""The command `onelayer`, for students: `lab`, `doctor`, `progress`."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from autograder.notebook import progress as show_progress
from autograder.notebook.course import find_root
from autograder.notebook.doctor import Finding, examine

SETTINGS = Path(__file__).parent / "notebook" / "jupyter"
"""What JupyterLab does otherwise for the course: it asks nobody about its news, a default that the
user's settings outdo; and a view saved as HTML is the page that needs no kernel, not the widget."""
COLOURS = {"ok": "green", "missing": "yellow", "none": "dim"}


@click.group()
def main() -> None:
    """One Layer Deep: open the labs, look at this machine, see how far you are."""


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def lab(options: tuple[str, ...]) -> None:
    """Open JupyterLab on the home notebook. OPTIONS go to JupyterLab, as in --no-browser."""
    root = find_root(Path.cwd())
    home = root / "notebooks" / "home.ipynb" if root else None
    if home is None or not home.is_file():
        raise click.ClickException("notebooks/home.ipynb is not here: go to the course's folder.")
    if importlib.util.find_spec("jupyterlab") is None:
        advice = 'pip install "jupyterlab>=4.4", then try again.'
        raise click.ClickException(f"JupyterLab is not installed: {advice}")
    places = [f"--ServerApp.root_dir={root}", "--LabApp.default_url=/lab/tree/notebooks/home.ipynb"]
    command = [sys.executable, "-m", "jupyterlab", *places, *options]
    sys.exit(_run(command, root))


def _run(command: list[str], folder: Path | None) -> int:
    """Runs `command` in `folder` until it ends. Ctrl-C reaches it too: it knows how to stop. What
    ends this process alone, as a supervisor does, is passed on."""
    with subprocess.Popen(command, cwd=folder, env=_environment()) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def _environment() -> dict[str, str]:
    """The variables of now, and where JupyterLab finds our defaults, after places already named."""
    paths = [os.environ.get("JUPYTER_CONFIG_PATH", ""), str(SETTINGS)]
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths))}


@main.command()
def doctor() -> None:
    """Say what of the course runs on this machine, and what to do about the rest."""
    findings = examine()
    Console(highlight=False).print(_table(findings))
    sys.exit(any(finding.word == "missing" for finding in findings))


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "", "found", "to do"):
        table.add_column(name, overflow="fold")
    for f in findings:
        word = f"[{COLOURS[f.word]}]{f.word}[/]"
        table.add_row(f.what, word, *(text.replace("[", "\\[") for text in (f.found, f.to_do)))
    return table


@main.command()
def progress() -> None:
    """Show what you have answered so far."""
    click.echo(str(show_progress()))
