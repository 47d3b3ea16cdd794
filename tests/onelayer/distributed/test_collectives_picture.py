"""show_collectives: what four collectives left on real ranks, and whose colour a number has."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import onelayer
from onelayer.distributed.collectives_picture import _MIXED, _RANKS, _colour


def exchanged():
    rank = dist.get_rank()
    x = torch.tensor([10**rank, 2 * 10**rank])
    added = x.clone()
    dist.all_reduce(added)
    return {"has": x.tolist(), "all_reduce": added.tolist()}


def test_the_picture_has_what_the_ranks_have() -> None:
    picture = onelayer.show_collectives(onelayer.run_ranks(3, exchanged))
    assert dict(picture.rows) == {
        "has": ((1, 2), (10, 20), (100, 200)),
        "all_reduce": ((111, 222),) * 3,
    }
    assert repr(picture).splitlines()[1].startswith("all_reduce  rank 0: [111, 222]")
    assert picture.images[0] != picture.images[1]


def test_a_number_has_the_colour_of_who_brought_it() -> None:
    before = ((1, 2), (10, 20))
    assert [_colour(number, before) for number in (2, 10, 11)] == [_RANKS[0], _RANKS[1], _MIXED]


@pytest.mark.parametrize("ranks", [[], [{}], [{"has": [1]}, {"held": [1]}]])
def test_ranks_that_do_not_agree_are_refused(ranks) -> None:
    with pytest.raises(ValueError, match="the same rows"):
        onelayer.show_collectives(ranks)
