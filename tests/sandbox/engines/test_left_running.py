"""Who keeps the processor busy although nothing is asked of it, and who does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from autograder.sandbox.engines import left_running as engine
from autograder.sandbox.engines.left_running import Watch, left_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
READY = "print('ready', flush=True)\n"
WAIT = "import sys; sys.stdin.read()\n"
SPIN = "while True: pass\n"


@contextmanager
def process(source: str) -> Iterator[int]:
    command = [sys.executable, "-c", source + READY + WAIT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as it:
        assert it.stdout is not None
        it.stdout.readline()
        yield it.pid
        os.killpg(it.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("source", "busy"),
    [
        (f"import os\nfor _ in range(3):\n  if not os.fork():\n    {SPIN}", 3),
        (f"import threading\ndef f():\n  {SPIN}threading.Thread(target=f).start()\n", 1),
    ],
    ids=["children", "a thread"],
)  # fmt: skip
def test_what_spins_is_counted(source: str, busy: int) -> None:
    with process(source) as pid:
        assert left_running(pid) == busy


@pytest.mark.parametrize(
    ("source", "alone"),
    [
        ("", True),
        ("import os\nif not os.fork():\n  os._exit(0)\n", False),
        ("import os, time\nif not os.fork():\n  time.sleep(60)\n", False),
        ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
         False),
    ],
    ids=["nobody", "a zombie", "a sleeper", "a waiting thread"],
)  # fmt: skip
def test_who_has_one_thread_and_no_child_is_alone(source: str, alone: bool) -> None:
    with process(source) as pid:
        assert engine.is_alone(pid) is alone
    assert not engine.is_alone(pid)  # it is gone


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import os, time\nif not os.fork():\n  time.sleep(60)\n",
        "import os\nif not os.fork():\n  os._exit(0)\n",  # nobody has asked how it ended
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        "import os\nif not os.fork():\n  sum(range(10**5)); os._exit(0)\n",  # on its way out
    ],
    ids=["nobody", "a sleeper", "a zombie", "a waiting thread", "one that ends"],
)
def test_what_waits_or_ends_is_left_alone(source: str) -> None:
    with process(source) as pid:
        assert left_running(pid) == 0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_BESIDE_S", 0.1)


def starved(pid: int, looks: int) -> int:
    """What the first look that finds something finds."""
    watch = Watch(pid)
    for _ in range(looks):
        time.sleep(0.02)
        watch.look()
        if found := watch.starved_by():
            return found
    return 0


def test_who_keeps_the_main_thread_from_running_is_counted() -> None:
    children = f"import os\nfor _ in range(12):\n  if not os.fork():\n    {SPIN}"
    with process(f"{children}{READY}{SPIN}") as pid:
        assert starved(pid, looks=1000)


def test_who_works_while_the_main_thread_waits_is_not() -> None:
    children = f"import os\nfor _ in range(3):\n  if not os.fork():\n    {SPIN}"
    with process(f"{children}{READY}os.wait()\n") as pid:
        assert starved(pid, looks=30) == 0


def test_a_process_that_is_gone_left_nothing() -> None:
    with process("") as pid:
        pass
    assert left_running(pid) == 0


@contextmanager
def on_one_processor() -> Iterator[None]:
    """What is started here runs on one, all of it on the same."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def kept_waiting_s(pid: int, looks: int, enough_s: float) -> float:
    watch, waited_s = Watch(pid), 0.0
    for _ in range(looks):
        time.sleep(0.02)
        waited_s += watch.look()
        if waited_s > enough_s:
            break
    return waited_s


def test_who_others_keep_from_running_is_kept_waiting() -> None:
    with on_one_processor(), process(f"{READY}{SPIN}"), process(f"{READY}{SPIN}") as pid:
        assert kept_waiting_s(pid, looks=1000, enough_s=0.2) > 0.2


def test_who_sleeps_is_not() -> None:
    with process("") as pid:
        assert kept_waiting_s(pid, looks=10, enough_s=0.2) < 0.1


T = engine.TICKS_PER_S
ALONE = engine._Look(0.0, "R", 0, 0, 0, 0, {(1, 1): 0})


@pytest.mark.parametrize(
    ("ran", "delayed", "seconds"),
    [
        (0, {(1, 1): 0}, 0.0),
        (0, {(1, 1): 4 * 10**8}, 0.4),
        (0, {(1, 1): 4 * 10**8, (1, 2): 7 * 10**8}, 0.7),
        (0, {}, 0.0),
        (T, {(1, 1): 9 * 10**8}, 0.0),
        (3 * T, {(1, 1): 9 * 10**8}, 0.0),
        (T // 4, {(1, 1): 9 * 10**8}, 0.75),
    ],
    ids=["never", "for a while", "a thread that began since", "Linux does not tell",
         "by itself: it used its processor", "by itself, on three", "in part by others"],
)  # fmt: skip
def test_what_it_does_to_itself_nobody_else_did(
    ran: int, delayed: engine.Used, seconds: float
) -> None:
    now = replace(ALONE, at=1.0, delayed=delayed, ran=ran)
    assert engine._kept_waiting_s(ALONE, now) == pytest.approx(seconds)


def test_what_an_ended_child_used_is_not_forgotten() -> None:
    child = "import os\nif not os.fork():\n  sum(range(10**7)); os._exit(0)\nos.wait()\n"
    with process("") as quiet, process(child) as pid:
        assert engine._ran(pid) > engine._ran(quiet)
