"""show_moved: sectors against the addresses of a real tensor."""

from __future__ import annotations

import pytest
import torch

import onelayer

WARP = [(lane % 16, lane // 16) for lane in range(32)]
LOADS = {
    "naive": [(tx, 0) for tx, _ in WARP],
    "tiled": [(ty, tx) for tx, ty in WARP],
    "across": [(0, column) for column in range(6, 10)],
}


@pytest.mark.parametrize("columns", [64, 60, 16])
@pytest.mark.parametrize("name", LOADS)
def test_the_sectors_are_those_of_the_addresses(columns: int, name: str) -> None:
    w = torch.empty(16, columns)
    first = w.data_ptr()
    touched = {(w[at].data_ptr() - first) // 32 for at in LOADS[name]}
    moved = onelayer.show_moved(columns, **{name: LOADS[name]})
    ((_, asked),) = moved.loads
    assert moved.sectors(asked) == touched
    assert (
        moved.told(asked) == f"{4 * len(set(LOADS[name]))} bytes wanted, {32 * len(touched)} sent"
    )


@pytest.mark.slow
def test_a_row_of_the_head_is_sent_whole_and_a_column_is_not() -> None:
    moved = onelayer.show_moved(64, **LOADS)
    assert repr(moved).splitlines()[:2] == [
        "naive: 64 bytes wanted, 512 sent",
        "tiled: 128 bytes wanted, 128 sent",
    ]
    assert moved.images[0] != moved.images[1]


@pytest.mark.parametrize("loads", [{}, {"none": []}, {"out": [(0, 16)]}, {"out": [(-1, 0)]}])
def test_what_cannot_be_drawn_is_refused(loads) -> None:
    with pytest.raises(ValueError, match=r"asks for|corner"):
        onelayer.show_moved(64, **loads)
