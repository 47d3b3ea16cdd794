"""The wheels for a GPU node without a network: what is gathered, and what the script refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from setup_env import UserError, wheelhouse

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheelhouse for this Python, with a file for a wheel: nothing is fetched."""
    monkeypatch.setattr(wheelhouse, "_run", pretend)
    wheelhouse.gather(HERE, tmp_path / "house")
    return tmp_path / "house"


def pretend(command: list[str]) -> None:
    where = "--dest" if "download" in command else "--wheel-dir"
    Path(command[command.index(where) + 1], f"{command[3]}-1.whl").write_bytes(b"x" * 10)


def install(script: Path, *arguments: str, path: str = os.environ["PATH"]) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", str(script / "install.sh"), *arguments],
        capture_output=True,
        text=True,
        env={"PATH": path},
    )
    return done.returncode, done.stderr.strip()


def test_all_but_what_the_node_has_and_the_gradebook() -> None:
    names = {wheelhouse._name(wanted) for wanted in wheelhouse.requirements()}
    assert {"numpy", "safetensors", "ipython", "filelock", "click", "rich"} <= names
    assert not names & {"torch", "triton", "nbgrader"}
    pinned = {wheelhouse._name(pin) for pin in wheelhouse.pins()}
    assert names <= pinned
    assert not pinned & {"torch", "triton"}


def test_whom_the_benchmark_meets_comes_along_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(wheelhouse, "_run", lambda command: (ran.append(command), pretend(command)))
    for wished in ([], ["--peers"]):
        assert wheelhouse.main(["--python", HERE, "--out", str(tmp_path / "house"), *wished]) == 0
    plain, with_peers = ran[:2], ran[2:]
    assert not any("liger" in word for command in plain for word in command)
    *_, last = with_peers
    assert last[-2:] == list(wheelhouse.PEERS)
    assert "--no-deps" in last  # or pip would fetch a torch
    assert len(with_peers) == 3


def test_a_second_gathering_replaces_the_first_whole(gathered: Path) -> None:
    (gathered / "old-1.whl").touch()
    wheelhouse.gather(HERE, gathered)
    assert {path.name for path in gathered.iterdir()} == {
        "download-1.whl",
        "wheel-1.whl",
        "install.sh",
    }


def test_a_failed_gathering_leaves_the_first_alone(
    gathered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(gathered.iterdir())
    monkeypatch.setattr(wheelhouse, "LIMIT_BYTES", 15)
    with pytest.raises(UserError, match="over 0: the largest is"):
        wheelhouse.gather(HERE, gathered)
    monkeypatch.setattr(wheelhouse, "_run", lambda command: None)
    with pytest.raises(UserError, match="no wheel"):
        wheelhouse.gather(HERE, gathered)
    assert sorted(gathered.iterdir()) == before


def test_what_pip_says_becomes_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('ERROR: no such package')"]
    with pytest.raises(UserError, match="could not gather the wheels: ERROR: no such package"):
        wheelhouse._run(command)


def test_the_script_asks_where_to(gathered: Path) -> None:
    assert install(gathered) == (2, "Say where to: sh install.sh FOLDER [PYTHON]")


def test_the_script_refuses_another_python(gathered: Path, tmp_path: Path) -> None:
    code, said = install(gathered, str(tmp_path / "site"), "/bin/false")
    assert code == 1
    assert said.startswith(f"Python {HERE} is needed; /bin/false is not it.")


def test_the_script_refuses_a_python_without_torch(gathered: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # no site-packages
    bare.chmod(0o755)
    code, said = install(gathered, str(tmp_path / "site"), str(bare))
    assert code == 1
    assert said.endswith("has no torch of its own. Activate the environment that has it.")


def test_what_is_built_is_a_copy_without_leftovers(tmp_path: Path) -> None:
    wheelhouse.copy_source(tmp_path)
    assert (tmp_path / "onelayer" / "model" / "weights" / "grammar_gpt.safetensors").is_file()
    assert (tmp_path / "autograder" / "classroom" / "run" / "worker.py").is_file()
    assert not list(tmp_path.rglob("__pycache__"))
