"""The plots of a lab's page, as they are drawn."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from autograder.classroom.reports import charts
from autograder.classroom.reports.charts import NARROW, WIDE, Shape
from autograder.classroom.reports.items import Item, Spread
from tests.classroom.made_class import LAB

KNOWN = [
    Item(question, 3, 2, 1, 4, 0.6 - 0.3 * row, Spread(0.02, 0.5 + row, 9), Spread(2e3, 4e5, 9))
    for row, question in enumerate(LAB)
]
UNKNOWN = [Item(question, 0, 0, 0, 0, None, None, None) for question in LAB]
MIXED = [*KNOWN[:2], *UNKNOWN[2:4], *KNOWN[4:5]]
SHAPES = pytest.mark.parametrize("shape", [WIDE, NARROW], ids=lambda shape: str(shape.name))
SCORES, QUESTIONS, COSTS = charts.scores, charts.questions, charts.costs
Drawn = Callable[..., Figure]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """A plot as it is laid out, one unit of it a point of the SVG, before it becomes one."""

    def figure_of(plot: Callable[..., object], *values: object) -> Figure:
        kept: list[Figure] = []
        monkeypatch.setattr(charts, "_svg", lambda figure, *_: kept.append(figure))
        plot(*values)
        kept[0].dpi = 72
        with mpl.rc_context(charts.STYLE):
            FigureCanvasAgg(kept[0]).draw()  # type: ignore[no-untyped-call]
        return kept[0]

    return figure_of


def place(artist: Artist) -> Bbox:
    return artist.get_window_extent()


def written(figure: Figure) -> dict[Text, Bbox]:
    """All that can be read in a plot, and where."""
    beyond = {label for axes in figure.axes for label in _beyond(axes)}
    found = [one for one in figure.findobj(Text) if isinstance(one, Text) and one not in beyond]
    return {one: place(one) for one in found if one.get_visible() and one.get_text().strip()}


def _beyond(axes: Axes) -> Iterator[Text]:
    """The labels of ticks beyond the ends of an axis, which are not painted."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if not low <= tick.get_loc() <= high:
                yield from (tick.label1, tick.label2)


def ticks(axes: Axes) -> dict[float, str]:
    """The numbers below a plot: where, and what is written there."""
    low, high = sorted(axes.get_xlim())
    labels = [label.get_text() for label in axes.get_xticklabels()]
    pairs = zip(axes.get_xticks(), labels, strict=True)
    return {round(float(at), 9): label for at, label in pairs if low <= at <= high}


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
        (0.0995, "0.1 s"),
        (0.0996, "0.1 s"),
        (1.26, "1.3 s"),
        (99.4, "99 s"),
        (99.5, "100 s"),
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
        (999.5, "1 kB"),
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


@SHAPES
@pytest.mark.parametrize(
    ("plot", "values"),
    [
        (SCORES, ([], 30.0)),
        (SCORES, ([0.0], 30.0)),
        (SCORES, ([30.0] * 450, 30.0)),
        (SCORES, ([float(n) for n in range(30)], 49.0)),
        (QUESTIONS, (KNOWN,)),
        (QUESTIONS, (MIXED,)),
        (QUESTIONS, (UNKNOWN[:1],)),
        (QUESTIONS, ([],)),
        (COSTS, (KNOWN,)),
        (COSTS, (MIXED,)),
        (COSTS, (UNKNOWN[:1],)),
        (COSTS, ([],)),
    ],
)
def test_all_that_is_written_lies_in_the_plot_and_apart(
    plot: Callable[..., str], values: tuple[object, ...], shape: Shape, drawn: Drawn
) -> None:
    figure = drawn(plot, *values, shape)
    found, (right, top) = written(figure), figure.bbox.max
    for one, at in found.items():
        assert -1 <= at.x0 < at.x1 <= right + 1, one
        assert -1 <= at.y0 < at.y1 <= top + 1, one
    for (one, at), (other, there) in itertools.combinations(found.items(), 2):
        assert not at.padded(-1).overlaps(there.padded(-1)), (one, other)


def bars(axes: Axes) -> dict[float, float]:
    """The middle of each bar that can be seen, and its height."""
    found = [bar for bar in axes.patches if isinstance(bar, Rectangle) and bar.get_height()]
    return {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in found}


