"""How fast a device can be at most: by its maker's data sheet, or by more than any has."""

from __future__ import annotations

import pytest

from autograder.judge import floor_s
from autograder.judge.roofline import PEAKS, UNKNOWN


@pytest.mark.parametrize(
    ("device", "moved_bytes", "flops"),
    [
        ("NVIDIA H200", 4.8e12, 0),
        ("NVIDIA H200", 4.8e12, 0.5e15),  # the memory takes longer
        ("NVIDIA A100-SXM4-80GB", 0, 0.312e15),
        ("NVIDIA A100-SXM4-80GB", 1e12, 0.312e15),  # the arithmetic does
        ("Tesla T4", 0.32e12, 0),
        ("NVIDIA L40S", 0.864e12, 0),
        ("NVIDIA L4", 0.3e12, 0),
        ("NVIDIA B200", 8e12, 2.5e15),
        ("NVIDIA H100 80GB HBM3", 3.9e12, 0.99e15),
        ("Tesla V100-SXM2-16GB", 1.13e12, 0.13e15),
        ("GPU 9000", 20e12, 0),
        ("GPU 9000", 0, 10e15),
        ("", 20e12, 0),
    ],
)
def test_a_second_is_what_its_peak_takes(device: str, moved_bytes: float, flops: float) -> None:
    assert floor_s(device, moved_bytes=moved_bytes, flops=flops) == 1.0


@pytest.mark.parametrize(("device", "flops"), [("T4", 0.066e15), ("H200", 0.99e15)])
def test_arithmetic_alone_has_a_floor(device: str, flops: float) -> None:
    assert floor_s(device, moved_bytes=0, flops=flops) == 1.0
    assert floor_s(device, moved_bytes=0) == 0.0


@pytest.mark.parametrize(("name", "flops"), [("L40S", 0.362e15), ("L4", 0.121e15)])
def test_a_smaller_one_is_not_taken_for_its_family(name: str, flops: float) -> None:
    assert floor_s(f"NVIDIA {name}", moved_bytes=0, flops=flops) == 1.0


def test_no_device_beats_the_unknown_one() -> None:
    assert all(bandwidth < UNKNOWN[0] and speed < UNKNOWN[1] for bandwidth, speed in PEAKS.values())
