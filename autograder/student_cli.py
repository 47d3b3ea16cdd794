"""The command `onelayer`, for students: `lab`, `doctor`, `progress`, `mock-gpu`."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import click
from rich.console import Console
from rich.table import Table

from autograder.judge import content, in_language, say
from autograder.judge import language as spoken
from autograder.judge.words import CATALOGUES, LANGUAGE
from autograder.notebook import progress as show_progress
from autograder.notebook.course import find_root, homes
from autograder.notebook.doctor import Finding, examine, in_words

SETTINGS = Path(__file__).parent / "notebook" / "jupyter"
"""What JupyterLab does otherwise for the course: it asks nobody about its news, a default that the
user's settings outdo; it saves a notebook with its widgets, which are there when it is opened
again; a view saved as HTML is the page that needs no kernel, not the widget; its list of files
leaves out the texts that the notebooks are built from; and what a notebook has for Colab and Binder
is not seen."""
STYLE = [
    "--LabApp.custom_css=True",
    f"--ServerApp.tornado_settings=static_custom_path={SETTINGS}/custom",
]
COLOURS = {"ok": "green", "missing": "yellow", "none": "dim"}


LOCALE = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""Where gettext looks for the reader's language: the first that is set counts."""


class Command(click.Command):
    """Says its help in the reader's language: a docstring of one line for each paragraph."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return content(_paragraphs(self)[0]).partition(".")[0]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pieces = " ".join(self.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces, prefix=content("Usage: "))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.indentation():
            for paragraph in _paragraphs(self):
                formatter.write_paragraph()
                formatter.write_text(content(paragraph))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = [option.get_help_record(ctx) for option in options]
        with formatter.section(content("Options")):
            formatter.write_dl([(flag, content(words)) for flag, words in filter(None, records)])


def _paragraphs(command: click.Command) -> list[str]:
    return [" ".join(one.split()) for one in (command.help or "").split("\n\n")]


class Course(Command, click.Group):
    """The commands, in the language of the environment."""

    command_class = Command

    def main(self, *args: Any, **options: Any) -> Any:
        with in_language(os.environ.get(LANGUAGE) or _of_the_terminal()):
            return super().main(*args, **options)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section(content("Commands")):
            known = [(name, self.commands[name]) for name in self.list_commands(ctx)]
            formatter.write_dl([(name, one.get_short_help_str()) for name, one in known])


def _of_the_terminal() -> str:
    """The code of the first language that the terminal's variables name and the course speaks."""
    named = next(filter(None, map(os.environ.get, LOCALE)), "")
    codes = [re.split(r"[_.@]", one)[0] for one in named.split(":")]
    return next((one for one in codes if (CATALOGUES / f"{one}.toml").is_file()), "")


@click.group(cls=Course)
def main() -> None:
    """One Layer Deep: open the labs, look at this machine, see how far you are."""


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--language", help="In which to read the course, as in es. Default: yours, or en.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def lab(language: str | None, options: tuple[str, ...]) -> None:
    """Open JupyterLab on the home notebook. OPTIONS go to JupyterLab, as in --no-browser."""
    with in_language(language or spoken()):
        root, home = _home(spoken())
    places = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab/tree/{home}"]
    command = [sys.executable, "-m", "jupyterlab", *places, *STYLE, *options]
    sys.exit(_run(command, root))


def _home(language: str) -> tuple[Path, str]:
    """The course's folder and the home notebook in it. Raises ClickException where one lacks, or
    JupyterLab."""
    root = find_root(Path.cwd())
    if root is None or not (root / "notebooks" / "home.ipynb").is_file():
        raise click.ClickException(say("cli.not_here"))
    home = homes(root).get(language)
    if home is None:
        known = ", ".join(homes(root))
        raise click.ClickException(say("cli.no_language", language=language, known=known))
    if importlib.util.find_spec("jupyterlab") is None:
        raise click.ClickException(say("cli.no_jupyterlab"))
    return root, home


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
    Console(emoji=False, highlight=False).print(_table(findings))
    sys.exit(any(finding.word == "missing" for finding in findings))


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "", say("head.found"), say("head.to_do")):
        table.add_column(name, overflow="fold")
    for f in findings:
        what, word, *rest = in_words(f)
        said = (text.replace("[", "\\[") for text in rest)
        table.add_row(what, f"[{COLOURS[f.word]}]{word}[/]", *said)
    return table


@main.command()
def progress() -> None:
    """Show what you have answered so far."""
    click.echo(str(show_progress()))


@main.command("mock-gpu", context_settings={"ignore_unknown_options": True})
@click.option("--memory", help="Of each device, as in 24GiB. Default: the device's own.")
@click.option("--device", default="H100", help="T4, L4, A100, H100 or H200. Default: H100.")
@click.option("--devices", default=1, help="How many. Default: 1.")
@click.option("--values", is_flag=True, help="Compute what torch's CPU kernels can: slow.")
@click.option("--out", default="mock-gpu", help="Where the files go. Default: mock-gpu.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mock_gpu(
    memory: str | None,
    device: str,
    devices: int,
    values: bool,
    out: str,
    script: Path,
    arguments: tuple[str, ...],
) -> None:
    """Run a torch SCRIPT on a mocked CUDA device, and say whether it fits and where it waits.

    The script's own code and the CUDA build of torch run unchanged; nothing is computed on the
    device. Its options come after its name.
    """
    from onelayer.mock_cuda.builds import NoMock
    from onelayer.mock_cuda.devices import device_model
    from onelayer.mock_cuda.script import run_script

    try:
        with mock.patch.dict(os.environ, {LANGUAGE: spoken()}):
            run = run_script(
                script,
                arguments,
                model=device_model(device, memory),
                devices=devices,
                values=values,
                out=Path(out),
            )
    except (NoMock, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(run.page)
    for file in run.files:
        click.echo(f"{say('cli.written'):<9} {file}")
    sys.exit(run.exit_code)
