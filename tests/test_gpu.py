"""A GPU and its rules, with the CPU playing the GPU: what is moved, what is capped, and what ends
with the submission that did it."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch

from autograder.classroom import grading, health, nvidia_smi, pool, work
from autograder.classroom.grading import Class, Order
from autograder.classroom.health import DeviceLost
from autograder.classroom.job import Job
from autograder.classroom.journal import Record
from autograder.classroom.mistake import Mistake
from autograder.classroom.worker import NoDevice, Ready, Setting, die_with_parent
from autograder.judge import (
    DEVICES,
    GraderFault,
    Lab,
    LocalStudent,
    NoAnswer,
    State,
    Verdict,
    answer,
    ask,
    expect_close,
    expect_no_slower,
    floor_s,
    pack,
    storage_of,
    unpack,
)
from autograder.sandbox import BUBBLEWRAP, DEFAULT_SHARE, Cell, Gpu, Jail, gpu, warden, zygote
from tests.sample_class import ROOT, write

HINTS = ("a", "b", "c")
MIB = 2**20
SIMULATED = Gpu("simulated", "simulated", 1024 * MIB, kind="simulated")

# What a submission may do to a GPU. The simulated one has a fault when its cell plants it.
CELL = Cell(
    "answers",
    """
import os
import torch
from autograder.judge import DEVICES

there = DEVICES["simulated"]

def double(x):
    return 2 * x

def plain(x):
    return x[:, 1:]

def illegal(x):
    there.fault = "an illegal memory access was encountered"
    return 2 * x

def hang(x):
    while True:
        pass

def end(x):
    os._exit(3)

def cap():
    return there.cap_bytes

def where():
    return torch.empty(1).device.type
