"""show_curves: the values that it tells, and lines where the values are."""

import io

import numpy
import pytest
from matplotlib.image import imread

import onelayer


def test_its_text_gives_the_ends_and_values_between() -> None:
    told = repr(
        onelayer.show_curves({"down": range(80, -1, -1), "short": [1.5]}, step="n", unit="w")
    )
    first, down, short = told.splitlines()
    assert first == "w over n"
    assert down.split(maxsplit=1)[1].startswith("80 at 0, 70 at 10, ")
    assert down.endswith(", 0 at 80")
    assert short.split(maxsplit=1)[1] == "1.5 at 0"


def test_a_falling_curve_falls_in_the_picture() -> None:
    png = onelayer.show_curves({"down": range(10, -1, -1)}, step="n", unit="w").images[0]
    ink = (0x2F / 255, 0x83 / 255, 0xAD / 255)
    blue = (abs(imread(io.BytesIO(png))[..., :3] - ink) < 0.02).all(axis=-1)
    rows, columns = numpy.nonzero(blue)
    line = rows > 0.2 * len(blue)  # the legend is above
    assert numpy.corrcoef(rows[line], columns[line])[0, 1] > 0.9  # rows count downwards


FOUR = {name: [1.0] for name in "abcd"}


@pytest.mark.parametrize("values", [{}, {"a": []}, {"a": [float("nan")]}, FOUR])
def test_what_cannot_be_drawn(values: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="one to three curves"):
        onelayer.show_curves(values, step="n", unit="w")


def test_a_curve_that_ends_early_has_a_cross_there() -> None:
    def marked(short: list[float]) -> int:
        values = {"long": [1.0] * 9, "short": short}
        png = onelayer.show_curves(values, step="n", unit="w").images[0]
        ink = (0xC2 / 255, 0x57 / 255, 0x1A / 255)
        orange = (abs(imread(io.BytesIO(png))[..., :3] - ink) < 0.02).all(axis=-1)
        return int(orange[int(0.2 * len(orange)) :].sum())  # the legend is above

    assert marked([0.5]) > 20  # a line of one point has no ink of its own
    assert marked([0.5] * 9) > marked([0.5])
