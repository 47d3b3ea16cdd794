"""show_bits: its JavaScript arithmetic against torch, its page, and the widget behind it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onelayer
from onelayer.drawing.played import script_of
from onelayer.precision.bits_view import BitsView
from onelayer.precision.formats import FORMATS, pattern_of, value_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SHORT = [FORMATS[name] for name in ("bf16", "fp16", "e5m2", "e4m3fn")]
by_name = pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
fresh = settings(max_examples=150, derandomize=False)
patterns = st.integers(0, 2**32 - 1)
floats = st.floats(width=32, allow_nan=False) | st.integers(-300, 300).map(lambda k: k / 4)


@pytest.fixture(scope="module")
def js():
    return Script(BitsView)


def called(js, function, form, *arguments):
    """What a function of the page returns; NaN and infinities come as texts."""
    given = ", ".join(str(one) for one in arguments)
    found = js.value_of(f"told({function}({given}, FORMATS.{form.name}))")
    # JavaScript writes a large float without its point: Python must not read a longer integer.
    return float(found) if function == "value" and isinstance(found, int) else found


@pytest.fixture(scope="module", autouse=True)
def told(js):
    js._racer.eval(
        "const told = (x) => Object.is(x, -0) ? '-0'"
        " : typeof x === 'number' && !Number.isFinite(x) ? String(x) : x"
    )


def as_told(number):
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else number


def literal(number):
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), repr(number))


def near(x, form):
    """The pattern that torch stores. torch before 2.13 has NaN where fp8's "fn" runs over."""
    pattern = pattern_of(x, form)
    over = form.name == "e4m3fn" and abs(x) > 448
    return (pattern & 0x80) | 0x7E if over else pattern


@by_name
@fresh
@given(pattern=patterns)
def test_the_value_of_a_pattern_is_torchs(js, form, pattern):
    pattern %= 2**form.bits
    assert called(js, "value", form, pattern) == as_told(value_of(pattern, form))


@pytest.mark.parametrize("form", SHORT, ids=lambda form: form.name)
@fresh
@given(x=floats)
def test_a_number_is_rounded_as_torch_does(js, form, x):
    assert called(js, "nearest", form, literal(x)) == near(x, form)


@fresh
@given(x=st.floats(width=32, allow_nan=False, allow_subnormal=False))
def test_a_float32_is_itself_and_tf32_its_neighbour(js, x):
    for name in ("fp32", "tf32"):
        assert called(js, "nearest", FORMATS[name], literal(x)) == pattern_of(x, FORMATS[name])