""",
)


@pytest.fixture(scope="module")
def jail():
    with Jail(gpu=SIMULATED) as one:
        yield one


def asking(jail, **budgets):
    student = jail.open([CELL])
    student.begin(may_write=False, **budgets)
    return student


def test_what_arrives_is_moved_and_what_comes_back_is_bytes_of_ours():
    """Strides, offsets, aliases, requires_grad and writes are as on the CPU; the storages are not
    those that travelled."""
    device = DEVICES["simulated"]
    arrived = []

    def seen(x, y):
        arrived.append(x)
        y[0, 0] = 7
        return x.T, x[1:], x.sum()

    base = torch.arange(12.0).view(3, 4)
    reply = answer({"seen": seen}, "seen", pack(((base[:, 1:], base), {})), device)
    storages = [storage_of(data) for data in reply.value.storages]
    turned, rows, total = unpack(reply.value.tree, storages, [base.untyped_storage()])
    assert turned.data_ptr() == base[:, 1:].data_ptr()
    assert turned.stride() == (1, 4)
    assert rows.storage_offset() == 5
    assert total.item() == base[:, 1:].sum().item()  # the write was to the other column
    assert list(reply.written) == [0]
    assert arrived[0].data_ptr() != base[:, 1:].data_ptr()


def test_calls_meet_their_tensors_on_the_device_unless_a_question_keeps_them(jail):
    with asking(jail) as student:
        x = torch.arange(6.0).view(2, 3)
        assert torch.equal(student.call("double", x), 2 * x)
        view = student.call("plain", x)
        assert view.data_ptr() == x[:, 1:].data_ptr()
        assert student.call("cap") == 128 * MIB  # an eighth, where a question declares no share
        assert student.device == "simulated"
        student.begin(may_write=False, device_share=0.5)
        assert student.call("cap") == 512 * MIB


def test_a_verdict_says_which_device_answered(jail):
    lab = Lab("09_devices", "Devices")
    for name, host in (("there", ""), ("here", "It is about the CPU.")):

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS, host=host)
        def check(student, draw):
            """Twice as much."""
            x = draw.tensor(3)
            expect_close(student.call("double", x), 2 * x)

    with asking(jail) as student:
        told = {question.name: ask(question, student, seed=1) for question in lab}
    assert {verdict.state for verdict in told.values()} == {State.PASS}
    assert (told["there"].device, told["here"].device) == ("simulated", "cpu")


@pytest.mark.parametrize(
    ("function", "error"),
    [("illegal", "illegal memory access"), ("end", "status 3"), ("hang", "no answer within")],
)
def test_a_fault_ends_its_process_and_the_next_question_meets_another(jail, function, error):
    """An illegal address, a crash, a hang; the device itself is suspected then, and only then."""
    x = torch.ones(3)
    with asking(jail, budget_s=2.0 if function == "hang" else 30.0) as student:
        student.call("double", x)
        before = student.pid
        assert not student.suspects_device
        with pytest.raises(NoAnswer, match=error):
            student.call(function, x)
        assert student.suspects_device
        student.begin(may_write=False, budget_s=60.0)
        assert torch.equal(student.call("double", x), 2 * x)
        assert student.pid != before
    assert student.pid is None


def test_memory_over_the_cap_is_seen_from_outside_and_ends_the_process(jail, monkeypatch):
    """Whatever the process inside says: the driver counts."""
    share = SIMULATED.cap_bytes(0) + gpu.CONTEXT_BYTES
    used = iter([share, share + 1])
    greedy = replace(SIMULATED, used_bytes=lambda pids: next(used, 0) if pids else 0)
    monkeypatch.setattr(jail._warden, "gpu", greedy)
    with asking(jail, budget_s=60.0) as student:
        with pytest.raises(NoAnswer, match="more than 128 MiB of the GPU"):
            student.call("hang", torch.ones(1))
        assert student.suspects_device


def test_a_zygote_that_touched_the_gpu_forks_no_more(monkeypatch):
    touched = "import torch; torch.cuda.is_initialized = lambda: True; "
    monkeypatch.setattr(warden, "PROGRAM", touched + warden.PROGRAM)
    with (
        Jail(gpu=SIMULATED) as jail,
        pytest.raises(GraderFault, match="zygote has touched the GPU"),
    ):
        jail.open([CELL])


def test_touching_is_seen_behind_torchs_back(tmp_path, monkeypatch):
    """NVML's nodes are nobody's harm; that of unified memory is held by who uses CUDA."""
    for number, target in enumerate(("/dev/null", "/dev/nvidiactl", "/dev/nvidia0")):
        (tmp_path / str(number)).symlink_to(target)
    assert not gpu.touched(tmp_path)
    (tmp_path / "9").symlink_to("/dev/nvidia-uvm")
    assert gpu.touched(tmp_path)
    zygote.expect_untouched_gpu()
    monkeypatch.setattr(gpu, "touched", lambda: True)
    with pytest.raises(OSError, match="zygote has touched the GPU"):
        zygote.expect_untouched_gpu()
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(OSError, match="asked CUDA for its GPUs"):
        zygote.expect_working_fork()


def test_the_probe_runs_in_the_jail_and_tells_a_sick_device(jail, monkeypatch):
    health.expect_healthy(jail, "now")
    monkeypatch.setattr(health, "PROBE", health.PROBE.replace("x.sum()", "x[1:].sum()"))
    with pytest.raises(DeviceLost, match=r"^simulated \(GPU simulated\) does not work now: it ans"):
        health.expect_healthy(jail, "now")
    monkeypatch.setattr(health, "PROBE", "def device_health(x): raise RuntimeError('CUDA error')")
    with pytest.raises(DeviceLost, match=r"RuntimeError: CUDA error$"):
        health.expect_healthy(jail, "now")


def test_memory_that_is_not_given_back_is_nobodys_of_ours(monkeypatch):
    monkeypatch.setattr(health, "RETURN_S", 0.0)
    left = count(3 * gpu.CONTEXT_BYTES, -gpu.CONTEXT_BYTES)
    returned = replace(SIMULATED, used_bytes=lambda pids: next(left))
    health.expect_returned(SimpleNamespace(gpu=returned))  # by and by
    kept = replace(SIMULATED, used_bytes=lambda pids: 5 * gpu.CONTEXT_BYTES)
    with pytest.raises(DeviceLost, match="5,120 MiB of its memory are not given back"):
        health.expect_returned(SimpleNamespace(gpu=kept))
    health.expect_returned(SimpleNamespace(gpu=None))


def job(name, **changes):
    cells = (("answers", CELL.source),)
    seeds = {"illegal": 1, "double": 1}
    return Job(name, "09_devices", "key", "sha", cells, 0, seeds, frozenset(), **changes)


def two_questions():
    lab = Lab("09_devices", "Devices")
    for name in ("illegal", "double"):

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS)
        def check(student, draw, name=name):
            """Twice as much."""
            x = draw.tensor(3)
            expect_close(student.call(name, x), 2 * x)

    return lab


def test_a_fault_costs_its_question_and_is_followed_by_a_probe(jail, monkeypatch):
    probed = []
    monkeypatch.setattr(work, "expect_healthy", lambda jail, after: probed.append(after))
    record = work.grade(job("ada"), two_questions(), jail)
    assert [verdict.state for verdict in record.verdicts] == [State.FAIL, State.PASS]
    assert "illegal memory access" in record.verdicts[0].got
    assert probed == ["after the submission of ada"]


def test_nothing_is_recorded_of_a_submission_whose_device_was_lost(jail, monkeypatch):
    monkeypatch.setattr(health, "PROBE", "def device_health(x): raise RuntimeError('gone')")
    with pytest.raises(DeviceLost, match=r"after the submission of ada: .*gone"):
        work.grade(job("ada"), two_questions(), jail)


def test_one_question_can_be_asked_alone(jail):
    record = work.grade(job("ada", only="double"), two_questions(), jail)
    assert [verdict.question for verdict in record.verdicts] == ["double"]


def serve_until_bob(connection, setting):
    """A worker whose GPU is lost with bob's submission, if it is GPU 0."""
    die_with_parent(setting.parent)
    connection.send(Ready())
    while (given := connection.recv()) is not None:
        if given.student == "bob" and setting.device == "0":
            connection.send(NoDevice("GPU 0 does not work after the submission of bob: gone"))
            return
        verdict = Verdict("double", State.PASS, 1.0, 1.0, 7, device=setting.device)
        record = Record(given.student, given.lab, given.key, given.sha256, (verdict,))
        connection.send(record)


