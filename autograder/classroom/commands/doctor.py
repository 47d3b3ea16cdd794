"""`autograder doctor`: what this machine can do, and what to do where it cannot."""

import importlib.metadata
import platform
import shutil
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.sandbox import probe
from autograder.sandbox.engines import cgroups
from autograder.sandbox.inside import landlock

from ..run.pool import processors

PACKAGES = ("torch", "nbgrader", "nbclient", "jupyterlab")


def doctor(console: Console) -> bool:
    """Shows the table; whether other people's code can be graded here."""
    tier = probe()
    made = Table(title="autograder doctor", title_justify="left", show_header=False)
    made.add_column()
    made.add_column(overflow="fold")
    style = "green" if tier.safe else "red"
    made.add_row("sandbox", Text(f"{tier.name}: {tier.reason}", style=style))
    for name, value in _facts():
        made.add_row(name, Text(value))
    console.print(made)
    if not tier.safe:
        console.print("`autograder grade` refuses here without --i-trust-students.", style="red")
    return tier.safe


def _facts() -> Iterator[tuple[str, str]]:
    yield "cgroups", _cgroups()
    yield "landlock", _landlock()
    yield "processors", f"{processors()}: as many submissions are graded at a time"
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield "python", platform.python_version()
    for package in PACKAGES:
        yield package, _version(package)
    yield "bubblewrap", shutil.which("bwrap") or "not installed: apt-get install bubblewrap"
    yield "podman", shutil.which("podman") or "not installed: needed only without bubblewrap"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _landlock() -> str:
    found = landlock.version()
    return f"version {found}" if found else "not in this kernel: read-only mounts are the only wall"


def _cgroups() -> str:
    """What the kernel holds a submission to here; `find` tries it out."""
    found = cgroups.find()
    if not found:
        return "none: memory is watched instead of limited, and a busy submission slows the others"
    held = [hierarchy.controller for hierarchy in found if hierarchy.controller]
    return f"v{found[0].version}" + (f": {', '.join(held)}" if held else "")
