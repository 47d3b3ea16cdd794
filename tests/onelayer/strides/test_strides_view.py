"""show_strides: its JavaScript arithmetic against torch, its page, and the widget behind it."""

import re

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onelayer
from onelayer.drawing.played import script_of
from onelayer.strides.strides_view import StridesView
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(StridesView)


@pytest.fixture(scope="module")
def js():
    return Script(StridesView)


def described(tensor):
    """A tensor as strides_view.js writes it."""
    return {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }


def is_error(answer):
    return isinstance(answer, dict) and "error" in answer


def either(function):
    """What torch makes, described, or None where it refuses."""
    try:
        return described(function())
    except (RuntimeError, IndexError, ValueError):
        return None


@st.composite
def tensors(draw):
    """Each element's value is its address; strides may be permuted, wide, 0, or overlap."""
    shape = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 6]), max_size=4))
    if draw(st.booleans()):
        stride = [draw(st.sampled_from([0, 1, 2, 3, 4, 6, 12])) for _ in shape]
    else:
        order = draw(st.permutations(range(len(shape))))
        stride, step = [0] * len(shape), 1
        for d in order:
            stride[d] = step
            step *= max(shape[d], 1) * draw(st.sampled_from([1, 1, 1, 2]))
    offset = draw(st.integers(0, 5))
    reach = offset + 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, stride, strict=True))
    return torch.arange(reach).as_strided(shape, stride, offset)


some_sizes = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6, 12]), max_size=5)
some_dim = st.integers(-5, 4)
fresh = settings(max_examples=400, derandomize=False)


@pytest.mark.slow
@fresh
@given(x=tensors())
def test_addresses_contiguity_overlap_and_bounds_are_torchs(js, x):
    view, walk = described(x), x.flatten().tolist()
    assert js("addresses", view) == walk
    assert js("isContiguous", view) == x.is_contiguous()
    assert js("isOverlapping", view) == (len(set(walk)) < len(walk))
    assert js("contiguousStride", view["shape"]) == list(torch.empty(x.shape).stride())
    for size in {0, max(walk, default=0), max(walk, default=0) + 1}:
        fits = either(lambda size=size: torch.arange(size).as_strided(*view.values())) is not None
        if x.numel():  # where nothing is read, torch has no bounds to check
            assert (js("outside", view, size) == []) == fits


@pytest.mark.slow
@fresh
@given(x=tensors(), data=st.data())
def test_the_address_of_an_index_and_its_formula(js, x, data):
    assume(x.numel())
    index = [data.draw(st.integers(0, n - 1)) for n in x.shape]
    assert js("addressOf", described(x), index) == x[tuple(index)].item()
    left, right = js("formula", described(x), index).split(" = ")
    assert eval(left.replace("·", "*")) == int(right) == x[tuple(index)].item()


@pytest.mark.slow
@fresh
@given(x=tensors(), a=some_dim, b=some_dim)
def test_transpose(js, x, a, b):
    assume(x.dim())  # torch lets a scalar be transposed by -1 and 0, we do not
    got, want = js("transpose", described(x), a, b), either(lambda: x.transpose(a, b))
    assert is_error(got) if want is None else got == want


@fresh
@given(
    x=tensors(),
    dim=some_dim,
    start=st.none() | st.integers(-8, 8),
    stop=st.none() | st.integers(-8, 8),
    step=st.integers(-1, 4),
)
def test_slice(js, x, dim, start, stop, step):
    assume(x.dim())
    got = js("slice", described(x), dim, start, stop, step)
    index = [slice(None)] * x.dim()
    if -x.dim() <= dim < x.dim() and step > 0:
        index[dim] = slice(start, stop, step)
        assert got == described(x[tuple(index)])
    else:
        assert is_error(got)


@fresh
@given(x=tensors(), data=st.data())
def test_expand(js, x, data):
    keep = [data.draw(st.sampled_from([n, n, -1, 3])) for n in x.shape]
    sizes = [*data.draw(st.lists(st.sampled_from([0, 1, 2, 5, -1]), max_size=2)), *keep]
    sizes = sizes[1:] if data.draw(st.integers(0, 9)) == 0 else sizes
    assume(x.dim() or -1 not in sizes)  # torch makes a scalar into a tensor of size -1, we do not
    got, want = js("expand", described(x), sizes), either(lambda: x.expand(sizes))
    assert is_error(got) if want is None else got == want


