"""Where a call meets its tensors: nothing is moved on a CPU, and what a GPU reports is heard."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from autograder.judge import DEVICES, device


def test_they_are_known_by_name() -> None:
    assert {name: one.name for name, one in DEVICES.items()} == {
        "cpu": "cpu",
        "cuda": "cuda",
        "simulated": "simulated",
    }


def test_on_a_cpu_nothing_is_moved() -> None:
    data = bytes(range(7))
    host = DEVICES["cpu"]
    host.begin(1)
    with host.running():
        assert torch.empty(0).device == torch.device("cpu")
    assert bytes(host.arrive(data)) == data
    assert host.broken is False


def test_a_planted_fault_is_reported_late_and_stays() -> None:
    there, data = device.Simulated(), bytes(range(7))
    assert there.cap_bytes == 0
    there.begin(7)
    assert (there.cap_bytes, there.broken) == (7, False)
    storage = there.arrive(data)
    assert bytes(storage) == data
    assert storage.nbytes() == len(data)
    with torch.device("meta"), there.running():
        assert torch.empty(0).device == torch.device("cpu")
    there.fault = "illegal address"
    reached = False
    for _ in range(2):
        with pytest.raises(RuntimeError, match="CUDA error: illegal address"), there.running():
            reached = True
        assert reached
        assert there.broken


class Driver:
    """What `Cuda` asks of torch.cuda, on a machine without one: it notes down what it is told."""

    def __init__(self, total: int) -> None:
        self.total_memory, self.fault, self.is_used = total, "", True
        self.told: list[Any] = []

    def get_device_properties(self, number: int) -> Driver:
        assert number == 0
        return self

    def set_per_process_memory_fraction(self, share: float) -> None:
        self.told.append(share)

    def is_initialized(self) -> bool:
        return self.is_used

    def synchronize(self) -> None:
        self.told.append("synchronize")
        if self.fault:
            raise RuntimeError(self.fault)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver(100)
    monkeypatch.setattr(torch, "cuda", driver)
    return driver


def made_on() -> str:
    """The kind of device on which a tensor is made that names none."""
    try:
        return torch.empty(0).device.type
    except (AssertionError, RuntimeError) as none:  # there is no GPU, or torch is built without
        return "cuda" if re.search("CUDA|NVIDIA", str(none)) else str(none)


def test_a_gpus_memory_is_capped_once_for_each_cap(driver: Driver) -> None:
    gpu = device.Cuda()
    for cap in (1, 50, 50, 400, 25):
        gpu.begin(cap)
    assert driver.told == [0.01, 0.5, 1.0, 0.25]  # a share of all of it, and never more than that


def test_what_arrives_on_a_gpu_is_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data, there = bytes(range(7)), torch.zeros(2)
    moved: list[bytes] = []

    def cuda(host: torch.Tensor) -> torch.Tensor:
        moved.append(bytes(host.untyped_storage()))
        return there

    monkeypatch.setattr(torch.Tensor, "cuda", cuda)
    assert device.Cuda().arrive(data).data_ptr() == there.untyped_storage().data_ptr()
    assert moved == [data]


def test_a_call_ends_when_the_gpu_has_done_what_it_was_told(driver: Driver) -> None:
    gpu = device.Cuda()
    with gpu.running():
        assert torch.empty(0, device="meta").is_meta  # a device that is named stays
        assert made_on() == "cuda"
        assert driver.told == []
    assert driver.told == ["synchronize"]
    driver.fault = "an illegal memory access"
    with pytest.raises(RuntimeError, match="illegal memory access"), gpu.running():
        pass


@pytest.mark.parametrize(
    ("fault", "is_used", "broken"),
    [("", True, False), ("illegal access", True, True), ("illegal access", False, False)],
)
def test_a_gpu_is_broken_where_a_wait_fails(
    fault: str, is_used: bool, broken: bool, driver: Driver
) -> None:
    """One that is not used yet is not asked: that would cost the memory of a context."""
    driver.fault, driver.is_used = fault, is_used
    assert device.Cuda().broken is broken
    assert driver.told == ["synchronize"] * is_used
