"""A GPU in the jail, with the CPU playing the GPU: what is moved, capped and lent, and what ends
with the submission that did it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch

from autograder.judge import (
    DEVICES,
    GraderFault,
    Lab,
    NoAnswer,
    State,
    answer,
    ask,
    expect_close,
    pack,
    storage_of,
    unpack,
)
from autograder.sandbox import Cell, Gpu, Jail
from autograder.sandbox.engines import gpu
from autograder.sandbox.host import zygote_startup
from autograder.sandbox.inside import zygote
from tests.sandbox.simulated_gpu import CELL, HINTS, MIB, SIMULATED, asking


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


def test_calls_meet_their_tensors_on_the_device_unless_a_question_keeps_them(gpu_jail):
    with asking(gpu_jail) as student:
        x = torch.arange(6.0).view(2, 3)
        assert torch.equal(student.call("double", x), 2 * x)
        view = student.call("plain", x)
        assert view.data_ptr() == x[:, 1:].data_ptr()
        assert student.call("cap") == 128 * MIB  # an eighth, where a question declares no share
        assert student.device == "simulated"
        student.begin(may_write=False, device_share=0.5)
        assert student.call("cap") == 512 * MIB


def test_a_verdict_says_which_device_answered(gpu_jail):
    lab = Lab("09_devices", "Devices")
    for name, host in (("there", ""), ("here", "It is about the CPU.")):

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS, host=host)
        def check(student, draw):
            """Twice as much."""
            x = draw.tensor(3)
            expect_close(student.call("double", x), 2 * x)

    with asking(gpu_jail) as student:
        told = {question.name: ask(question, student, seed=1) for question in lab}
    assert {verdict.state for verdict in told.values()} == {State.PASS}
    assert (told["there"].device, told["here"].device) == ("simulated", "cpu")


@pytest.mark.parametrize(
    ("function", "error"),
    [("illegal", "illegal memory access"), ("end", "status 3"), ("hang", "no answer within")],
)
def test_a_fault_ends_its_process_and_the_next_question_meets_another(gpu_jail, function, error):
    """An illegal address, a crash, a hang; the device itself is suspected then, and only then."""
    x = torch.ones(3)
    with asking(gpu_jail, budget_s=2.0 if function == "hang" else 30.0) as student:
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


def test_memory_over_the_cap_is_seen_from_outside_and_ends_the_process(gpu_jail, monkeypatch):
    """Whatever the process inside says: the driver counts."""
    share = SIMULATED.cap_bytes(0) + gpu.CONTEXT_BYTES
    used = iter([share, share + 1])
    greedy = replace(SIMULATED, used_bytes=lambda pids: next(used, 0) if pids else 0)
    monkeypatch.setattr(gpu_jail._zygote, "gpu", greedy)
    with asking(gpu_jail, budget_s=60.0) as student:
        with pytest.raises(NoAnswer, match="more than 128 MiB of the GPU"):
            student.call("hang", torch.ones(1))
        assert student.suspects_device


@pytest.mark.slow
def test_a_zygote_that_touched_the_gpu_forks_no_more(monkeypatch):
    touched = "import torch; torch.cuda.is_initialized = lambda: True; "
    monkeypatch.setattr(zygote_startup, "PROGRAM", touched + zygote_startup.PROGRAM)
    with (
        Jail(gpu=SIMULATED) as gpu_jail,
        pytest.raises(GraderFault, match="zygote has touched the GPU"),
    ):
        gpu_jail.open([CELL])


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


def test_the_huge_address_space_that_cuda_reserves_is_no_memory(gpu_jail):
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
    with gpu_jail.open([Cell("a", source)]) as student:
        student.begin(may_write=False)
        assert student.call("reserve", 2**40) == 2**40
        assert student.call("ask", gpu.RESERVED_BYTES) == gpu.RESERVED_BYTES
        with pytest.raises(NoAnswer, match="Cannot allocate memory"):
            student.call("ask", 2 * gpu.RESERVED_BYTES)
