"""Wheels for a machine without a network that has its own torch, such as a cluster's GPU node.

    python3 -m setup_env.wheelhouse --python 3.12 [--out build/wheelhouse-3.12] [--peers]

Gathers what `onelayer` and `autograder` need to grade there, except torch and triton, which the
node has, and nbgrader, which keeps the gradebook elsewhere; and a script that installs it all into
a folder of its own.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from setup_env import UserError
from setup_env.state import ROOT

LIMIT_BYTES = 60_000_000
SUPPORTED = ("3.11", "3.12", "3.13")
GLIBC = (28, 27, 26, 24, 17, 12, 5)  # pip asks for each by its exact name
THERE = {"torch", "triton"}
PEERS = ("liger-kernel==0.8.5", "cut-cross-entropy==25.1.1")
"""Whom `make bench-gpu` measures us against: 1 MB, and all that they need is there."""
INSTALL = """#!/bin/sh
# Installs the course beside this machine's own torch, into one folder, without a network:
#     sh install.sh FOLDER [PYTHON]
# Nothing else is touched. The course is then there for whoever sets PYTHONPATH to that folder.
set -eu
[ $# -ge 1 ] || { echo "Say where to: sh install.sh FOLDER [PYTHON]" >&2; exit 2; }
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH= cd -- "$1" && pwd)
python=${2:-python@PYTHON@}
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (@VERSION@))' 2>/dev/null || {
    echo "Python @PYTHON@ is needed; $python is not it. Say which: sh install.sh FOLDER PYTHON" >&2
    exit 1
}
"$python" -c 'import torch' 2>/dev/null || {
    echo "$python has no torch of its own. Activate the environment that has it." >&2
    exit 1
}
"$python" -m pip install --quiet --no-index --no-deps --no-cache-dir --disable-pip-version-check \\
    --root-user-action ignore --upgrade --target "$folder" "$here"/*.whl
PYTHONPATH="$folder" "$python" -c '
import autograder.classroom.run.worker, onelayer, torch
print(f"The course is in @, beside torch {torch.__version__}.".replace("@", "'"$folder"'"))'
echo "Now: export PYTHONPATH=$folder"
"""


def requirements() -> list[str]:
    """What the bare distribution asks for, without what the node has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [wanted for wanted in project["dependencies"] if _name(wanted) not in THERE]


def pins() -> list[str]:
    """The versions of constraints.txt, without what the node has."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line[:1] not in {"", "#"} and _name(line) not in THERE]


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found.group() if found else ""


def download_command(python: str, folder: Path, versions: Path) -> list[str]:
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC]
    platforms += ["--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64"]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    return [*_pip("download", folder), *target, *platforms, "-c", str(versions), *requirements()]


def peers_command(folder: Path) -> list[str]:
    """What is pure Python fits each version and machine. Not with what it asks for: torch."""
    return [*_pip("download", folder), "--no-deps", "--only-binary=:all:", *PEERS]


def own_wheel_command(folder: Path, source: Path) -> list[str]:
    return [*_pip("wheel", folder), "--no-deps", str(source)]


def copy_source(to: Path) -> None:
    """A copy to build from: setuptools leaves build/ behind, and takes up what lies there."""
    left_out = shutil.ignore_patterns("__pycache__")
    for name in ("onelayer", "autograder"):
        shutil.copytree(ROOT / name, to / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT"):
        shutil.copy(ROOT / name, to)


def _pip(command: str, folder: Path) -> list[str]:
    where = "--wheel-dir" if command == "wheel" else "--dest"
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", command, *quiet, where, str(folder)]


def gather(python: str, folder: Path, *, peers: bool = False) -> int:
    """Fills `folder` anew; the bytes of its wheels. Raises UserError."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name)
        copy_source(source)
        versions = source / "versions.txt"
        versions.write_text("\n".join(pins()) + "\n")
        _run(download_command(python, partial, versions))
        _run(own_wheel_command(partial, source))
        if peers:
            _run(peers_command(partial))
    held = weighed(partial)
    version = python.replace(".", ", ")
    script = INSTALL.replace("@PYTHON@", python).replace("@VERSION@", version)
    (partial / "install.sh").write_text(script)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return held


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise UserError(f"pip could not gather the wheels: {(said or ['it says nothing'])[-1]}")


def weighed(folder: Path) -> int:
    """The bytes of the wheels in `folder`. Raises UserError where there are none or too many."""
    wheels = sorted(folder.glob("*.whl"), key=lambda wheel: -wheel.stat().st_size)
    held = sum(wheel.stat().st_size for wheel in wheels)
    if not wheels:
        raise UserError("pip gathered no wheel")
    if held > LIMIT_BYTES:
        raise UserError(
            f"The wheels hold {held / 1e6:.0f} MB, over {LIMIT_BYTES / 1e6:.0f}: "
            f"the largest is {wheels[0].name}"
        )
    return held


def main(arguments: list[str]) -> int:
    """The exit code: 0 gathered, 1 not (one line says why)."""
    parser = argparse.ArgumentParser(prog="setup_env.wheelhouse", description=__doc__)
    parser.add_argument("--python", choices=SUPPORTED, default="3.12", help="the node's Python")
    parser.add_argument("--out", type=Path, help="default: build/wheelhouse-PYTHON")
    parser.add_argument("--peers", action="store_true", help="with Liger and cut-cross-entropy")
    options = parser.parse_args(arguments)
    folder = options.out or ROOT / "build" / f"wheelhouse-{options.python}"
    try:
        held = gather(options.python, folder, peers=options.peers)
    except UserError as trouble:
        sys.stderr.write(f"Cannot go on. {trouble}.\n")
        return 1
    count = len(list(folder.glob("*.whl")))
    print(f"{count} wheels, {held / 1e6:.0f} MB, in {folder}. Carry it to the node; there:")
    print("    sh install.sh FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
