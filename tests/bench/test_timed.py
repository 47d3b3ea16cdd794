"""A command and its processor time, up to a mark and to its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import timed

WAITING = """
import pathlib, time
for k in range(3):
    pathlib.Path(f"{k}.done").touch()
    while not pathlib.Path("looked").exists():
        time.sleep(0.001)
"""


def test_what_comes_after_the_mark_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is what the command has done, and it goes on once that was looked at."""

    def done() -> int:
        return len([*tmp_path.glob("*.done")])

    def looked(account: Path | None) -> float:
        used = done()
        (tmp_path / "looked").touch()
        return used

    monkeypatch.setattr(timed, "_used_s", looked)
    made = timed.run([sys.executable, "-c", WAITING], cwd=tmp_path, mark=timed.Mark(done, 1))
    assert (made.mark_cpu_s, made.cpu_s) == (1, 3)


def test_a_mark_that_is_never_reached_ends_with_the_command(tmp_path: Path) -> None:
    made = timed.run([sys.executable, "-c", ""], cwd=tmp_path, mark=timed.Mark(lambda: 0, 1))
    assert made.mark_cpu_s == made.cpu_s
