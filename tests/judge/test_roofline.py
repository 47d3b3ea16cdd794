"""How fast a device can be at most: by its maker's data sheet, or by more than any has."""

from __future__ import annotations

import pytest

from autograder.judge import floor_s
from autograder.judge.roofline import PEAKS, UNKNOWN


@pytest.mark.parametrize(
    ("device", "bandwidth", "speed"),
    [
        ("NVIDIA B200", 8.0e12, 2.5e15),
        ("NVIDIA H200", 4.8e12, 0.99e15),
        ("NVIDIA H100 80GB HBM3", 3.9e12, 0.99e15),
        ("NVIDIA A100-SXM4-80GB", 2.04e12, 0.312e15),
        ("NVIDIA L40S", 0.864e12, 0.362e15),  # its name begins with that of a smaller one
        ("NVIDIA L4", 0.3e12, 0.121e15),
        ("Tesla V100-SXM2-16GB", 1.13e12, 0.13e15),
        ("Tesla T4", 0.32e12, 0.066e15),
        ("GPU 9000", 20e12, 10e15),
        ("", 20e12, 10e15),
    ],
)
def test_a_second_is_what_a_peak_takes(device: str, bandwidth: float, speed: float) -> None:
    assert floor_s(device, moved_bytes=bandwidth) == 1.0
    assert floor_s(device, moved_bytes=0, flops=speed) == 1.0
    assert floor_s(device, moved_bytes=bandwidth / 2, flops=speed) == 1.0
    assert floor_s(device, moved_bytes=bandwidth, flops=speed / 2) == 1.0


def test_no_device_beats_the_unknown_one() -> None:
    assert all(bandwidth < UNKNOWN[0] and speed < UNKNOWN[1] for bandwidth, speed in PEAKS.values())