@pytest.mark.parametrize(
    ("points", "max_points", "heights"),
    [
        ([], 4.0, {}),
        ([0.0], 0.0, {0: 1}),
        ([0.0, 4.0, 4.0, 2.0], 4.0, {0: 1, 2: 1, 4: 2}),
        ([49.0], 49.0, {48: 1}),
        ([80.0, 80.0, 0.0], 80.0, {81: 2, 0: 1}),
    ],
)
def test_a_bar_is_as_high_as_there_are_students_with_its_points(
    points: Sequence[float], max_points: float, heights: dict[float, float], drawn: Drawn
) -> None:
    (axes,) = drawn(charts.scores, points, max_points).axes
    assert bars(axes) == heights
    for bar in axes.patches:  # the page's ground sets it apart from its neighbours
        assert to_hex(bar.get_edgecolor()) == charts.GROUND
        assert bar.get_linewidth() > 0.5
    tallest = max([1.0, *heights.values()])
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert tallest < top < 1.2 * tallest
    first, last = axes.patches[0].get_extents(), axes.patches[-1].get_extents()
    assert (first.x0, last.x1) == pytest.approx((place(axes).x0, place(axes).x1))
    assert f"{max_points:g}" in axes.get_xlabel()
    assert axes.get_ylabel() == "students"


def test_the_bars_reach_from_nothing_to_full_marks() -> None:
    for max_points in (*range(400), 2.5, 44.5):
        edges = charts._edges(max_points)
        (width,) = {after - before for before, after in itertools.pairwise(edges)}
        assert width == round(width)
        assert edges[0] == -width / 2
        assert edges[-2] < max_points <= edges[-1] or max_points == 0, max_points
        assert len(edges) - 1 <= 45
        assert width == 1 or max_points >= 45


@pytest.mark.parametrize(
    ("middle", "side"), [(0.0, "left"), (1.5, "left"), (2.5, "right"), (4.0, "right")]
)
def test_the_median_is_written_above_its_line_where_there_is_room(
    middle: float, side: str, drawn: Drawn
) -> None:
    """side: of the words, that is at the line."""
    (axes,) = drawn(charts.scores, [middle, middle], 4.0).axes
    (line,), (text,) = axes.lines, axes.texts
    assert set(np.asarray(line.get_xdata())) == {middle}
    assert line.get_linestyle() == "--"
    assert f"{middle:g}" in text.get_text()
    at, top = place(text), place(axes).y1
    (x,) = {axes.transData.transform((middle, 0))[0]}
    assert {"left": at.x0, "right": at.x1}[side] == pytest.approx(x, abs=1)
    assert top < at.y0 < top + 20


def test_where_nobody_is_graded_there_is_no_median(drawn: Drawn) -> None:
    (axes,) = drawn(charts.scores, [], 4.0).axes
    assert [*axes.lines, *axes.texts] == []


@SHAPES
def test_a_histogram_is_wider_than_high(shape: Shape, drawn: Drawn) -> None:
    width, height = drawn(charts.scores, [1.0], 4.0, shape).get_size_inches()
    assert (width, 1.3 * height < width) == (shape.width, True)


@pytest.mark.parametrize(("shape", "least", "most"), [(WIDE, 8, 12), (NARROW, 4, 6)])
def test_the_numbers_at_a_histogram_are_whole_and_few(
    shape: Shape, least: int, most: int, drawn: Drawn
) -> None:
    (axes,) = drawn(charts.scores, [0.0] * 10, 24.0, shape).axes
    told, up = ticks(axes), [at for at in axes.get_yticks() if at <= axes.get_ylim()[1]]
    assert least <= len(told) <= most
    assert 3 <= len(up) <= 5
    assert all(at == round(at) for at in [*told, *up])
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    assert len({label.get_color() for label in labels}) == 1


@SHAPES
def test_few_students_and_points_are_numbered_in_whole_ones(shape: Shape, drawn: Drawn) -> None:
    (axes,) = drawn(charts.scores, [1.0], 1.0, shape).axes
    assert list(ticks(axes)) == [0, 1]
    assert all(at == round(at) for at in axes.get_yticks())


def lines(axes: Axes) -> tuple[bool, bool]:
    """Whether lines stand at the numbers below, and at those on the left."""
    grid = (axes.get_xgridlines(), axes.get_ygridlines())
    across, up = (any(line.get_visible() for line in one) for one in grid)
    return across, up


def test_lines_lead_from_the_numbers_that_are_read(drawn: Drawn) -> None:
    (histogram,) = drawn(charts.scores, [1.0], 4.0).axes
    outcomes, dots = drawn(charts.questions, KNOWN).axes
    costs = drawn(charts.costs, KNOWN).axes
    assert lines(histogram) == (False, True)
    assert lines(outcomes) == (False, False)
    assert {lines(axes) for axes in (dots, *costs)} == {(True, False)}


