"""A disk that fills up while a class is graded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autograder.attacks.sample_class import NAME, PUPILS, ROOT
from tests.classroom.commands.sample_grading import (
    LIMIT_S,
    outcome,
    records,
    run,
)

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


ON_A_FULL_DISK = """
import errno, os, sys
from autograder import atomic_write
from autograder.cli import main
write, room = atomic_write.write, [1]
def until_full(path, data, **options):
    if "journal" in path.parts:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write(path, data, **options)
atomic_write.write = until_full
main()
"""


@pytest.mark.thorough  # a disk that is truly full comes below
def test_a_disk_that_fills_up_loses_nothing_and_is_said_in_one_line(tmp_path):
    for name in ("ada-all-right", "cleo-nothing", "ben-half"):
        (tmp_path / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(tmp_path / "hand_in" / name)
    where = [str(tmp_path / "hand_in"), "--out", str(tmp_path / "out"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, "grade", *where],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "No space left on device. Make room; what is graded so far is kept." in line
    assert len(records(tmp_path / "out")) == 1
    code, said = run(*where[:1], tmp_path / "out", scratch=tmp_path / "scratch")
    assert code == 0, said
    assert "1 already graded, 2 to grade" in said
    assert len(records(tmp_path / "out")) == 3


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, and how to give it another size."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options):
        subprocess.run(["mount", *options, disk], check=True, capture_output=True, text=True)

    try:
        mount("-t", "tmpfs", "-o", "size=100k", "tmpfs")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or error
        pytest.skip(f"a disk that is truly full needs leave to mount one: {reason}")
    yield disk, lambda size: mount("-o", f"remount,size={size}")
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_disk_that_is_truly_full_loses_nothing(tmp_path, small_disk):
    """First there is no room for the journal, then none for the gradebook, then there is."""
    disk, resize = small_disk
    names = ("ada-all-right", "cleo-nothing", "dan-warns")
    for name in names:
        (tmp_path / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(tmp_path / "hand_in" / name)
    kept, found = {}, []
    for size in ("100k", "500k", "8m"):
        resize(size)
        code, said = run(tmp_path / "hand_in", disk, scratch=tmp_path / "scratch")
        print(said)
        now = records(disk)
        assert kept.items() <= now.items()
        assert list(disk.rglob("*.damaged")) == []
        kept = now
        found.append((code, len(kept)))
        if code:
            last = " ".join(said.split("Error: ")[-1].split())
            assert "No space left on device. Make room; what is graded so far is kept." in last or (
                "because the disk is full. The verdicts are safe: the same command goes on." in last
            )
            assert "Traceback" not in said
    (first, few), (second, all_of_them), (third, still) = found
    assert (first, second, third) == (1, 1, 0)
    assert few < all_of_them == still == len(names)
    for name in names:
        verdicts = {v["question"]: outcome(v) for v in kept[name]["verdicts"]}
        assert verdicts == PUPILS[name].expected
        assert (
            (disk / "feedback" / name / NAME / f"{NAME}.html")
            .read_text()
            .rstrip()
            .endswith("</html>")
        )
