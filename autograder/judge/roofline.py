"""How fast a device can be at most: a call that took less did not do the work.

Peaks are those of the makers' data sheets, of the fastest member of each family: memory in bytes
per second, and dense 16-bit matrix products in floating-point operations per second. Nobody reaches
both; to be below the bound that they give is impossible.
"""

from __future__ import annotations

PEAKS: dict[str, tuple[float, float]] = {
    "B200": (8.0e12, 2.5e15),
    "H200": (4.8e12, 0.99e15),
    "H100": (3.9e12, 0.99e15),
    "A100": (2.04e12, 0.312e15),
    "L40S": (0.864e12, 0.362e15),
    "L4": (0.3e12, 0.121e15),
    "V100": (1.13e12, 0.13e15),
    "T4": (0.32e12, 0.066e15),
}
UNKNOWN = (20e12, 10e15)
"""More than any one device has, so that a bound for an unknown one is never too high."""


def floor_s(device: str, *, moved_bytes: float, flops: float = 0.0) -> float:
    """The seconds that `device`, called as a verdict calls it, needs at least to move so many bytes
    to or from its memory and for so many operations."""
    words = device.replace("-", " ").split()
    bandwidth, speed = next((PEAKS[word] for word in words if word in PEAKS), UNKNOWN)
    return max(moved_bytes / bandwidth, flops / speed)