def test_no_frame_stands_around_a_plot_and_no_line_before_it(drawn: Drawn) -> None:
    figures = (drawn(charts.scores, [1.0], 4.0), drawn(charts.questions, KNOWN))
    for axes in (axes for figure in figures for axes in figure.axes):
        assert not axes.spines["top"].get_visible()
        assert not axes.spines["right"].get_visible()
        assert axes.get_axisbelow() is True
        legend = axes.get_legend()
        assert legend is None or not legend.get_frame_on()


@SHAPES
@pytest.mark.parametrize("plot", [QUESTIONS, COSTS])
def test_a_row_is_a_question_the_first_one_on_top(
    plot: Callable[..., str], shape: Shape, drawn: Drawn
) -> None:
    """Side by side the two plots share the names; one above the other each has them."""
    figure = drawn(plot, KNOWN, shape)
    first, second = (place(axes) for axes in figure.axes)
    names = [item.question.name for item in KNOWN]
    for axes in figure.axes:
        labels = {one: at for one, at in written(figure).items() if one in axes.get_yticklabels()}
        rows = sorted(labels, key=lambda one: -labels[one].y0)
        is_named = shape is NARROW or axes is figure.axes[0]
        assert [one.get_text() for one in rows] == names * is_named
        assert {one.get_fontfamily()[0] for one in rows} <= {"monospace"}
        assert axes.get_ylim() == (len(KNOWN) - 0.5, -0.5)
        assert not axes.spines["left"].get_visible()
    if shape is WIDE:
        assert first.y0 == second.y0
        assert first.x1 < second.x0
        assert first.width / second.width == pytest.approx(2.4 if plot is QUESTIONS else 1)
    else:
        assert first.x0 == second.x0
        assert first.y0 > second.y1


@SHAPES
@pytest.mark.parametrize("plot", [QUESTIONS, COSTS])
def test_a_row_is_as_high_however_many_there_are(
    plot: Callable[..., str], shape: Shape, drawn: Drawn
) -> None:
    letters = 10
    for count, most in ((1, 6), (10, 3)):
        for axes in drawn(plot, KNOWN[:count], shape).axes:
            assert axes.get_ylim() == (count - 0.5, -0.5)
            assert 2 * letters < place(axes).height / count < most * letters


def pieces(axes: Axes) -> list[tuple[list[Rectangle], list[Rectangle]]]:
    """Of each outcome the bars, a row for each question, and the lines around them."""
    found = [list(one.patches) for one in axes.containers if isinstance(one, BarContainer)]
    return list(zip(found[::2], found[1::2], strict=True))


def test_a_row_is_shared_out_among_its_outcomes(drawn: Drawn) -> None:
    several = replace(KNOWN[0], passed=5, wrong=3, open=2, blank=0)
    told = [several, UNKNOWN[1], KNOWN[2], replace(UNKNOWN[3], wrong=1)]
    bars_, _ = drawn(charts.questions, told).axes
    shares = [
        [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in inside]
        for inside, _ in pieces(bars_)
    ]
    assert [list(row) for row in zip(*shares, strict=True)] == [
        [(0, 0.5), (0.5, 0.3), (0.8, 0.2), (1, 0)],
        [(0, 0)] * 4,
        [(0, 0.3), (0.3, 0.2), (0.5, 0.4), (0.9, 0.1)],
        [(0, 0), (0, 1), (1, 0), (1, 0)],
    ]
    for inside, around in pieces(bars_):
        assert [bar.get_bbox().bounds for bar in inside] == [
            bar.get_bbox().bounds for bar in around
        ]
        assert [bar.get_y() + bar.get_height() / 2 for bar in inside] == pytest.approx([0, 1, 2, 3])
        assert all(0.5 < bar.get_height() < 0.8 for bar in inside)
        assert all(bar.fill and not bar.get_linewidth() for bar in inside)
        assert all(bar.get_linewidth() and not bar.fill for bar in around)
    assert bars_.get_xlim() == (0, 1)
    assert (ticks(bars_)[0.0], ticks(bars_)[1.0]) == ("0%", "100%")
    assert "share" in bars_.get_xlabel()


