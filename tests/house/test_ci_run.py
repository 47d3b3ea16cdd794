""".ci/run on machines that lack things; each program is a script that writes down its call."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"
WANTED = [
    "make",
    "g++",
    "python3",
    "bwrap",
    "podman",
    "runc",
    "dot",
    "munged",
    "slurmctld",
    "pg_lsclusters",
    "chromium-headless-shell",
    "sshd",
]


class Machine(NamedTuple):
    """A machine that has nothing but what a test puts on it."""

    programs: Path
    log: Path

    def put(self, name: str, *, exits: int = 0, says: str = "") -> None:
        """Install a program that notes its arguments, says something and ends with a code."""
        note = f'echo "{name} $*" >> "{self.log}"'
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{note}\n{says and f'echo {says}'}\nexit {exits}\n")
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(shutil.which("bash")), str(SCRIPT)],
            env={"PATH": str(self.programs), "CI": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def calls(self, name: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.removeprefix(name + " ") for line in lines if line.startswith(name + " ")]

    def made(self) -> list[str]:
        return [call for call in self.calls("make") if call != "--version"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Debian machine on which we are root and nothing is missing."""
    (tmp_path / "bin").mkdir()
    made = Machine(tmp_path / "bin", tmp_path / "calls")
    for name in ["dirname", "env", "bash"]:
        (made.programs / name).symlink_to(str(shutil.which(name)))
    for name in [*WANTED, "apt-get"]:
        made.put(name)
    made.put("id", says="0")
    return made


def test_where_nothing_is_missing_it_types_the_test_command_and_installs_nothing(
    machine: Machine,
) -> None:
    assert machine.run().returncode == 0
    assert machine.made() == ["test", "mock"]
    assert machine.calls("apt-get") == []


def test_what_is_missing_is_installed_in_one_go(machine: Machine) -> None:
    (machine.programs / "bwrap").unlink()
    machine.put("dot", exits=127)
    assert machine.run().returncode == 0
    update, install = machine.calls("apt-get")
    assert update.startswith("update")
    assert install.endswith("bubblewrap graphviz")
    assert {"install", "-y"} <= set(install.split())
    assert machine.made() == ["test", "mock"]


def test_a_debian_python_without_venv_gets_it(machine: Machine) -> None:
    machine.put("python3", exits=1)
    machine.run()
    assert machine.calls("apt-get")[1].endswith("python3 python3-venv python3-dev")


@pytest.mark.parametrize("other_than", ["debian", "root"])
def test_where_it_cannot_install_one_line_says_what_is_missing(
    machine: Machine, other_than: str
) -> None:
    (machine.programs / "bwrap").unlink()
    if other_than == "debian":
        (machine.programs / "apt-get").unlink()
    else:
        machine.put("id", says="1000")
        machine.put("sudo", exits=1)
    refused = machine.run()
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "lacks: bubblewrap" in refused.stderr
    assert machine.made() == []


def test_with_sudo_it_installs_as_root(machine: Machine) -> None:
    (machine.programs / "bwrap").unlink()
    machine.put("id", says="1000")
    machine.put("sudo")
    assert machine.run().returncode == 0
    assert "bubblewrap" in machine.calls("sudo")[-1]


def test_a_failed_install_or_a_failed_test_is_a_failure(machine: Machine) -> None:
    machine.put("make", exits=2)
    assert machine.run().returncode != 0
    machine.put("make")
    (machine.programs / "bwrap").unlink()
    machine.put("apt-get", exits=100)
    machine.log.unlink()
    assert machine.run().returncode != 0
    assert machine.made() == []
