"""Makes the environment, mends it, or leaves it alone: one set-up at a time, nothing done twice."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from setup_env import UserError, machine, state
from setup_env.follow_pip import follow, reason
from setup_env.state import ROOT, State

# Which extras of pyproject.toml each request needs; `dev` brings `lab` along.
NEEDS = {"lab": {"lab"}, "dev": {"lab", "dev"}}


@dataclass(frozen=True)
class Site:
    """Where one set-up works: the environment, the versions it is to hold, its log, and the
    descriptor of the held lock."""

    venv: Path
    constraints: Path
    log: TextIO
    lock: int


def set_up(path: str, wanted: str, versions: str | None = None) -> None:
    """Bring the environment at `path` to where `wanted` ("lab" or "dev") runs.

    `versions` is a constraints file; without it the course's own. Does only what is missing.
    Raises UserError with one sentence when it cannot, OSError when the file cannot be read.
    """
    venv = Path(path)
    constraints = Path(versions).resolve() if versions else ROOT / "constraints.txt"
    with only_one(venv.with_name(f"{venv.name}.lock")) as lock:
        clear_if_faulty(venv)
        missing = extras_to_install(venv, wanted, constraints)
        if not missing:
            return
        began = time.monotonic()
        with open(venv.with_name(f"{venv.name}.log"), "w", buffering=1) as log:
            make(Site(venv, constraints, log, lock), missing)
        say(f"The environment is ready ({time.monotonic() - began:.0f} s).")


def extras_to_install(venv: Path, wanted: str, constraints: Path) -> tuple[str, ...]:
    """Return the extras to ask pip for; () if `wanted` is there and nothing has changed since."""
    record = state.read(venv)
    have = set(record.extras) if record else set()
    now = state.fingerprint(state.own_version(), constraints)
    current = record is not None and record.fingerprint == now
    if current and have >= NEEDS[wanted]:
        return ()
    return tuple(sorted(have | NEEDS[wanted]))


def make(site: Site, extras: tuple[str, ...]) -> None:
    """Create the environment if there is none, then install `extras` into it."""
    if state.python(site.venv).exists():
        say(f"Bringing {site.venv.name} up to date.")
    else:
        create(site, extras)
    install(site, extras)


def create(site: Site, extras: tuple[str, ...]) -> None:
    """Make an empty environment that says from its first moment that it is not ready."""
    machine.require_all(site.venv)
    say("First run: about 100 packages, a few minutes. Later runs skip this.")
    site.venv.mkdir(exist_ok=True)
    state.write(site.venv, State.begin(extras, site.constraints, by_hand=False))
    say(f"Making {site.venv.name} with Python {state.own_version()}.")
    code = subprocess.call(
        venv_command(site.venv),
        stdin=subprocess.DEVNULL,
        stdout=site.log,
        stderr=site.log,
        pass_fds=[site.lock],
    )
    if code != 0:
        raise UserError(f"Python could not make an environment; {site.log.name} says why")


def install(site: Site, extras: tuple[str, ...]) -> None:
    """Run pip once for all of `extras`; what was ready stays ready if pip changed nothing."""
    before = state.read(site.venv)
    now = State.begin(extras, site.constraints, by_hand=before is None or before.by_hand)
    state.write(site.venv, now)
    # The lock goes along: if we are killed, it is held until pip too has let go of the environment.
    command = pip_command(site.venv, extras, site.constraints)
    code, changed = follow(command, log=site.log, lock=site.lock)
    if code == 0:
        state.write(site.venv, now.finished())
        return
    if not changed and before is None:
        (site.venv / state.FILE).unlink()
    elif not changed and before is not None:
        state.write(site.venv, before)
    log = Path(site.log.name)
    raise UserError(f"{reason(log.read_text(errors='replace'))}. All that pip said is in {log}")


def venv_command(venv: Path) -> list[str]:
    """Return the command that makes an empty environment, with the Python beneath our own."""
    beneath = getattr(sys, "_base_executable", "") or sys.executable
    return [beneath, "-m", "venv", str(venv)]


def pip_command(venv: Path, extras: tuple[str, ...], constraints: Path) -> list[str]:
    """Return the command that installs the course with `extras`, at the versions given."""
    quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    what = ["-c", str(constraints), "-e", f"{ROOT}[{','.join(extras)}]"]
    return [str(state.python(venv)), "-m", "pip", "install", *quiet, *what]


def clear_if_faulty(venv: Path) -> None:
    """Remove an environment of ours that cannot be trusted; refuse to touch somebody else's."""
    shutil.rmtree(graveyard(venv), ignore_errors=True)  # a removal that was itself interrupted
    if not venv.exists() or not any(venv.iterdir()):
        return
    why = state.fault(venv)
    if not why:
        return
    if not made_by_us(venv):
        raise UserError(
            f"{venv} was not made by make, and {why}. If you can spare it: rm -r {venv}"
        )
    say(f"Starting over with {venv.name}: {why}.")
    os.rename(venv, graveyard(venv))  # in one step: a half-removed environment never stays behind
    shutil.rmtree(graveyard(venv), ignore_errors=True)


def made_by_us(venv: Path) -> bool:
    """Return whether a set-up made this environment (and not only installed into it)."""
    record = state.read(venv)
    return (venv / state.FILE).exists() and not (record is not None and record.by_hand)


def graveyard(venv: Path) -> Path:
    """Return where an environment lies while it is being removed."""
    return venv.with_name(f"{venv.name}-old")


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[int]:
    """Hold the lock file `path` and yield its descriptor; a second set-up waits, and says so."""
    with open(path, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another make is setting up this environment: waiting until it is done.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(text, flush=True)
