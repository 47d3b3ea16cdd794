"""The README's picture of the mocked device: drawn from recordings, and labelled."""

from __future__ import annotations

import pytest
from PIL import Image

from bench import mock_picture
from bench.mock_picture import NAMES
from onelayer.recordings import MOCKED, Recording, read_recording


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_says_that_it_is_mocked(name: str) -> None:
    shown = mock_picture.drawn(read_recording(name, folder=MOCKED))
    assert "mocked" in getattr(shown, "device", "")


@pytest.mark.slow
def test_the_picture_has_both_below_each_other_and_is_the_shipped_ones_size() -> None:
    page = mock_picture.composed([read_recording(name, folder=MOCKED) for name in NAMES])
    one = mock_picture.composed([read_recording(NAMES[0], folder=MOCKED)])
    assert page.height > one.height
    with Image.open(mock_picture.PICTURE) as shipped:
        assert page.size == shipped.size


def test_a_recording_of_no_picture_is_refused() -> None:
    with pytest.raises(AssertionError):
        mock_picture.drawn(Recording("nothing"))
