"""What the set-up says: about a machine that lacks something, and while pip works."""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from setup_env import UserError, __main__, follow_pip, machine, state

REPO = Path(__file__).resolve().parents[2]


# ---- what the machine lacks ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 10, 13), (3, 14, 0), (4, 0, 0)])
def test_an_unsupported_python_is_told_which_one_is_needed(version: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=rf"3\.11 to 3\.13 .* {version[0]}\.{version[1]}"):
        __main__.require_platform("posix", version)


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 13, 9)])
def test_a_supported_python_passes(version: tuple[int, ...]) -> None:
    __main__.require_platform("posix", version)


def test_windows_is_sent_to_wsl() -> None:
    with pytest.raises(UserError, match="wsl --install"):
        __main__.require_platform("nt", (3, 12, 0))


def syntax_of(source: str, *, minor: int) -> ast.Module:
    return ast.parse(source, feature_version=(3, minor))


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_an_old_python_can_read_what_tells_it_that_it_is_old(name: str) -> None:
    source = (REPO / "setup_env" / name).read_text()
    tree = syntax_of(source, minor=6)
    imported = {a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    assert imported <= {"argparse", "os", "sys"}
    with pytest.raises(SyntaxError):
        syntax_of(source + "\nif (late := 1): pass\n", minor=6)


@pytest.mark.parametrize("absent", ["venv", "ensurepip"])
def test_a_python_without_venv_or_ensurepip_is_named(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.require_venv_module()
    real: Callable[[str], object] = machine.importlib.util.find_spec
    monkeypatch.setattr(
        machine.importlib.util, "find_spec", lambda name: None if name == absent else real(name)
    )
    monkeypatch.setattr(machine.shutil, "which", lambda name: name == "apt-get")
    with pytest.raises(UserError, match=rf"apt-get install python{state.own_version()}-venv"):
        machine.require_venv_module()


def put(folder: Path, name: str, *, exits: int) -> None:
    """Put a program into `folder` that does nothing but end with a code."""
    (folder / name).write_text(f"#!/bin/sh\nexit {exits}\n")
    (folder / name).chmod(0o755)


def test_a_machine_without_a_compiler_is_told_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    put(tmp_path, "g++", exits=127)  # a shim that is there and leads nowhere
    put(tmp_path, "apt-get", exits=0)
    with pytest.raises(UserError, match=r"No C\+\+ compiler .* apt-get install g\+\+"):
        machine.require_compiler()
    put(tmp_path, "clang++", exits=0)
    machine.require_compiler()


def test_the_compiler_that_CXX_names_counts(  # noqa: N802
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "my-compiler", exits=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "my-compiler -std=c++20")
    machine.require_compiler()


@pytest.mark.parametrize(
    ("short_of", "remedy"), [("environment", "make VENV="), ("temporary", "TMPDIR=")]
)
def test_a_small_disk_is_noticed_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_of: str, remedy: str
) -> None:
    roomy, small = tmp_path / "roomy", tmp_path / "small"
    homes = (small, roomy) if short_of == "environment" else (roomy, small)
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(homes[1]))

    def usage(folder: Path) -> Any:
        free = 10**8 if small in [folder, *folder.parents] else 10**11
        return shutil._ntuple_diskusage(10**11, 0, free)  # type: ignore[attr-defined]

    monkeypatch.setattr(machine.shutil, "disk_usage", usage)
    with pytest.raises(UserError, match=rf"0\.1 GB free .*{remedy}"):
        machine.require_space(homes[0] / ".venv")


# ---- what a person sees meanwhile ---------------------------------------------------------------


def test_a_terminal_sees_one_line_that_moves(capsys: pytest.CaptureFixture[str]) -> None:
    progress = follow_pip.Progress(live=True)
    progress.hear("Collecting torch==2.13.0 (from onelayer)\n")
    progress.show()
    progress.end()
    out = capsys.readouterr().out
    assert "[  1 packages" in out
    assert "collecting torch" in out
    assert "\n" not in out


def test_a_log_sees_the_large_downloads_and_every_twentieth_package(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = follow_pip.Progress(live=False)
    progress.hear("  Downloading torch-2.13.0-cp311.whl (191.2 MB)\n")
    progress.hear("  Downloading small-1.0.whl (12 kB)\n")
    for n in range(20):
        progress.hear(f"Collecting p{n}>=1\n")
    for attempt in range(5):
        progress.hear(f"WARNING: Retrying (Retry(total={attempt}, ...)) after connection broken\n")
    progress.hear("Installing collected packages: a, b, c\n")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "torch-2.13.0" in lines[0]
    assert "collecting p19" in lines[1]
    assert "network does not answer" in lines[2]
    assert "installing 3 packages" in lines[3]
    assert progress.installing


@pytest.mark.parametrize("line", ["", "\n", "Collecting \n", "Downloading\n", "\x00\xff garbage\n"])
def test_odd_lines_of_pip_do_not_stop_it(line: str) -> None:
    progress = follow_pip.Progress(live=False)
    progress.hear(line)
    assert not progress.installing


def test_pips_own_reason_is_passed_on_when_it_is_none_of_ours() -> None:
    text = "Collecting a\nERROR: Cannot install a and b because these conflict\nERROR: more\n"
    assert follow_pip.reason(text) == "pip stopped: Cannot install a and b because these conflict"
    assert "without giving a reason" in follow_pip.reason("")
