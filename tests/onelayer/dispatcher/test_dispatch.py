"""show_dispatch and play_dispatch: key sets, tables and ways, against the dispatcher that runs."""

import contextlib
import itertools
import re
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import onelayer
from onelayer.dispatcher.dispatch import Entry, dispatch_table, in_order, key_set, path
from onelayer.dispatcher.dispatch_view import OPERATORS, START, DispatchView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(DispatchView)


class Silent(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def runs(op, *tensors):
    return [stop.entry.key for stop in path(op, *tensors) if stop.fate == "runs"]


class TestKeySet:
    def test_of_no_tensor_it_is_empty(self):
        assert key_set() == ()

    def test_it_is_torchs_own_highest_first(self):
        x = torch.ones(2)
        assert key_set(x)[-1] == "CPU"
        assert set(key_set(x)) == set(re.findall(r"\w+", str(torch._C._dispatch_keys(x)))) - {
            "DispatchKeySet"
        }
        assert key_set(x) == in_order(key_set(x))

    def test_of_several_it_is_the_union(self):
        x, sparse = torch.ones(2), torch.ones(2).to_sparse()
        assert set(key_set(x, sparse)) == set(key_set(x)) | set(key_set(sparse))

    def test_requires_grad_changes_nothing(self):
        assert key_set(torch.ones(2, requires_grad=True)) == key_set(torch.ones(2))


class TestTable:
    def test_an_operator_that_is_none(self):
        with pytest.raises(RuntimeError, match="schema"):
            dispatch_table("aten::no_such_thing")

    def test_an_overload_has_a_table_of_its_own(self):
        assert dispatch_table("aten::add.Tensor") != dispatch_table("aten::add_.Tensor")

    def test_linear_is_composite_and_addmm_is_not(self):
        assert dispatch_table("aten::linear")["CPU"].composite
        assert not dispatch_table("aten::addmm")["CPU"].composite

    def test_fallthrough_is_read(self):
        table = dispatch_table("aten::addmm")
        assert table["ADInplaceOrView"].falls_through
        assert not table["CPU"].falls_through

    def test_it_sees_a_new_registration_and_its_end(self):
        before = dispatch_table("aten::sinc")["SparseCsrCPU"]
        lib = torch.library.Library("aten", "IMPL")
        lib.impl("sinc", lambda x: x, "SparseCsrCPU")
        assert dispatch_table("aten::sinc")["SparseCsrCPU"].where == "test_dispatch.py"
        lib._destroy()
        assert dispatch_table("aten::sinc")["SparseCsrCPU"] == before

    def test_a_kernel_from_a_notebook_is_called_that(self):
        source = "lib = torch.library.Library('aten', 'IMPL')"
        cell = {"torch": torch}
        exec(compile(source, "/tmp/ipykernel_1/9876.py", "exec"), cell)
        lib = cell["lib"]
        lib.impl("sinc", lambda x: x, "FPGA")
        assert dispatch_table("aten::sinc")["FPGA"].where == "a notebook cell"
        lib._destroy()


class TestPath:
    w = torch.ones(4, 3, requires_grad=True)

    def test_a_plain_call(self):
        assert runs("aten::addmm", self.w) == ["AutogradCPU", "CPU"]

    def test_a_composite_ends_where_it_begins(self):
        assert runs("aten::linear", self.w) == ["AutogradCPU"]

    def test_modes_add_and_exclude(self):
        with torch.autocast("cpu", torch.bfloat16):
            assert runs("aten::addmm", self.w)[0] == "AutocastCPU"
        with torch.inference_mode():
            assert runs("aten::addmm", self.w) == ["CPU"]
        with torch.no_grad():
            assert runs("aten::addmm", self.w) == ["AutogradCPU", "CPU"]
        with Silent():
            assert runs("aten::addmm", self.w)[-1] == "Python"

    def test_a_key_without_a_kernel_is_where_the_call_raises(self):
        x = torch.ones(2).to_mkldnn()
        *_, last = [stop for stop in path("aten::index_select", x) if stop.fate == "runs"]
        assert last.entry == Entry("MkldnnCPU", "missing")
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.index_select(x, 0, torch.tensor([0]))


class TestPicture:
    def test_it_says_in_words_what_it_draws(self):
        w = torch.ones(4, 3)
        picture = onelayer.show_dispatch("aten::addmm", w)
        assert picture.ran == ("AutogradCPU", "CPU")
        for key in key_set(w):
            assert key in picture.alt
            assert key in repr(picture)
        assert picture._repr_png_().startswith(b"\x89PNG")
        assert picture.images[0] != picture.images[1]  # light and dark

    def test_a_call_without_tensors(self):
        assert onelayer.show_dispatch("aten::empty.memory_format").ran == ("BackendSelect",)


@pytest.fixture(scope="module")
def stops():
    """`stops` of dispatch_view.js."""
    return partial(Script(DispatchView), "stops")


def made(state):
    """The tensor that the state describes."""
    with torch.inference_mode() if state["made"] else contextlib.nullcontext():
        x = torch.ones(3, device=state["device"])
        if state["layout"] == "sparse_coo":
            indices = torch.zeros(1, 1, dtype=torch.int64, device=state["device"])
            # check_invariants=False says the same, but torch 2.11 forgets it in inference mode
            with torch.sparse.check_sparse_tensor_invariants(False):
                x = torch.sparse_coo_tensor(indices, x[:1], (3,))
        elif state["negative"]:
            x = torch._neg_view(x)
    return x if state["made"] else x.requires_grad_(state["needs"])


@contextlib.contextmanager
def thread(state):
    grad = {"enabled": torch.enable_grad, "no_grad": torch.no_grad}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=state["autocast"]))
        stack.enter_context(grad.get(state["grad"], torch.inference_mode)())
        if state["mode"]:
            stack.enter_context(Silent())
        yield


