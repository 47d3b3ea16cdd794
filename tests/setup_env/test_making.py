"""The set-up behind `make lab` and `make test`: what it needs, what it skips, what it mends.

pip is played by a script of ten lines, so nothing is downloaded; the environments are real ones.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from setup_env import __main__, making, state

REPO = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(120)

# What the course's set-up runs instead of pip. Its plan is a file, so that a test can change it.
FAKE_PIP = """
import pathlib, sys
here, venv = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with open(here / "calls", "a") as calls:
    calls.write(sys.argv[3] + "\\n")
plan = (here / "plan").read_text()
print("Collecting torch==2.13.0", flush=True)
if plan == "network":
    print("WARNING: Retrying after NewConnectionError('Network is unreachable')")
    print("ERROR: No matching distribution found for torch==2.13.0")
    sys.exit(1)
print("Installing collected packages: numpy, torch", flush=True)
(venv / "half").write_text("a package without its record")
if plan == "full":
    print("ERROR: Could not install packages: [Errno 28] No space left on device")
    sys.exit(1)
if plan == "hang":
    open(here / "started", "w").close()
    open(here / "go").close()
(venv / "half").unlink()
"""

# The set-up as a process of its own, with pip replaced and everything else real.
DRIVER = """
import pathlib, sys
repo, here, venv = sys.argv[1:4]
sys.path.insert(0, repo)
from setup_env import __main__, machine, making, state
making.ROOT = state.ROOT = pathlib.Path(here)
making.venv_command = lambda venv: [sys.executable, "-m", "venv", "--without-pip", str(venv)]
making.pip_command = lambda venv, extras, constraints: [
    sys.executable, str(making.ROOT / "fake_pip.py"), here, str(venv), ",".join(extras)]