def setting(tmp_path):
    return Setting(BUBBLEWRAP, tmp_path / "log", tmp_path, os.getpid())


def test_grading_goes_on_without_a_lost_device_and_stops_in_one_sentence_without_any(tmp_path):
    jobs = [job(name) for name in ("ada", "bob", "cleo")]
    given = {"setting": setting(tmp_path), "target": serve_until_bob}
    done = pool.graded(jobs, **given, workers=2, devices=("0", "1"))
    assert {one.student for one, _ in done} == {"ada", "bob", "cleo"}
    kept = []
    with pytest.raises(Mistake, match=r"of bob: gone\. What is graded is kept: put the GPU right"):
        kept.extend(pool.graded(jobs, **given, workers=1, devices=("0",)))
    assert [one.student for one, _ in kept] == ["ada"]


def smi(**told):
    """An nvidia-smi that says what it is told to."""

    def query(*words):
        key = next(name for name in ("compute", "used", "driver") if name in words[-1])
        return told.get(key, [])

    return query


def test_what_the_driver_says():
    told = [["NVIDIA H200", "570.86.15", "143771"]]
    facts = nvidia_smi.facts("0", smi(driver=told))
    assert (facts.title, facts.driver) == ("NVIDIA H200", "570.86.15")
    assert facts.memory_bytes == 143771 * MIB
    assert nvidia_smi.facts("0", smi()) is None
    assert nvidia_smi.facts("0", smi(driver=[["No devices were found", "", ""]])) is None


@pytest.mark.parametrize(
    ("alone", "compute", "used"),
    [(False, [["7", "300"], ["9", "50"]], 300 * MIB), (True, [], 40 * MIB), (False, [], None)],
)
def test_a_watch_counts_what_the_driver_tells(alone, compute, used):
    """By process; in a container all that is lent more than at first, if nobody else is there."""
    totals = count(100, 40)
    answers = {"compute": lambda: compute, "used": lambda: [["0", str(next(totals))]]}

    def query(*words):
        return answers["compute" if "compute" in words[-1] else "used"]()

    assert nvidia_smi.Watch("0", alone=alone, ask=query)([7, 8]) == used


def test_a_jail_is_lent_the_nodes_of_a_gpu_and_told_its_name(tmp_path, monkeypatch):
    real = Gpu("1", "NVIDIA H200", 2**37)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"):
        (tmp_path / name).touch()
    names = [os.path.basename(node) for node in real.nodes(tmp_path)]
    assert names == ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libcuda.so.1").touch()
    environ = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}/lib"}
    assert real.environment(environ)["LD_LIBRARY_PATH"] == f"/nowhere:{tmp_path}/lib"
    assert real.folders(environ) == [f"{tmp_path}/lib", "/sys"]
    monkeypatch.setattr(
        gpu.shutil, "which", lambda name: f"{tmp_path}/nvcc" if "/" in name else None
    )
    assert f":{tmp_path}:" in real.environment({})["PATH"]
    assert (real.builds, SIMULATED.builds) == (True, False)
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)
    assert not real.builds
    assert "PATH" not in real.environment({})
    assert real.environment({})["CUDA_VISIBLE_DEVICES"] == "1"
    assert "LD_LIBRARY_PATH" not in real.environment({})
    assert SIMULATED.environment(environ) == {}
    assert SIMULATED.nodes(tmp_path) == SIMULATED.folders(environ) == []


