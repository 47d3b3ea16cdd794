"""Runs on the mocked device are forks of one process: they must not know of each other."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from onelayer.mock_cuda.run import MockFailed, on_mock_gpu
from onelayer.mock_cuda.zygote_client import MOST_KEPT


@pytest.fixture(scope="module")
def ask(mocked):
    """`on_mock_gpu` without a trace, each time anew; skips where there is no mocked device."""

    def asked(function, *args, **options):
        return on_mock_gpu(function, *args, trace=False, show=False, **options)

    return asked


def _who():
    return os.getpid(), os.getppid()


def _is_gone(pid):
    """Whether this process has ended, in a while at most."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def test_runs_are_forks_of_one_process_and_not_of_this_one(ask):
    (first, zygote), (second, same) = ask(_who).result, ask(_who).result
    assert first != second
    assert zygote == same != os.getpid()


def test_a_run_leaves_nothing_to_the_next(ask):
    def littering():
        import builtins
        import random

        import numpy
        import torch

        builtins.litter = torch.ones(3, device="cuda")
        torch.set_default_dtype(torch.float64)
        os.environ["LITTER"] = "1"
        os.chdir("/")
        return random.random(), numpy.random.rand()

    def looking():
        import builtins

        import torch

        clean = not hasattr(builtins, "litter") and "LITTER" not in os.environ
        return clean, os.getcwd(), torch.get_default_dtype(), torch.cuda.is_initialized()

    one, other = ask(littering).result, ask(littering).result
    assert not set(one) & set(other), "random numbers of a fresh process"
    clean, folder, dtype, initialised = ask(looking).result
    assert (clean, folder, str(dtype), initialised) == (True, os.getcwd(), "torch.float32", False)


def test_a_crash_ends_one_run_and_touches_no_other(ask):
    _, zygote = ask(_who).result
    with pytest.raises(MockFailed, match="exit code -11") as caught:
        ask(lambda: (print("last words", flush=True), os.kill(os.getpid(), signal.SIGSEGV)))
    assert caught.value.run.printed == "last words\n"
    with pytest.raises(MockFailed, match="exit code 7"):
        ask(lambda: os._exit(7))
    assert ask(_who).result[1] == zygote


def test_each_run_has_devices_memory_and_values_of_its_own(ask):
    def told():
        import torch

        _, size = torch.cuda.mem_get_info()
        number = torch.ones(2, device="cuda").sum().item()
        return torch.cuda.device_count(), torch.cuda.get_device_name(), size, number

    def asked(**options):
        return ask(told, **options).result

    assert asked(device="L4", memory="1 GiB", devices=2, values=True) == (2, "NVIDIA L4", 2**30, 2)
    count, name, size, number = asked(device="T4", memory="2 GiB")
    assert (count, name, size) == (1, "Tesla T4", 2**31)
    assert number != number, "without values nobody computed it"


def test_another_environment_has_another_zygote_and_the_oldest_goes(ask, monkeypatch):
    def said():
        return os.environ.get("ONELAYER_SAID"), os.getppid()

    zygotes = []
    for n in range(MOST_KEPT + 1):
        monkeypatch.setenv("ONELAYER_SAID", str(n))
        word, zygote = ask(said).result
        assert word == str(n)
        zygotes.append(zygote)
    assert len(set(zygotes)) == MOST_KEPT + 1
    assert _is_gone(zygotes[0])


def test_two_at_once(ask, tmp_path):
    """Each waits for the other: neither would come back if one had to end first."""

    def meet(mine, other):
        (tmp_path / mine).touch()
        end = time.monotonic() + 60
        while not (tmp_path / other).exists() and time.monotonic() < end:
            time.sleep(0.01)
        return mine, (tmp_path / other).exists()

    found = []
    ways = [("a", "b"), ("b", "a")]
    threads = [threading.Thread(target=lambda w=way: found.append(ask(meet, *w))) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run.result for run in found) == [("a", True), ("b", True)]


def test_a_run_that_is_late_is_ended_with_all_that_it_started(ask, tmp_path):
    def dawdle():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (tmp_path / "pids").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)

    ask(_who)
    with pytest.raises(MockFailed, match="no answer after 3 s"):
        ask(dawdle, timeout_s=3)
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert _is_gone(pid)


def test_a_zygote_that_was_killed_is_replaced(ask):
    _, zygote = ask(_who).result
    with pytest.raises(MockFailed, match="nothing could fork it"):
        ask(lambda: (os.kill(os.getppid(), signal.SIGKILL), time.sleep(600)))
    assert ask(_who).result[1] != zygote


def test_a_zygote_that_cannot_start_says_why(ask, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('planted')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MockFailed, match="ImportError: planted"):
        ask(_who)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_who_asked(ask, tmp_path, end):
    """Killed, its zygote and its run go with it; interrupted, its run does, before it says so."""
    program = f"""
        import os, signal, time
        from pathlib import Path
        from onelayer.mock_cuda.run import on_mock_gpu

        def dawdle(note):
            Path(note).with_suffix(".new").write_text(f"{{os.getpid()}} {{os.getppid()}}")
            Path(note).with_suffix(".new").rename(note)
            time.sleep(600)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            on_mock_gpu(dawdle, {str(tmp_path / "pids")!r}, trace=False)
        except KeyboardInterrupt:
            print("interrupted")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    paths = os.pathsep.join(filter(None, sys.path))
    asking = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True
    )
    note = tmp_path / "pids"
    while not note.exists() and asking.poll() is None:
        time.sleep(0.01)
    asking.send_signal(end)
    said, _ = asking.communicate()
    assert said == ("interrupted\n" if end == signal.SIGINT else "")
    for pid in map(int, note.read_text().split()):
        assert _is_gone(pid)
