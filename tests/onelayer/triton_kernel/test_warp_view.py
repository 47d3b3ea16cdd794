"""Sectors and banks of a warp, against cases that can be counted on fingers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onelayer.triton_kernel.warp_view import show_banks, show_sectors

ROW = range(0, 128, 4)


@pytest.mark.parametrize(
    ("addresses", "sectors"),
    [
        (ROW, 4),
        ([at + 4 for at in ROW], 5),
        (range(0, 64, 2), 2),
        (range(0, 32 * 256, 256), 32),
        ([96] * 32, 1),
        ([31, 32], 2),
        ([0], 1),
    ],
)
def test_sectors_of_32_bytes(addresses: Sequence[int], sectors: int) -> None:
    ((_, hits),) = show_sectors({"warp": addresses}).rows
    assert sum(hit > 0 for hit in hits) == sectors
    assert sum(hits) == len(addresses)


@pytest.mark.parametrize(
    ("addresses", "banks", "turns"),
    [
        (ROW, 32, 1),
        (range(0, 32 * 128, 128), 1, 32),
        (range(0, 32 * 132, 132), 32, 1),
        ([128] * 32, 1, 1),  # one word, for all
        ([0, 128, 0, 128], 1, 2),
        ([0, 1, 2, 3], 1, 1),
    ],
)
def test_banks_and_turns(addresses: Sequence[int], banks: int, turns: int) -> None:
    ((_, hits),) = show_banks({"warp": addresses}).rows
    assert sum(hit > 0 for hit in hits) == banks
    assert max(hits) == turns


def test_their_texts() -> None:
    assert repr(show_sectors({"a": ROW})) == "a  4 sectors of 32 bytes"
    shown = show_banks({"a": ROW, "column": range(0, 4096, 128)})
    assert repr(shown).splitlines() == ["a       32 banks, 1 turn", "column  1 bank, 32 turns"]
    assert shown.images[0] != shown.images[1]


@pytest.mark.parametrize("warps", [{}, {"none": []}, {"too many": range(33)}])
def test_what_is_no_warp_is_refused(warps: dict[str, Sequence[int]]) -> None:
    for show in (show_sectors, show_banks):
        with pytest.raises(ValueError, match="1 to 32 addresses"):
            show(warps)