def test_the_huge_address_space_that_cuda_reserves_is_no_memory(jail):
    """A terabyte that nobody may touch, as its unified addresses take: no limit counts it. What may
    be touched is counted, with room for what it asks for and does not use."""
    source = """
import mmap

def reserve(n):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    return len(mmap.mmap(-1, n, flags=flags, prot=0))

def ask(n):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
    return len(mmap.mmap(-1, n, flags=flags))
"""
    with jail.open([Cell("a", source)]) as student:
        student.begin(may_write=False)
        assert student.call("reserve", 2**40) == 2**40
        assert student.call("ask", gpu.RESERVED_BYTES) == gpu.RESERVED_BYTES
        with pytest.raises(NoAnswer, match="Cannot allocate memory"):
            student.call("ask", 2 * gpu.RESERVED_BYTES)


class Clock:
    """Seconds as told, one stretch for each call that is timed."""

    def __init__(self, *stretches):
        self.stretches, self.now, self.ticks = stretches, 0.0, 0

    def __call__(self):
        if self.ticks % 2:
            self.now += self.stretches[self.ticks // 2 % len(self.stretches)]
        self.ticks += 1
        return self.now


def timed(clock, floor=0.0):
    lab = Lab("09_devices", "Devices")

    @lab.question("loss", points=1, minutes=1, difficulty=1, hints=HINTS, alone=True)
    def check(student, draw):
        """The loss."""

        def inputs():
            t = draw.integers(4, low=0, high=5)
            return draw.tensor(4, 8), draw.tensor(6, 8), draw.tensor(6), t

        peer = "onelayer.kernels.eager:eager_head_loss"
        expect_no_slower(student, "loss", peer, inputs, at_most=1.5, floor_s=floor, clock=clock)

    return next(iter(lab))


def loss(x, w, b, t):
    return torch.nn.functional.cross_entropy(x @ w.T + b, t)


@pytest.mark.parametrize(
    ("clock", "floor", "state"),
    [
        (Clock(1.2, 1.0), 0.5, State.PASS),
        (Clock(1.6, 1.0), 0.5, State.FAIL),
        (Clock(0.4, 1.0), 0.5, State.FLAGGED),
    ],
)
def test_time_is_a_ratio_by_our_clock_and_too_fast_is_flagged(clock, floor, state):
    verdict = ask(timed(clock, floor), LocalStudent({"loss": loss}), seed=1)
    assert verdict.state is state, str(verdict)
    assert verdict.points == (1.0 if state is State.PASS else 0.0)
    if state is State.FAIL:
        assert verdict.got == "1.60 times"
    if state is State.FLAGGED:
        assert "needs at least 5e+05" in verdict.sentence


def test_a_wrong_value_is_wrong_however_fast():
    verdict = ask(timed(Clock(1.0)), LocalStudent({"loss": lambda *_: torch.zeros(())}), seed=1)
    assert verdict.state is State.FAIL


def test_the_floor_is_that_of_the_fastest_of_its_family():
    assert floor_s("NVIDIA H200", moved_bytes=4.8e12) == 1.0
    assert floor_s("NVIDIA A100-SXM4-80GB", moved_bytes=0, flops=0.312e15) == 1.0
    assert floor_s("Tesla T4", moved_bytes=0.32e12) == 1.0
    assert floor_s("GPU 9000", moved_bytes=20e12) == 1.0
    assert floor_s("NVIDIA L40S", moved_bytes=0.864e12) == 1.0
    assert floor_s("NVIDIA L4", moved_bytes=0.3e12) == 1.0


def test_a_peer_runs_beside_a_student_in_a_process_of_its_own(jail):
    with (
        asking(jail) as student,
        student.beside("import os\ndef who(): return os.getpid()") as peer,
    ):
        assert peer.device == "simulated"
        assert peer.call("who") == 1
        assert peer.pid != student.pid


def test_a_class_is_graded_on_cuda_only_where_there_is_a_gpu(tmp_path, monkeypatch):
    """Each submission takes a share then, and a verdict from the CPU does not stand for it."""
    write(tmp_path / "in")
    monkeypatch.setattr(grading, "probe", lambda: BUBBLEWRAP)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    keys = {}
    for device, share in (("", 0.0), ("cpu", 0.0), ("cuda", DEFAULT_SHARE)):
        made = Class(Order(tmp_path / "in", tmp_path / "out", ROOT, device=device))
        jobs = made._look_up(BUBBLEWRAP)
        assert {job.device_share for job in jobs} == {share}
        keys[device] = {job.key for job in jobs}
    assert keys[""] == keys["cpu"]
    assert not keys["cuda"] & keys["cpu"]
    with pytest.raises(Mistake, match="no NVIDIA GPU here"):
        made.grade(jobs, done=print)
