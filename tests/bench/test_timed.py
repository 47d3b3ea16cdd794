"""A command and its processor time, up to a mark and to its end."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import timed

WORKING = """
import pathlib, time
for k in range(3):
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    pathlib.Path(f"{k}.done").touch()
"""


def test_what_comes_after_the_mark_is_not_counted(tmp_path: Path) -> None:
    mark = timed.Mark(lambda: len([*tmp_path.glob("*.done")]), 1)
    made = timed.run([sys.executable, "-c", WORKING], cwd=tmp_path, mark=mark)
    assert len([*tmp_path.glob("*.done")]) == 3
    if made.cpu_s:  # where the machine lends a cgroup to count in
        assert 0.2 <= made.mark_cpu_s < made.cpu_s


def test_a_mark_that_is_never_reached_ends_with_the_command(tmp_path: Path) -> None:
    made = timed.run([sys.executable, "-c", ""], cwd=tmp_path, mark=timed.Mark(lambda: 0, 1))
    assert made.mark_cpu_s == made.cpu_s