@pytest.mark.parametrize("form", SHORT, ids=lambda form: form.name)
def test_every_tie_goes_to_the_even_pattern(js, form):
    last = js.value_of(f"largest(FORMATS.{form.name})")
    for pattern in range(0, last, max(1, last // 500)):
        tie = (value_of(pattern, form) + value_of(pattern + 1, form)) / 2
        assert called(js, "nearest", form, repr(tie)) == pattern + pattern % 2


@pytest.mark.parametrize(
    ("name", "x", "number"),
    [
        ("bf16", 257.0, 256.0),
        ("fp16", 65519.0, 65504.0),
        ("fp16", 65520.0, math.inf),
        ("fp16", 2.0**-25, 0.0),
        ("fp16", -(2.0**-25), -0.0),
        ("fp16", 3 * 2.0**-26, 2.0**-24),
        ("e5m2", 1e9, math.inf),
        ("e4m3fn", 1e9, 448.0),
        ("e4m3fn", -math.inf, -448.0),
        ("bf16", math.nan, math.nan),
    ],
)
def test_the_ends_of_the_range(js, name, x, number):
    pattern = js.value_of(f"nearest({'NaN' if math.isnan(x) else literal(x)}, FORMATS.{name})")
    assert called(js, "value", FORMATS[name], pattern) == as_told(number)


@by_name
@fresh
@given(pattern=patterns)
def test_the_next_number_is_the_next(js, form, pattern):
    pattern %= 2**form.bits
    here = value_of(pattern, form)
    for by in (1, -1):
        code = f"told(next({pattern}, FORMATS.{form.name}, {by}))"
        other = js.value_of(code)
        if other is None:
            assert math.isnan(here) or abs(here) in (math.inf, 448.0)
            continue
        there = value_of(other, form)
        assert there > here if by > 0 else there < here
        middle = (here + there) / 2  # of the two, and nothing lies between them
        if math.isfinite(middle) and form.name != "fp32":
            found = js.value_of(f"nearest({literal(middle)}, FORMATS.{form.name})")
            assert value_of(found, form) in (here, there)  # 0 has two patterns


@by_name
def test_one_ulp_at_one_is_eps(js, form):
    one = pattern_of(1.0, form)
    assert called(js, "ulp", form, one) == 2.0**-form.fraction_bits
    assert called(js, "ulp", form, 0) == called(js, "ulp", form, 1) > 0


@pytest.mark.parametrize("form", SHORT, ids=lambda form: form.name)
def test_what_becomes_a_number_becomes_it(js, form):
    for pattern in (0, 1, pattern_of(1.0, form), pattern_of(3.25, form)):
        low, high = called(js, "catches", form, pattern)
        inside = [low + (high - low) * share for share in (0.01, 0.5, 0.99)]
        assert {
            called(js, "nearest", form, repr(x)) & (2 ** (form.bits - 1) - 1) for x in inside
        } == {pattern}


def test_a_bit_is_pressed_and_pressed_back(js):
    for place in (0, 7, 15, 31):
        pressed = js("flipped", 0x40A00000, place)
        assert pressed == 0x40A00000 ^ (1 << place)
        assert js("flipped", pressed, place) == 0x40A00000


class TestPython:
    def test_it_says_its_bits(self):
        view = onelayer.show_bits(13.13, "bf16")
        assert repr(view) == "13.13 in bf16: 0 10000010 1010010, which is 13.125"
        assert (view.format, view.bits, view.number) == ("bf16", 0x4152, 13.125)

    @pytest.mark.parametrize("value", [math.nan, math.inf, 1e39])
    def test_it_begins_with_a_float32(self, value):
        with pytest.raises(ValueError, match="finite float32"):
            onelayer.show_bits(value)
        with pytest.raises(ValueError, match="finite float32"):
            onelayer.show_bits(numbers={"x": value})

    def test_an_unknown_format_is_told_the_known_ones(self):
        with pytest.raises(ValueError, match="choose one of fp32, tf32, bf16"):
            onelayer.show_bits(1.0, "fp64")


def test_it_is_one_piece_that_fetches_nothing():
    expect_one_piece(onelayer.show_bits(13.13).html(), text="in bf16: 0 10000010")


def test_the_widget_follows_the_reader():
    pytest.importorskip("anywidget")
    view = onelayer.show_bits(1.0)
    assert view.widget._esm == script_of(BitsView)
    view.widget.view = {**view.view, "bits": 0x7F80, "exact": "Infinity", "format": "bf16"}
    assert view.number == math.inf
    assert repr(view) == "inf in bf16: 0 11111111 0000000, which is inf"


def test_it_shows_without_anywidget():
    expect_html_without_anywidget("view = onelayer.show_bits(13.13)")


@pytest.mark.browser
class TestInABrowser:
    @pytest.fixture
    def view(self, browser, tmp_path):
        made = onelayer.show_bits(13.13, "bf16", numbers={"the smallest gradient": 1e-9})
        with shown(browser, tmp_path, made.html()) as page:
            yield page.locator(".ol-bits")

    def test_a_bit_is_pressed_by_key_and_keeps_the_focus(self, view):
        key = view.get_by_role("button", name="fraction bit 1/2", exact=True)
        key.press("Enter")
        assert "= 9.125" in view.locator(".says").inner_text()
        assert key.get_attribute("aria-pressed") == "false"
        assert view.page.evaluate("document.activeElement.getAttribute('aria-label')") == (
            "fraction bit 1/2"
        )

    def test_neighbours_formats_and_numbers(self, view):
        view.get_by_role("button", name="next up").click()
        assert "= 13.1875" in view.locator(".says").inner_text()
        view.get_by_role("button", name="fp16", exact=True).click()
        assert view.locator(".fraction button").count() == 10
        view.get_by_label("a number of the head").select_option(label="the smallest gradient")
        assert view.locator(".says").inner_text().endswith("= 0")
        assert "1e\u22129" in view.locator(".facts").inner_text()

    def test_what_is_typed_is_rounded_or_refused(self, view):
        typed = view.get_by_label("a number", exact=True)
        typed.fill("257")
        typed.press("Enter")
        assert "= 256" in view.locator(".says").inner_text()
        typed.fill("two")
        typed.press("Enter")
        assert '"two" is not a number' in view.locator(".says").inner_text()

    def test_infinity_and_nan_have_no_neighbours_to_draw(self, view):
        for text in ("1e40", "nan"):
            typed = view.get_by_label("a number", exact=True)
            typed.fill(text)
            typed.press("Enter")
            assert view.locator("svg").count() == 0
        assert view.get_by_role("button", name="next up").is_disabled()
