"""show_storage: what it says about sharing, and that every strange tensor still draws."""

import struct
import subprocess
import sys
import textwrap

import matplotlib
import pytest
import torch

import onelayer
from onelayer.drawing.sketch import LIGHT, Sketch, text_width
from onelayer.strides.storage_grids import _DIGITS, _FAINT
from onelayer.strides.storage_picture import _RAMPS, _all_tints, _blend


def png_size(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


STRANGE = {
    "scalar": lambda: torch.tensor(3.0),
    "no elements": lambda: torch.empty(0, 3),
    "no elements, 4-D": lambda: torch.empty(2, 0, 3, 1),
    "one": lambda: torch.ones(1, 1, 1, 1),
    "expanded": lambda: torch.arange(4.0).expand(3, 4),
    "expanded without end": lambda: torch.zeros(1).expand(10**6, 10**6),
    "overlapping": lambda: torch.arange(6.0).as_strided((4, 3), (1, 1)),
    "overlapping, large": lambda: torch.arange(2000.0).as_strided((1000, 1000), (1, 1)),
    "four dimensions": lambda: torch.arange(36).view(2, 3, 2, 3),
    "six dimensions": lambda: torch.zeros(2, 1, 2, 3, 2, 2).transpose(0, 5),
    "channels_last": lambda: torch.zeros(2, 64, 9, 9).to(memory_format=torch.channels_last),
    "offset": lambda: torch.arange(12)[5:],
    "head": lambda: torch.zeros(600, 64).T,
    "long vector": lambda: torch.zeros(100_000),
    "meta": lambda: torch.empty(10**12, device="meta"),
    "freed": lambda: freed(torch.arange(12.0)),
    "bool": lambda: torch.zeros(3, dtype=torch.bool),
    "complex": lambda: torch.zeros(3, dtype=torch.complex128)[::2].conj(),
    "requires grad": lambda: torch.nn.Linear(3, 2).weight,
    "inference": lambda: torch.nn.Linear(3, 2).weight.detach(),
}


def freed(tensor):
    tensor.untyped_storage().resize_(0)  # what FSDP does between layers
    return tensor


@pytest.mark.parametrize("name", STRANGE)
def test_every_strange_tensor_draws_small_and_says_its_facts(name):
    tensor = STRANGE[name]()
    picture = onelayer.show_storage(tensor, names=[name])
    width, height = png_size(picture._repr_png_())
    assert 50 < width < 1500
    assert 50 < height < 1600
    for words in (repr(picture), picture.alt):
        for fact in (tuple(tensor.shape), tensor.stride(), f"offset {tensor.storage_offset()}"):
            assert str(fact) in words
    assert len(repr(picture)) < 5000  # corners, never 38,400 cells


def test_repr_draws_addresses_and_values():
    x = torch.arange(12.0).view(3, 4)
    assert repr(onelayer.show_storage(x, x.T, names=["x", "t"])) == textwrap.dedent("""\
        storage A: 12 float32, 48 bytes
          address    0  1  2  3  4  5  6  7  8  9 10 11
          value      0  1  2  3  4  5  6  7  8  9 10 11
        x: shape (3, 4), strides (4, 1), offset 0, 48 bytes, contiguous, shares storage A with t
           0  1  2  3
           4  5  6  7
           8  9 10 11
        t: shape (4, 3), strides (1, 4), offset 0, 48 bytes, not contiguous, shares storage A with x
           0  4  8
           1  5  9
           2  6 10
           3  7 11""")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1:, ::2],
        lambda x: x.T,
        lambda x: x.unfold(0, 2, 1),
        lambda x: x[:, 1].expand(2, 6),
        lambda x: x[2, 3],
        lambda x: x.as_strided((2, 3), (2, 1), 5),
    ],
)
def test_the_drawn_addresses_are_where_torch_finds_the_elements(make):
    x = torch.arange(24).view(6, 4)  # each element's value is its own address
    view = make(x)
    (storage,) = onelayer.show_storage(x, view).storages
    cells = [c for panel in storage.layouts[1].panels for row in panel.cells for c in row]
    assert cells == view.flatten().tolist()
    for cell in range(24):
        assert storage.layouts[1].readers(cell) == (view == cell).sum().item()


def test_corners_of_the_head_are_true_addresses():
    w = torch.arange(600 * 64).view(600, 64)
    (storage,) = onelayer.show_storage(w, w.T).storages
    for tensor, layout in zip((w, w.T), storage.layouts, strict=True):
        (panel,) = layout.panels
        for r, row in zip(panel.rows, panel.cells, strict=True):
            for c, cell in zip(panel.columns, row, strict=True):
                if r is None or c is None:
                    assert cell is None
                else:
                    assert cell == tensor[r, c]
    assert None in storage.drawn
    assert len(storage.drawn) < 60