@pytest.mark.slow
@fresh
@given(x=tensors(), dim=some_dim, size=st.integers(-1, 5), step=st.integers(0, 3))
def test_unfold(js, x, dim, size, step):
    assume(x.dim())
    got, want = (
        js("unfold", described(x), dim, size, step),
        either(lambda: x.unfold(dim, size, step)),
    )
    assert is_error(got) if want is None else got == want


@fresh
@given(x=tensors(), data=st.data())
def test_view_gives_torchs_strides_or_says_that_it_needs_a_copy(js, x, data):
    sizes = data.draw(factors(x.numel()) | some_sizes)
    got, want = js("viewAs", described(x), sizes), either(lambda: x.view(sizes))
    if want is not None:
        assert got == want
    elif either(lambda: x.reshape(sizes)) is None:
        assert is_error(got)
    else:
        assert got is None


@st.composite
def factors(draw, n):
    """Sizes that multiply to n, some of them 1."""
    sizes, left = [], n
    while left > 1:
        sizes.append(draw(st.sampled_from([d for d in range(2, left + 1) if left % d == 0])))
        left //= sizes[-1]
    sizes += [1] * draw(st.integers(0, 2)) + ([0, 2] if n == 0 else [])
    return draw(st.permutations(sizes))


def test_the_oracle_sees_both_views_and_copies(js):
    x = described(torch.arange(12).view(3, 4))
    t = described(torch.arange(12).view(3, 4).T)
    assert js("viewAs", x, [2, 6])["stride"] == [6, 1]
    assert js("viewAs", t, [12]) is None
    assert js("viewAs", t, [2, 2, 3])["stride"] == [2, 1, 4]
    assert "12 elements do not make (5, 2)" in js("viewAs", x, [5, 2])["error"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("3, 4", [3, 4]), ("(3,4,)", [3, 4]), ("[ 3 4 ]", [3, 4]), ("", []), ("-1", [-1])],
)
def test_numbers_are_read_as_people_write_them(js, text, found):
    assert js("numbers", text) == found


@pytest.mark.parametrize("text", ["a", "3.5", "1e3", "3, x", "--1", "9" * 40, "</script>"])
def test_what_is_no_number_is_said(js, text):
    assert "is not a whole number" in js("numbers", text)["error"]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (([3, 4], [1], 0), "2 sizes, but 1 stride"),
        (([-1], [1], 0), "size is at least 0"),
        (([2], [-1], 0), "no negative strides"),
        (([2], [1], -1), "offset is at least 0"),
        (([10**5, 10**5], [1, 1], 0), "too many"),
        (([1] * 7, [1] * 7, 0), "too many to draw"),
    ],
)
def test_what_is_no_view_is_said(js, view, words):
    view = dict(zip(("shape", "stride", "offset"), view, strict=True))
    assert words in js("checked", view)["error"]


class TestPython:
    def test_a_start_in_row_major_order_fills_its_storage(self):
        view = onelayer.show_strides((2, 3, 4))
        assert (view.shape, view.stride, view.offset) == ((2, 3, 4), (12, 4, 1), 0)
        assert "over 24 floats" in repr(view)

    def test_the_storage_reaches_as_far_as_the_start(self):
        assert "over 15 floats" in repr(onelayer.show_strides((3, 2), (5, 0), offset=4))
        assert "over 4 floats" in repr(onelayer.show_strides((0, 2), offset=4))
        assert "over 1 floats" in repr(onelayer.show_strides(()))

    def test_text_twin(self):
        text = repr(onelayer.show_strides((3, 2), (1, 2)))
        assert text.splitlines()[1:] == ["  0 2", "  1 3", "  2 4"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (((3, 4), (1,)), "2 sizes .*1 strides"),
            (((3, -4),), "negative"),
            (((3, 4), (1, -1)), "negative"),
            (((1000, 1000),), "too many"),
        ],
    )
    def test_what_cannot_be_shown(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            onelayer.show_strides(*arguments)

    def test_the_head_shows_a_corner(self):
        assert len(repr(onelayer.show_strides((600, 64)))) < 2000


class TestHtml:
    def test_it_is_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.show_strides().html(), text="x: shape (3, 4)")

    def test_each_has_its_own_place(self):
        view = onelayer.show_strides()
        places = re.findall(r'id="(onelayer-strides-\w+)"', view.html() + view.html())
        assert len(set(places)) == 2

    def test_it_carries_the_state(self):
        html = onelayer.show_strides((3, 2), (1, 2), offset=7)._repr_html_()
        assert '{"shape": [3, 2], "stride": [1, 2], "offset": 7, "size": 12}' in html


