"""Memory that real GPUs were published to need, and what the mocked device needs for the same.

The figures come from other versions of torch: the page says where that makes a difference.
"""

import pytest

from bench.published_memory import FIGURES, Compared, compared


@pytest.mark.parametrize("published", FIGURES, ids=lambda one: one.what)
def test_the_mocked_device_needs_what_the_gpu_needed(mocked, published):
    for one in compared(published):
        assert abs(one.difference) <= published.within, one


def test_a_difference_is_relative_to_the_gpu():
    assert Compared("peak", 200.0, 201.0).difference == pytest.approx(0.005)