def test_who_shares_with_whom():
    x = torch.zeros(6)
    copy = x.clone()
    picture = onelayer.show_storage(x, copy, x[2:])
    assert [s.letter for s in picture.storages] == ["A", "B"]
    assert [[lay.name for lay in s.layouts] for s in picture.storages] == [["x", "x[2:]"], ["copy"]]
    assert "shares storage A with x[2:]" in picture.alt
    assert "shares nothing" in picture.alt


def test_one_numpy_array_wrapped_twice_is_one_memory():
    array = torch.zeros(4).numpy()
    one, two = torch.from_numpy(array), torch.from_numpy(array)
    assert len(onelayer.show_storage(one, two).storages) == 1


def test_two_empty_tensors_share_nothing():
    assert len(onelayer.show_storage(torch.empty(0), torch.empty(0)).storages) == 2


def test_element_sizes_that_differ_count_in_the_smallest():
    h = torch.zeros(6)
    (storage,) = onelayer.show_storage(h, h.view(torch.int16), h[1::2]).storages
    assert (storage.cells, storage.cell_bytes) == (12, 2)
    assert storage.layouts[2].panels[0].cells == ((2, 6, 10),)
    assert [storage.layouts[2].readers(c) for c in range(5)] == [0, 0, 1, 1, 0]


def test_overlap_is_said():
    b = torch.arange(4.0)
    assert "12 elements over 4 cells" in onelayer.show_storage(b.expand(3, 4)).alt
    assert "over" not in onelayer.show_storage(b).alt
    large = torch.zeros(2000).as_strided((1000, 1000), (1, 1))
    assert "several elements per cell" in onelayer.show_storage(large, names=["large"]).alt
    assert "several" not in onelayer.show_storage(torch.zeros(600, 64), names=["w"]).alt


class TestNames:
    def test_are_what_the_caller_wrote(self):
        x = torch.zeros(2, 3)
        picture = onelayer.show_storage(
            x,  # a comment between
            x[1:, ::2].T,
        )
        assert [lay.name for lay in picture.storages[0].layouts] == ["x", "x[1:, ::2].T"]

    def test_are_cut_when_long(self):
        x = torch.zeros(2, 3)
        picture = onelayer.show_storage(x.transpose(0, 1).transpose(0, 1).transpose(0, 1))
        assert picture.storages[0].layouts[0].name == "x.transpose(0, 1).trans…"

    def test_are_numbers_where_the_source_is_out_of_sight(self):
        tensors = [torch.zeros(2), torch.zeros(2)]
        names = [s.layouts[0].name for s in onelayer.show_storage(*tensors).storages]
        assert names == ["tensor 0", "tensor 1"]
        scope = {"onelayer": onelayer, "torch": torch}
        exec("picture = onelayer.show_storage(torch.zeros(2))", scope)
        assert scope["picture"].storages[0].layouts[0].name == "tensor 0"

    def test_may_be_given_in_any_script_and_with_markup(self):
        x = torch.zeros(2)
        picture = onelayer.show_storage(x, x, names=["重み $x_1$", '<b onclick="x">'])
        html = picture._repr_html_()
        assert "<b onclick" not in html
        assert "&lt;b onclick" in html


class TestErrors:
    def test_no_tensors(self):
        with pytest.raises(ValueError, match="at least one tensor"):
            onelayer.show_storage()

    def test_names_that_do_not_match(self):
        with pytest.raises(ValueError, match="1 tensors, but 2 names"):
            onelayer.show_storage(torch.zeros(2), names=["a", "b"])

    @pytest.mark.parametrize("thing", [[1, 2], None, "w", torch.nn.Linear(2, 2)])
    def test_not_a_tensor(self, thing):
        with pytest.raises(TypeError, match=f"got {type(thing).__name__}"):
            onelayer.show_storage(thing)

    def test_a_sparse_tensor_has_no_strides(self):
        with pytest.raises(TypeError, match="sparse_coo"):
            onelayer.show_storage(torch.eye(2).to_sparse())


def test_html_has_alt_text_two_themes_and_fetches_nothing():
    x = torch.arange(12.0).view(3, 4)
    html = onelayer.show_storage(x, x.T)._repr_html_()
    assert html.count("<img ") == html.count('alt="storage A') == 2
    assert "prefers-color-scheme" in html
    assert "data-jp-theme-light" in html
    assert html.count("src=") == html.count('src="data:image/webp;base64,') == 2
    assert "http" not in html


def test_it_keeps_no_tensor_alive_and_touches_no_matplotlib_state():
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False)
    x = torch.zeros(4)
    picture = onelayer.show_storage(x)
    picture._repr_png_()
    count = sys.getrefcount(x)
    del picture
    assert sys.getrefcount(x) == count
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend(auto_select=False) == backend