@SHAPES
def test_the_legend_stands_above_the_bars_and_says_which_is_which(
    shape: Shape, drawn: Drawn
) -> None:
    axes, _ = drawn(charts.questions, KNOWN, shape).axes
    assert axes.get_xlim() == (0, 1)
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [charts.NAMES[name] for name in ("passed", "wrong", "open", "blank")]
    for sample, (inside, _) in zip(legend.get_patches(), pieces(axes), strict=True):
        for bar in inside:
            assert sample.get_facecolor() == bar.get_facecolor()
            assert sample.get_hatch() == bar.get_hatch()
    at, plot = place(legend), place(axes)
    assert plot.y1 <= at.y0 < plot.y1 + 10
    assert plot.x0 <= at.x0 < plot.x0 + 10
    assert (
        len({round(place(text).y0) // 4 for text in legend.get_texts()})
        == 4 // shape.legend_columns
    )


def test_outcomes_that_meet_differ_in_texture_and_colour(drawn: Drawn) -> None:
    """So that they can be told apart in grey."""
    axes, _ = drawn(charts.questions, KNOWN).axes
    shades = [inside[0] for inside, _ in pieces(axes)]
    for one, other in itertools.pairwise(shades):
        assert one.get_hatch() != other.get_hatch()
        assert one.get_facecolor() != other.get_facecolor()


def test_a_dot_and_a_line_from_nothing_tell_a_discrimination(drawn: Drawn) -> None:
    told = [
        replace(KNOWN[0], discrimination=0.5),
        UNKNOWN[1],
        replace(KNOWN[2], discrimination=-0.3),
    ]
    _, axes = drawn(charts.questions, told).axes
    assert dots(axes, "o") == {0: 0.5, 2: -0.3}
    assert stems(axes) == {0: (0, 0.5), 2: (-0.3, 0)}
    (text,) = axes.texts
    assert text.get_text() == "cannot be said"
    assert middle(axes, text)[1] == pytest.approx(1, abs=0.05)
    assert 0 < axes.transData.inverted().transform(place(text).min)[0] < 0.1
    (zero,) = [line for line in axes.lines if line.get_marker() == "None"]
    assert set(np.asarray(zero.get_xdata())) == {0}
    assert axes.get_xlabel() == "discrimination"


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        ([], -0.35, -0.25),
        ([None], -0.35, -0.25),
        ([0.5, None, 1.0], -0.35, -0.25),
        ([0.5, -0.4, -0.7], -0.85, -0.75),
        ([-1.0], -1.15, -1.05),
    ],
)
def test_every_discrimination_lies_within(
    values: Sequence[float | None], least: float, most: float, drawn: Drawn
) -> None:
    told = [replace(KNOWN[0], discrimination=value) for value in values]
    _, axes = drawn(charts.questions, told).axes
    low, high = axes.get_xlim()
    assert least < low < most
    assert 1 < high < 1.2


def middle(axes: Axes, artist: Artist) -> tuple[float, float]:
    """Where the middle of it lies, in the units of the plot."""
    box = place(artist)
    x, y = axes.transData.inverted().transform(((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2))
    return float(x), float(y)


def dots(axes: Axes, marker: str) -> dict[float, float]:
    """By row, where these marks stand."""
    found = [line for line in axes.lines if line.get_marker() == marker]
    return {
        float(np.asarray(line.get_ydata())[0]): float(np.asarray(line.get_xdata())[0])
        for line in found
    }


def stems(axes: Axes) -> dict[float, tuple[float, float]]:
    """By row, from where to where its line goes."""
    found = [np.asarray(path.vertices) for one in axes.collections for path in one.get_paths()]
    return {float(y): (min(x, to), max(x, to)) for (x, y), (to, _) in found}


def test_a_cost_is_a_dot_at_the_median_and_a_line_to_the_most(drawn: Drawn) -> None:
    told = [
        replace(KNOWN[0], wall_s=Spread(0.5, 2.0, 9), peak_bytes=Spread(2e3, 4e3, 9)),
        UNKNOWN[1],
        replace(KNOWN[2], wall_s=Spread(0.1, 0.1, 1), peak_bytes=None),
    ]
    time, memory = drawn(charts.costs, told).axes
    assert dots(time, "o") == {0: 0.5, 2: 0.1}
    assert dots(time, "|") == {0: 2.0, 2: 0.1}
    assert stems(time) == {0: (0.5, 2.0), 2: (0.1, 0.1)}
    assert dots(memory, "o") == {0: 2e3}
    assert dots(memory, "|") == {0: 4e3}
    assert time.get_xlim() == (0.05, 4.0)
    assert memory.get_xlim() == (1e3, 8e3)
    assert (time.get_xlabel(), memory.get_xlabel()) == ("time", "memory")
    assert ticks(time) == {0.1: "0.1 s", 0.3: "0.3 s", 1.0: "1 s", 3.0: "3 s"}
    assert ticks(memory) == {1e3: "1 kB", 2e3: "2 kB", 5e3: "5 kB"}
    assert [*time.texts, *memory.texts] == []


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        (1.0, 1.0, "125"),
        (0.9, 1.0, "125"),
        (0.4, 0.49, "125"),
        (0.04, 0.12, "125"),
        (0.05, 0.2, "13"),
        (0.025, 1.0, "13"),
        (0.002, 2.0, "1"),
        (1e-5, 10, "1"),
        (1e-4, 100, "1"),
    ],
)
def test_the_numbers_at_a_cost_are_few_and_simple(
    low: float, high: float, first: str, drawn: Drawn
) -> None:
    """However far apart the questions lie. One number alone would tell no scale."""
    told = [replace(KNOWN[0], wall_s=Spread(low, high, 9))]
    time, _ = drawn(charts.costs, told, NARROW).axes
    assert 2 <= len(ticks(time)) <= 8
    assert {f"{at:.0e}"[0] for at in ticks(time)} <= set(first)
    assert list(time.get_xticks(minor=True)) == []
    scale = time.transData.transform([(x, 0) for x in (low, 3 * low, 9 * low)])[:, 0]
    assert scale[1] - scale[0] == pytest.approx(scale[2] - scale[1])  # logarithmic


