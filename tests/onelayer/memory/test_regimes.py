"""show_regimes: points on two logarithmic scales, and its text."""

from __future__ import annotations

import pytest

import onelayer


def test_its_text_has_numbers_of_every_series() -> None:
    series = {"one": [(1, 4.0), (10, 4.0), (100, 30.0)], "two": [(1000, 5e6)]}
    told = repr(onelayer.show_regimes(series, size="N rows"))
    assert "N rows" in told
    assert "100: 30" in told
    assert "1,000: 5e+06" in told


def test_it_draws_one_value_and_values_of_many_decades() -> None:
    for points in ([(1, 1.0)], [(1, 0.003), (10**6, 9e7)]):
        picture = onelayer.show_regimes({"series": points}, size="N")
        assert picture.images[0].startswith(b"\x89PNG")


@pytest.mark.parametrize("series", [{}, {"none": []}, {"zero": [(1, 0.0)]}, {"size": [(0, 1.0)]}])
def test_what_has_no_place_is_refused(series: dict[str, list[tuple[float, float]]]) -> None:
    with pytest.raises(ValueError, match=r"show_regimes|logarithmic"):
        onelayer.show_regimes(series, size="N")
