"""What is handed in is kept on the disk, and few notebooks wait for that in memory."""

import threading
import time

import pytest

from autograder import atomic_write
from autograder.attacks.sample_class import ROOT
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.intake import taking
from autograder.classroom.intake.taking import KEEPERS
from bench.hand_ins import write_class

N = 5 * KEEPERS


def test_a_slow_disk_does_not_fill_the_memory(tmp_path, monkeypatch):
    write_class(tmp_path / "in", N)
    lock, open_now, most = threading.Lock(), 0, 0
    write, sort = atomic_write.write, taking._sort

    def slow(path, *args, **options):
        nonlocal open_now
        write(path, *args, **options)
        if path.suffix == ".ipynb":
            time.sleep(0.1)
            with lock:
                open_now -= 1

    def counted(*given):
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        return sort(*given)

    monkeypatch.setattr(atomic_write, "write", slow)
    monkeypatch.setattr(taking, "_sort", counted)
    GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT))
    assert len(list((tmp_path / "out" / "received").iterdir())) == N
    assert KEEPERS < most <= 2 * KEEPERS + 2 < N


def test_a_full_disk_stops_the_class_and_hangs_nobody(tmp_path, monkeypatch):
    write_class(tmp_path / "in", N)

    write = atomic_write.write

    def full(path, *args, **options):
        if path.suffix == ".ipynb":
            raise OSError(28, "No space left on device")
        write(path, *args, **options)

    monkeypatch.setattr(atomic_write, "write", full)
    with pytest.raises(OSError, match="No space left"):
        GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT))
