"""show_bars: lengths that are in proportion, in text and in ink."""

import io

import pytest
from matplotlib.image import imread

import onelayer


def test_text_is_in_proportion() -> None:
    lines = repr(onelayer.show_bars({"whole": 30, "third": 10, "none": 0}, unit="bytes"))
    assert [line.count("█") for line in lines.splitlines()] == [30, 10, 0]
    assert lines.splitlines()[0].startswith("whole  30 bytes  ")


def test_numbers_are_written_as_they_are() -> None:
    bars = onelayer.show_bars({"bytes": 153_600, "ratio": 10.1983, "ns": 1404.2, "most": 999.7})
    assert [bars.words(n) for _, n in bars.values] == ["153,600", "10.2", "1,404", "1,000"]


def test_the_drawing_is_in_proportion() -> None:
    picture = imread(io.BytesIO(onelayer.show_bars({"a": 40, "b": 10}).images[0]))
    blue = (abs(picture[..., :3] - (0x54 / 255, 0xA3 / 255, 0xC8 / 255)) < 0.02).all(axis=-1)
    lengths = [int(n) for n in blue.sum(axis=1)]
    upper, lower = max(lengths[: len(lengths) // 2]), max(lengths[len(lengths) // 2 :])
    assert upper / lower == pytest.approx(4, rel=0.05)


def test_bundle_has_words_for_those_who_see_no_picture() -> None:
    bundle = onelayer.show_bars({"<b>": 1}).bundle()
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    assert "<b>" not in bundle["text/html"]
    assert "&lt;b&gt;" in bundle["text/html"]


def test_all_zero_is_no_division_by_zero() -> None:
    assert "█" not in repr(onelayer.show_bars({"a": 0, "b": 0}))


@pytest.mark.parametrize("values", [{}, {"a": -1}, {"a": float("nan")}, {"a": float("inf")}])
def test_what_cannot_be_drawn(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        onelayer.show_bars(values)