STATES = [
    dict(zip(START, values, strict=True))
    for values in itertools.product(
        ["cpu", "meta"],
        ["strided", "sparse_coo"],
        *[[False, True]] * 4,
        ["enabled", "no_grad", "inference_mode"],
        [False, True],
    )
]


@pytest.mark.parametrize("op", OPERATORS)
def test_the_views_ways_are_torchs_in_every_state(stops, op):
    view = onelayer.play_dispatch(op).view
    for state in STATES:
        x = made(state)
        with thread(state):
            truth = [[stop.entry.key, stop.fate] for stop in path(op, x)]
        got = stops(state, view["tables"][op], view["order"], view["ends"])
        assert got == truth, state


class TestView:
    def test_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.play_dispatch().html(), text="aten::linear")

    def test_it_takes_any_operator(self):
        assert "aten::sin" in onelayer.play_dispatch("aten::sin").view["tables"]
        with pytest.raises(RuntimeError):
            onelayer.play_dispatch("aten::no_such_thing")

    def test_it_runs_the_same_source_as_a_widget(self):
        pytest.importorskip("anywidget")
        view = onelayer.play_dispatch()
        assert view.widget._esm == SOURCE
        view.widget.view = {**view.view, "autocast": True}
        assert view.view["autocast"]
        assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(view.bundle())

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget("view = onelayer.play_dispatch()")


def test_in_a_browser_a_choice_changes_the_way(browser, tmp_path):
    html = onelayer.play_dispatch("aten::addmm").html()
    with shown(browser, tmp_path, html) as page:
        assert page.locator(".says").inner_text() == "The way: AutogradCPU → CPU."
        page.get_by_label('autocast("cpu")').check()
        assert page.locator(".way .runs code").all_inner_texts()[0] == "AutocastCPU"
        page.get_by_label("gradients").select_option("inference_mode")
        assert page.locator(".way .excluded code").all_inner_texts() == ["AutogradCPU"]
        page.get_by_label("operator").select_option("aten::linear")
        assert "calls other operators" in page.locator(".says").inner_text()
        page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
