"""The roofline: where its ridge is, which roof limits a work, and what it refuses."""

from __future__ import annotations

import pytest

from onelayer.triton_kernel.roofline import Roof, Roofline, Work, show_roofline

FAST = Roof(flop_s=100e12, bytes_s=2e12)  # ridge at 50 FLOP per byte


def bounds(work: Work) -> list[float]:
    return Roofline((("fast", FAST),), (("work", work),))._bounds(work)


@pytest.mark.parametrize(
    ("flops", "nbytes", "bound"), [(1e9, 1e9, 2e12), (50e9, 1e9, 100e12), (900e9, 1e9, 100e12)]
)
def test_the_lower_roof_limits(flops: float, nbytes: float, bound: float) -> None:
    assert bounds(Work(flops, nbytes)) == [pytest.approx(bound)]


def test_its_text_tells_measured_from_not_measured() -> None:
    shown = show_roofline({"fast": FAST}, {"a": Work(4e9, 1e9), "b": Work(4e9, 1e9, 2e-3)})
    assert repr(shown).splitlines() == [
        "fast: 100 TFLOP/s, 2 TB/s, ridge at 50 FLOP/byte",
        "  a         4 FLOP/byte, not measured",
        "  b         4 FLOP/byte, measured 2 TFLOP/s",
    ]


def test_it_is_drawn_for_both_pages() -> None:
    light, dark = show_roofline({"fast": FAST}, {"a": Work(4e9, 1e9)}).images
    assert light[:4] == dark[:4] == b"\x89PNG"
    assert light != dark


@pytest.mark.parametrize(
    ("roofs", "works"),
    [
        ({}, {"a": Work(1, 1)}),
        ({"fast": FAST}, {}),
        ({str(n): FAST for n in range(5)}, {"a": Work(1, 1)}),
        ({"fast": FAST}, {"a": Work(0, 1)}),
        ({"fast": Roof(1, 0)}, {"a": Work(1, 1)}),
        ({"fast": FAST}, {"a": Work(1, 1, -1.0)}),
    ],
)
def test_what_cannot_be_drawn_is_refused(roofs: dict[str, Roof], works: dict[str, Work]) -> None:
    with pytest.raises(ValueError, match="one to four roofs"):
        show_roofline(roofs, works)


def test_a_processor_is_told_in_billions() -> None:
    shown = show_roofline({"cpu": Roof(90e9, 18e9)}, {"a": Work(4e9, 1e9, 0.1)})
    assert repr(shown).splitlines() == [
        "cpu: 90 GFLOP/s, 18 GB/s, ridge at 5 FLOP/byte",
        "  a         4 FLOP/byte, measured 40 GFLOP/s",
    ]
    assert len(shown.images) == 2