class TestWidget:
    def test_it_runs_the_same_source_and_speaks_of_one_state(self):
        pytest.importorskip("anywidget")
        view = onelayer.show_strides((3, 4))
        assert view.widget._esm == SOURCE
        view.widget.view = {"shape": [4, 3], "stride": [1, 4], "offset": 0, "size": 12}
        assert (view.shape, view.stride) == ((4, 3), (1, 4))
        assert '"stride": [1, 4]' in view.html()
        assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(view.bundle())

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_strides()", "assert view.shape == (3, 4)"
        )


@pytest.fixture
def page(browser, tmp_path):
    html = onelayer.show_strides((3, 4)).html() + onelayer.show_strides((2, 2, 2)).html()
    with shown(browser, tmp_path, html) as page:
        yield page


class TestInABrowser:
    def first(self, page):
        return page.locator(".ol-strides").first

    def cells(self, page):
        return self.first(page).locator(".grids .cell").all_inner_texts()

    def test_two_views_fit_side_by_side_on_a_narrow_page(self, page):
        assert page.locator(".ol-strides").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") == 360

    def test_an_element_is_linked_to_its_float_and_its_twins(self, page):
        view = self.first(page)
        view.get_by_label("strides, in elements").fill("1, 1")
        view.get_by_role("gridcell", name="x[1, 1], address 2").hover()
        assert "x[1, 1] is at 0 + 1·1 + 1·1 = 2" in view.locator(".says").inner_text()
        marked = view.locator(".self, .same")
        names = [cell.get_attribute("aria-label") for cell in marked.all()]
        assert names == [f"x[{i}], address 2" for i in ("0, 2", "1, 1", "2, 0")] + [
            "address 2, read by 3 elements"
        ]

    def test_operations_edits_undo_and_reset(self, page):
        view = self.first(page)
        view.get_by_role("button", name="apply x.transpose(0, 1)").click()
        assert self.cells(page)[:4] == ["0", "4", "8", "1"]
        view.get_by_role("radio", name="view").click()
        view.get_by_role("button", name="apply x.view(-1)").click()
        assert "needs a copy" in view.locator(".answer").inner_text()
        view.get_by_role("button", name="copy 12 floats").click()
        assert self.cells(page) == [str(a) for a in range(12)]
        view.get_by_role("button", name="undo").click()
        assert self.cells(page)[:4] == ["0", "4", "8", "1"]
        view.get_by_role("button", name="reset").click()
        assert self.cells(page)[:4] == ["0", "1", "2", "3"]
        assert view.get_by_role("button", name="undo").is_disabled()

    def test_out_of_bounds_and_nonsense_are_said_in_words(self, page):
        view = self.first(page)
        view.get_by_label("strides, in elements").fill("5, 1")
        assert "out of bounds reads 12, 13" in view.locator(".facts").inner_text()
        assert view.get_by_role("gridcell", name="out of bounds").count() == 4
        view.get_by_label("strides, in elements").fill("5, x")
        assert '"x" is not a whole number' in view.get_by_role("alert").inner_text()
        assert view.locator("[aria-invalid=true]").count() == 1

    def test_the_keyboard_reaches_everything(self, page):
        view = self.first(page)
        view.get_by_role("gridcell", name="x[1, 1], address 5").focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Home"):
            page.keyboard.press(key)
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == "x[2, 0], address 8"
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == "address 8, read by 1 element"

    def test_the_page_says_light_or_dark_before_the_system_does(self, browser, tmp_path):
        file, grounds = tmp_path / "page.html", {}
        file.write_text(f"<!doctype html><body>{onelayer.show_strides().html()}", encoding="utf-8")
        page = browser.new_page(color_scheme="dark")
        page.goto(file.as_uri())
        for attribute, value in [
            ("", ""),
            ("data-theme", "light"),
            ("data-jp-theme-light", "true"),
        ]:
            if attribute:
                page.evaluate("([a, v]) => document.body.setAttribute(a, v)", [attribute, value])
            ground = "getComputedStyle(document.querySelector('.ol-strides')).backgroundColor"
            grounds[attribute] = page.evaluate(ground)
            if attribute:
                page.evaluate("a => document.body.removeAttribute(a)", attribute)
        page.close()
        dark, *light = grounds.values()
        assert dark == "rgb(20, 24, 29)"
        assert set(light) == {"rgb(255, 255, 255)"}


def test_the_limit_is_the_same_on_both_sides():
    assert f"LIMIT = {100_000:_};" in SOURCE
    with pytest.raises(ValueError, match="at most 100,000"):
        onelayer.show_strides((100_001,))