SHELL = """
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.display_pub = pub = CapturingDisplayPublisher()

def run(cell):
    pub.outputs.clear()
    shell.run_cell(cell, store_history=True).raise_error()
    return [sorted(output["data"]) for output in pub.outputs]

run("import torch, onelayer; x = torch.zeros(2, 3)")
everything = [["image/png", "text/html", "text/plain"]]
assert run("p = onelayer.show_storage(x); 7") == everything, "in the middle of a cell"
assert "x: shape (2, 3)" in pub.outputs[0]["data"]["text/plain"], "a cell's source gives the names"
assert run("onelayer.show_storage(x)") == everything, "as the last line, once"
assert run("p") == everything, "and again when it is asked for later"
assert run("onelayer.show_storage(x); onelayer.show_storage(x.T)") == 2 * everything
"""


@pytest.mark.slow
def test_a_notebook_shows_each_picture_once():
    subprocess.run([sys.executable, "-c", SHELL], check=True, stdout=subprocess.DEVNULL)


class Silent(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("nobody may read")


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("ink", [_DIGITS, _FAINT])
def test_digits_can_be_read_on_every_tint(ink):
    """Addresses once had 3:1 on the deep cells, in the smallest letters of the course."""
    tints = [_blend(ramp, step / 10) for ramp in _RAMPS for step in range(11)]
    assert all((luminance(tint) + 0.05) / (luminance(ink) + 0.05) >= 4.5 for tint in tints)


REACH = {"left": 0.0, "center": 0.5, "right": 1.0}
DIGIT = 0.039  # height of a digit, in units per point of its size


@pytest.mark.parametrize("numel", [12, 480, 7000, 38_400, 2_000_000])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_no_value_and_no_address_lies_on_another(monkeypatch, numel, dtype):
    drawn = []

    def record(sketch, x, y, words, *, size=7.5, anchor="left", **style):
        width = text_width(words, size)
        left, high = x - REACH[anchor] * width, size * DIGIT
        drawn.append((left, left + width, y - high / 2, y + high / 2, words))

    monkeypatch.setattr(Sketch, "text", record)
    x = (torch.arange(numel) % 100).to(dtype).neg().view(-1, 4)
    onelayer.show_storage(x, x.T, x.view(-1)[::3], names=["x", "x.T", "third"]).drawn(LIGHT)
    assert len(drawn) > 40
    for place, (left, right, top, bottom, words) in enumerate(drawn):
        for other in drawn[:place]:
            apart = left >= other[1] or other[0] >= right or top >= other[3] or other[2] >= bottom
            assert apart, (words, other[4])


class TestValues:
    def test_a_copy_shows_its_values_and_keeps_their_colours(self):
        x = torch.arange(6.0).view(2, 3)
        picture = onelayer.show_storage(x, x.T.contiguous(), names=["x", "copy"])
        first, copy = picture.storages
        assert [copy.values[cell] for cell in range(6)] == [0, 3, 1, 4, 2, 5]
        assert "  value     0 3 1 4 2 5" in repr(picture)
        of_x, of_copy = _all_tints(picture.storages)
        assert {of_x[c] for c in range(6)} == {of_copy[c] for c in range(6)}
        for cell in range(6):
            assert of_copy[cell] == of_x[first.layouts[0].cell(divmod(int(copy.values[cell]), 3))]

    def test_other_values_and_equal_ones_have_colours_of_their_own(self):
        x = torch.arange(6.0)
        for other in (x + 1, torch.zeros(6)):
            ours, theirs = _all_tints(onelayer.show_storage(x, other).storages)
            assert not set(ours.values()) & set(theirs.values())
        zeros = torch.zeros(6)
        ours, theirs = _all_tints(onelayer.show_storage(zeros, zeros.clone()).storages)
        assert not set(ours.values()) & set(theirs.values())

    @pytest.mark.parametrize("name", ["meta", "freed", "subclass"])
    def test_where_there_are_none_the_cells_are_empty(self, name):
        silent = torch.zeros(6).as_subclass(Silent)
        tensor = {"meta": torch.zeros(6, device="meta"), "freed": STRANGE["freed"]()}
        tensor["subclass"] = silent
        picture = onelayer.show_storage(tensor[name], names=[name])
        (storage,) = picture.storages
        assert not storage.values
        assert _all_tints(picture.storages) == [{}]
        assert ("no values" in picture.alt) == (name != "freed")  # which has no cell either

    @pytest.mark.parametrize(
        ("tensor", "texts"),
        [
            (torch.tensor([0.0, -3.0, 0.125, -0.00067]), ["0", "-3", "0.12", "-7e-04"]),
            (
                torch.tensor([1e9, 123.4, float("nan"), float("-inf")]),
                ["1e+09", "123", "nan", "-inf"],
            ),
            (torch.tensor([True, False]), ["1", "0"]),
            (torch.tensor([1 + 2j]).conj(), ["1-2j"]),
            (torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True), ["0.5"]),
        ],
    )
    def test_are_short(self, tensor, texts):
        (storage,) = onelayer.show_storage(tensor).storages
        assert [storage.text(cell) for cell in range(len(texts))] == texts
