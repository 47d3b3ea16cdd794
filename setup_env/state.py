"""What an environment says about itself: who made it, from what, and whether it was finished."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = "onelayer-setup.json"


@dataclass(frozen=True)
class State:
    """The record that a set-up leaves in the environment."""

    stage: str  # "installing" until pip has returned without an error, then "ready"
    extras: tuple[str, ...]
    fingerprint: str
    root: str  # an environment does not survive a move: its scripts name this folder
    by_hand: bool  # somebody else made the environment: never delete it

    @classmethod
    def begin(cls, extras: tuple[str, ...], constraints: Path, *, by_hand: bool) -> "State":
        """Return the record of an installation of `extras` that starts now."""
        now = fingerprint(own_version(), constraints)
        return cls("installing", extras, now, str(ROOT), by_hand)

    def finished(self) -> "State":
        """Return the same record, for after pip has ended well."""
        return replace(self, stage="ready")


def read(venv: Path) -> State | None:
    """Return the record in `venv`; None if there is none, or none that can be read whole."""
    try:
        state = State(**json.loads((venv / FILE).read_text()))
        return replace(state, extras=tuple(map(str, state.extras)))
    except (OSError, ValueError, TypeError):
        return None


def write(venv: Path, state: State) -> None:
    """Replace the record in one step: a reader sees the old one or the new one, never half."""
    beside = venv / f"{FILE}.new"
    beside.write_text(json.dumps(asdict(state), indent=1) + "\n")
    os.replace(beside, venv / FILE)


def fingerprint(version: str, constraints: Path) -> str:
    """Return a hash of all that decides what is installed, for a Python `version` such as 3.11."""
    digest = hashlib.sha256(version.encode())
    for path in [ROOT / "pyproject.toml", constraints]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fault(venv: Path) -> str:
    """Return why the environment can neither be trusted nor built upon; "" if it can."""
    state = read(venv)
    if state is None and (venv / FILE).exists():
        return "the record of its set-up is damaged"
    if state is not None and state.stage != "ready":
        return "an earlier set-up was interrupted"
    if state is not None and state.root != str(ROOT):
        return f"it was made in another folder, {state.root}"
    return fault_of_python(venv)


def fault_of_python(venv: Path) -> str:
    """Return what is wrong with the environment's own Python; "" if nothing is."""
    version = version_of(venv)
    if not version:
        return "its Python does not run"
    if version != own_version():
        return f"it holds Python {version} and this is {own_version()}"
    return ""


def version_of(venv: Path) -> str:
    """Return the version, such as 3.11, that the environment's Python answers; "" if it is dead."""
    ask = (
        "import sys; print('%d.%d' % sys.version_info[:2] if sys.prefix != sys.base_prefix else '')"
    )
    try:
        return subprocess.run(
            [python(venv), "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def own_version() -> str:
    """Return the version of the Python that runs the set-up, such as 3.11."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def python(venv: Path) -> Path:
    """Return where the environment's own Python is, or would be."""
    return venv / "bin" / "python"
