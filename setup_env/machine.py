"""What the machine must have before an environment can be made, and what to type if it has not."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setup_env import UserError

ENVIRONMENT_BYTES = 2_500 * 10**6  # 1.8 GB with torch's CPU build, and what pip caches beside it
UNPACK_BYTES = 600 * 10**6  # what pip holds in the temporary folder on its way there


def require_all(venv: Path) -> None:
    """Raise UserError for the first thing that is missing to make `venv`."""
    require_venv_module()
    require_compiler()
    require_space(venv)


def require_venv_module() -> None:
    """Raise UserError where Python came without `venv` or `ensurepip`, as Debian's does."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    hint = install_hint(apt=package, dnf="python3-pip", brew="python@3.12")
    raise UserError(f"This Python lacks the modules venv and ensurepip: {hint}")


def require_compiler() -> None:
    """Raise UserError unless $CXX or one of the usual C++ compilers answers."""
    for name in [os.environ.get("CXX", ""), "c++", "g++", "clang++"]:
        if name and answers([*name.split(), "--version"]):
            return
    hint = install_hint(apt="g++", dnf="gcc-c++", brew="gcc")
    raise UserError(f"No C++ compiler answers (tried $CXX, c++, g++, clang++): {hint}")


def require_space(venv: Path) -> None:
    """Raise UserError if the environment, or what pip unpacks on its way there, would not fit."""
    require_free(venv.parent, ENVIRONMENT_BYTES, remedy="make VENV=/a/roomier/folder/.venv")
    require_free(Path(tempfile.gettempdir()), UNPACK_BYTES, remedy="TMPDIR=/a/roomier/folder make")


def require_free(folder: Path, needed_bytes: int, *, remedy: str) -> None:
    """Raise UserError if `folder`'s disk has less than `needed_bytes` free."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise UserError(
            f"{folder} has {free_bytes / 1e9:.1f} GB free and the set-up needs "
            f"{needed_bytes / 1e9:.1f} GB: free some, or type {remedy} with what you wanted to make"
        )


def answers(command: list[str]) -> bool:
    """Return whether `command` starts and ends well; a pyenv shim is there and does not."""
    quiet = subprocess.DEVNULL
    try:
        return subprocess.call(command, stdin=quiet, stdout=quiet, stderr=quiet) == 0
    except OSError:
        return False


def install_hint(*, apt: str, dnf: str, brew: str) -> str:
    """Return the line to type on this machine, given a package's name in three worlds."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    for command, line in [
        ("apt-get", f"{sudo}apt-get install {apt}"),
        ("dnf", f"{sudo}dnf install {dnf}"),
        ("brew", f"brew install {brew}"),
    ]:
        if shutil.which(command):
            return f"type {line}"
    return "install it with your system's package manager"
