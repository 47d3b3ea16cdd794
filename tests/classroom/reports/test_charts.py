"""The plots of a lab's page, as they are drawn."""

from __future__ import annotations

import re

import pytest

from autograder.classroom.reports import charts
from autograder.classroom.reports.items import Item, Spread
from tests.classroom.made_class import LAB


def test_the_median_lies_behind_the_bars() -> None:
    figure = charts.scores([1.0, 2.0, 2.0, 3.0], 4.0)
    line, bars = figure.index("stroke-dasharray"), figure.index("patch_3")
    assert line < bars  # what comes first in an SVG is painted over


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00012, "0.12 ms"),
        (0.0123, "12 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (1.26, "1.3 s"),
        (99.4, "99 s"),
        (99.6, "100 s"),
        (123.4, "123 s"),
    ],
)
def test_a_duration_has_its_unit_and_no_power_of_ten(value: float, text: str) -> None:
    assert charts.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (40_960, "41 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (12_340_000, "12.3 MB"),
        (999_600_000, "1 GB"),
        (1_234_000_000, "1.23 GB"),
    ],
)
def test_a_size_has_its_unit_and_no_power_of_ten(value: float, text: str) -> None:
    assert charts.in_bytes(value) == text


def label(svg: str) -> str:
    """What a plot says to whoever does not see it."""
    (found,) = re.findall('aria-label="([^"]*)"', svg)
    return str(found)


def test_the_histogram_in_words() -> None:
    told = label(charts.scores([1.0, 2.5, 4.0, 3.0], 4.0))
    assert told == "Histogram of the points of 4 students: from 1 to 4 of 4, median 2.75."
    assert label(charts.scores([], 4.0)).endswith("nobody has been graded yet.")


def test_the_other_plots_in_words() -> None:
    """An item of which all is known, and one of which nothing is."""
    first, second = list(LAB)[:2]
    told = [
        Item(first, 3, 2, 1, 4, -0.254, Spread(0.5, 2.0, 9), Spread(2000.0, 4000.0, 9)),
        Item(second, 0, 0, 0, 0, None, None, None),
    ]
    assert label(charts.questions(told)) == (
        "Bars of the outcomes per question. "
        f"{first.name}: 3 passed, 2 wrong, 1 not answered, 4 for a person, discrimination -0.25; "
        f"{second.name}: 0 passed, 0 wrong, 0 not answered, 0 for a person, "
        "discrimination cannot be said."
    )
    assert label(charts.costs(told)) == (
        f"Time and memory per question. {first.name}: median 0.5 s, 2 kB; "
        f"{second.name}: median not measured, memory not measured."
    )