machine.require_all = lambda venv: None
sys.exit(__main__.main([sys.argv[4], "--venv", venv]))
"""


class House(NamedTuple):
    """A small project, and the set-up that runs in it."""

    root: Path
    venv: Path

    def plan(self, plan: str) -> None:
        (self.root / "plan").write_text(plan)

    def calls(self) -> list[str]:
        """Return the extras that each start of pip was asked for."""
        log = self.root / "calls"
        return log.read_text().split() if log.exists() else []

    def start(self, extras: str) -> "subprocess.Popen[str]":
        """Return the running set-up; its output is in its pipes."""
        command = [sys.executable, "-c", DRIVER, REPO, self.root, self.venv, extras]
        pipe = subprocess.PIPE
        return subprocess.Popen([*map(str, command)], stdout=pipe, stderr=pipe, text=True)

    def run(self, extras: str) -> subprocess.CompletedProcess[str]:
        """Return the finished set-up."""
        process = self.start(extras)
        out, err = process.communicate()
        return subprocess.CompletedProcess([], process.returncode, out, err)


@pytest.fixture
def house(tmp_path: Path) -> House:
    root = tmp_path / "a house"  # with a space in its name, as people's folders have
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    (root / "constraints.txt").write_text("torch==2.13.0\n")
    (root / "fake_pip.py").write_text(FAKE_PIP)
    os.mkfifo(root / "started")
    os.mkfifo(root / "go")
    made = House(root, root / ".venv")
    made.plan("ok")
    return made


def one_line(text: str) -> str:
    """Return the only line of `text`; a person reads one line, not a traceback."""
    assert "Traceback" not in text
    assert text.count("\n") == 1, text
    return text.strip()


# ---- the first run, the second run, and what brings pip back ------------------------------------


def test_the_first_run_makes_the_environment_and_the_second_starts_no_pip(house: House) -> None:
    first = house.run("lab")
    assert (first.returncode, house.calls()) == (0, ["lab"])
    assert "ready" in first.stdout
    second = house.run("lab")
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert house.calls() == ["lab"]


def test_dev_comes_on_top_of_lab_and_lab_is_then_there_already(house: House) -> None:
    for extras in ["lab", "dev", "lab", "dev"]:
        assert house.run(extras).returncode == 0
    assert house.calls() == ["lab", "dev,lab"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_runs_pip_again_in_the_same_environment(
    house: House, name: str
) -> None:
    house.run("dev")
    keep = house.venv / "kept"
    keep.touch()
    (house.root / name).write_text("changed\n")
    assert house.run("lab").returncode == 0
    assert house.calls() == ["dev,lab", "dev,lab"]  # and what dev needs is renewed with it
    assert keep.exists()


def test_other_constraints_are_what_pip_is_given_and_what_brings_it_back(
    house: House, tmp_path: Path
) -> None:
    own, other = house.root / "constraints.txt", tmp_path / "versions.txt"
    other.write_text("torch==2.11.*\n")
    assert making.pip_command(house.venv, ("dev",), other)[-4:-2] == ["-c", str(other)]
    assert state.fingerprint("3.11", other) != state.fingerprint("3.11", own)
    none = ["--venv", str(house.venv), "--constraints", str(tmp_path / "none")]
    assert __main__.main(["lab", *none]) == 1


# ---- broken environments ------------------------------------------------------------------------


def kill_in_the_middle(house: House) -> None:
    """Start a set-up, kill it with -9 while pip writes, and let the orphaned pip end."""
    house.plan("hang")
    process = house.start("lab")
    open(house.root / "started").close()  # returns once pip has begun
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with open(house.root / ".venv.lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the orphan still writes: keep out
    open(house.root / "go", "w").close()
    house.plan("ok")


def test_a_set_up_killed_in_the_middle_of_pip_is_made_anew(house: House) -> None:
    kill_in_the_middle(house)
    (house.venv / "half").write_text("left behind")
    again = house.run("lab")
    assert again.returncode == 0, again.stderr
    assert "Starting over with .venv: an earlier set-up was interrupted." in again.stdout
    assert not (house.venv / "half").exists()
    assert not (house.root / ".venv-old").exists()


def test_killed_before_the_environment_has_a_python(house: House) -> None:
    house.venv.mkdir()
    assert house.run("lab").returncode == 0
    shutil.rmtree(house.venv / "bin")
    (house.root / ".venv-old").mkdir()  # and a removal that was interrupted too
    assert house.run("lab").returncode == 0
    assert house.calls() == ["lab", "lab"]
    assert not (house.root / ".venv-old").exists()


@pytest.mark.parametrize(
    "record", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"stage": "ready"', b'{"stage": 1}']
)
def test_a_damaged_record_is_not_trusted(house: House, record: bytes) -> None:
    house.run("lab")
    (house.venv / state.FILE).write_bytes(record)
    again = house.run("lab")
    assert again.returncode == 0
    assert "record of its set-up is damaged" in again.stdout


def test_an_environment_of_a_vanished_python_is_made_anew(house: House) -> None:
    house.run("lab")
    for name in ["python", "python3", f"python{state.own_version()}"]:
        (house.venv / "bin" / name).unlink()
        (house.venv / "bin" / name).symlink_to("/nowhere/python")
    assert "its Python does not run" in house.run("lab").stdout
    assert len(house.calls()) == 2


def test_an_environment_that_was_moved_or_copied_is_made_anew(house: House) -> None:
    house.run("lab")
    record = json.loads((house.venv / state.FILE).read_text())
    (house.venv / state.FILE).write_text(json.dumps(record | {"root": "/another/clone"}))
    assert "made in another folder, /another/clone" in house.run("lab").stdout


def test_an_environment_of_another_python_is_made_anew(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.run("lab")
    monkeypatch.setattr(state, "ROOT", house.root)
    assert state.fault(house.venv) == ""
    monkeypatch.setattr(state, "own_version", lambda: "3.99")
    assert "and this is 3.99" in state.fault(house.venv)


# ---- an environment that somebody made by hand --------------------------------------------------


@pytest.fixture
def by_hand(house: House) -> House:
    command = [sys.executable, "-m", "venv", "--without-pip", str(house.venv)]
    subprocess.run(command, check=True)
    (house.venv / "precious").touch()
    return house


def test_a_working_one_is_used_and_kept(by_hand: House) -> None:
    assert by_hand.run("lab").returncode == 0
    assert by_hand.run("lab").stdout == ""
    assert (by_hand.venv / "precious").exists()


def test_a_broken_one_is_never_deleted(by_hand: House) -> None:
    (by_hand.venv / "bin" / "python").unlink()
    refused = by_hand.run("lab")
    assert refused.returncode == 1
    assert f"rm -r {by_hand.venv}" in one_line(refused.stderr)
    assert (by_hand.venv / "precious").exists()


def test_one_interrupted_while_we_installed_into_it_is_never_deleted(by_hand: House) -> None:
    kill_in_the_middle(by_hand)
    refused = by_hand.run("lab")
    assert refused.returncode == 1
    assert "interrupted" in one_line(refused.stderr)
    assert (by_hand.venv / "precious").exists()


# ---- pip fails ----------------------------------------------------------------------------------


def test_without_network_one_line_says_so_and_names_the_log(house: House) -> None:
    house.plan("network")
    failed = house.run("lab")
    assert failed.returncode == 1
    line = one_line(failed.stderr)
    assert "check the network" in line
    assert str(house.root / ".venv.log") in line
    assert "No matching distribution" in (house.root / ".venv.log").read_text()
    house.plan("ok")
    assert house.run("lab").returncode == 0


def test_a_failure_before_anything_was_changed_leaves_the_old_set_up_usable(house: House) -> None:
    house.run("lab")
    house.plan("network")
    assert house.run("dev").returncode == 1
    assert house.run("lab").stdout == ""  # on a train: the notebooks still open


def test_a_disk_that_fills_up_is_named_and_the_half_is_not_trusted(house: House) -> None:
    house.plan("full")
    assert "The disk is full" in one_line(house.run("lab").stderr)
    house.plan("ok")
    assert "Starting over" in house.run("lab").stdout


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["lab", "--venv", str(tmp_path / "not" / "there" / ".venv")]) == 1
    assert "No such file" in one_line(capsys.readouterr().err)


# ---- two at once, and a person who gives up -----------------------------------------------------


def test_two_at_once_the_second_waits_says_so_and_does_nothing_twice(house: House) -> None:
    house.plan("hang")
    first = house.start("lab")
    open(house.root / "started").close()
    second = house.start("lab")
    assert second.stdout is not None
    assert "Another make is setting up" in second.stdout.readline()
    open(house.root / "go", "w").close()
    assert [p.communicate() and p.returncode for p in (first, second)] == [0, 0]
    assert house.calls() == ["lab"]


def test_an_interrupt_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(making, "set_up", interrupted)
    assert __main__.main(["lab", "--venv", str(tmp_path / ".venv")]) == 130
    assert "Stopped" in one_line(capsys.readouterr().err)


def test_nothing_is_made_where_something_is_missing(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(making, "ROOT", house.root)
    monkeypatch.setattr(state, "ROOT", house.root)
    monkeypatch.setenv("PATH", str(house.root))
    monkeypatch.delenv("CXX", raising=False)
    assert __main__.main(["lab", "--venv", str(house.venv)]) == 1
    said = capsys.readouterr()
    assert "No C++ compiler" in one_line(said.err)
    assert said.out == ""
    assert not house.venv.exists()