@pytest.mark.parametrize(
    ("ratio", "digits"),
    [
        (3, (1.0, 2.0, 5.0)),
        (3.1, (1.0, 3.0)),
        (50, (1.0, 3.0)),
        (50.5, (1.0,)),
    ],
)
def test_the_farther_apart_the_ends_the_fewer_numbers_stand_between(
    ratio: float, digits: Sequence[float]
) -> None:
    assert charts._digits(ratio) == digits


@pytest.mark.parametrize("told", [UNKNOWN[:3], []])
def test_what_was_not_measured_says_so_in_the_middle(told: Sequence[Item], drawn: Drawn) -> None:
    for axes in drawn(charts.costs, told).axes:
        (text,) = axes.texts
        assert text.get_text() == "not measured"
        at, plot = place(text), place(axes)
        assert (at.x0 + at.x1) / 2 == pytest.approx((plot.x0 + plot.x1) / 2, abs=2)
        assert (at.y0 + at.y1) / 2 == pytest.approx((plot.y0 + plot.y1) / 2, abs=10)
        assert ticks(axes) == {}


Page = dict[tuple[str, Shape], str]


@pytest.fixture
def page() -> Page:
    """Every plot of a page, as it stands there."""
    made: Page = {}
    for shape in (WIDE, NARROW):
        made["scores", shape] = charts.scores([1.0, 2.0], 4.0, shape)
        made["questions", shape] = charts.questions(MIXED, shape)
        made["costs", shape] = charts.costs(MIXED, shape)
    return made


def test_a_plot_is_an_element_with_a_name_that_fits_its_place(page: Page) -> None:
    for (_, shape), svg in page.items():
        root = ElementTree.fromstring(svg)
        assert svg.startswith("<svg ")
        assert root.attrib["class"] == shape.name
        assert root.attrib["role"] == "img"
        assert set(root.attrib) == {"class", "role", "aria-label", "viewBox", "version"}
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not tags & {"style", "metadata", "script", "image"}
        assert "text" in tags  # letters, which can be found and read aloud


def test_a_narrow_plot_fits_a_phone_and_its_letters_are_as_large(page: Page) -> None:
    for (_, shape), svg in page.items():
        root = ElementTree.fromstring(svg)
        width = float(root.attrib["viewBox"].split()[2])
        assert (600 if shape is WIDE else 250) < width < (660 if shape is WIDE else 320)
        assert set(re.findall("font-size: ([^;]*)", svg)) == {"10px"}


def test_a_plot_has_the_pages_colours_alone(page: Page) -> None:
    found = {
        c
        for svg in page.values()
        for c in re.findall(r"(?:fill|stroke)(?:: |=\")(url|[^;\"]+)", svg)
    }
    assert found == {"none", "url", *(f"var(--{name})" for name in charts.VARIABLES.values())}


def test_the_plots_of_a_page_share_no_names_of_their_parts(page: Page) -> None:
    """Else one of them would be painted with what belongs to another."""
    names: list[str] = []
    for svg in page.values():
        own = [one.attrib["id"] for one in ElementTree.fromstring(svg).iter() if "id" in one.attrib]
        meant = re.findall(r"url\(#([^)]*)\)|href=\"#([^\"]*)\"", svg)
        assert {one or other for one, other in meant} <= set(own)
        names += own
    assert len(names) == len(set(names))


def test_the_same_class_has_the_same_plots(page: Page) -> None:
    assert charts.questions(MIXED, NARROW) == page["questions", NARROW]
