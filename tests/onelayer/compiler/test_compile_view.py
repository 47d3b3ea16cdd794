"""show_compile: what lights up, against the story itself; its page; and its text."""

import re

import pytest
import torch
import torch.nn.functional as F

import onelayer
from onelayer.compiler.compile_view import CompileView, short
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)


def head_loss(x, weight, bias, target):
    z = F.linear(x, weight, bias)
    z = z.clamp(-30, 30)
    return F.cross_entropy(z, target)


@pytest.fixture(scope="module")
def story():
    w, b = torch.randn(6, 4, requires_grad=True), torch.randn(6, requires_grad=True)
    target = torch.tensor([0, 2, 5])
    return onelayer.compile_story(head_loss, torch.randn(3, 4), w, b, target, backend="aot_eager")


@pytest.fixture(scope="module")
def view(story):
    return onelayer.show_compile(story)


@pytest.fixture(scope="module")
def js():
    return Script(CompileView)


def entries(view, name):
    return next(column["entries"] for column in view.columns if column["name"] == name)


class TestLinks:
    def test_each_call_has_its_line_and_its_instructions(self, view, story):
        """By another way: the names of the call stand in the line and in the bytecode."""
        for name in ("linear", "clamp", "cross_entropy"):
            (node,) = (n for n in story.pieces[0].captured.calls if n.target == name)
            (line,) = (e["text"] for e in entries(view, "Python") if node.name in e["ops"])
            assert f".{name}(" in line
            read = [e["text"] for e in entries(view, "bytecode") if node.name in e["ops"]]
            assert any(name in text.split() for text in read)  # "clamp + NULL|self" on 3.13

    def test_every_joint_node_belongs_to_a_call(self, view, story):
        ops = {node.name for node in story.pieces[0].captured.calls}
        joint = entries(view, "joint")
        assert {e["side"] for e in joint} == {"forward", "backward"}
        assert all(set(e["ops"]) <= ops for e in joint)
        assert sum(not e["ops"] for e in joint) == 0

    def test_a_matrix_product_is_the_linears(self, view, story):
        linear = next(n.name for n in story.pieces[0].captured.calls if n.target == "linear")
        products = [e for e in entries(view, "joint") if re.search(r"aten\.(add)?mm$", e["text"])]
        assert len(products) == 2
        assert all(e["ops"] == [linear] for e in products)

    def test_what_lights_up_is_what_shares_a_call(self, js, view):
        for op in view.view["ops"]:
            found = js("lit", view.view, [op])
            for column, places in zip(view.columns, found, strict=True):
                assert places == [k for k, e in enumerate(column["entries"]) if op in e["ops"]]
        assert js("lit", view.view, []) == [[] for _ in view.columns]

    @pytest.mark.compiler
    def test_kernels_are_linked_through_their_nodes(self):
        """Two elementwise calls are one kernel, which belongs to both."""

        def two(x):
            y = x * 2
            return y + 1

        shown = onelayer.show_compile(onelayer.compile_story(two, torch.randn(16, 64)))
        (kernel,) = entries(shown, "kernels")
        assert kernel["ops"] == shown.view["ops"]
        assert "kernel(" in kernel["full"]
        assert entries(shown, "forward")


class TestSteps:
    def test_steps_go_through_the_calls_and_stop(self, js, view):
        state, seen = view.view, []
        for _ in range(5):
            seen += state["picked"]
            state = js("stepped", state, 1)
        calls = view.view["ops"]
        assert seen == calls + [calls[-1]] * (5 - len(calls))
        assert js("stepped", view.view, -1)["picked"] == calls[:1]

    def test_a_click_picks_all_calls_of_an_entry(self, js, view):
        state = js("clicked", view.view, 0, 1)
        assert (state["picked"], state["entry"]) == (view.columns[0]["entries"][1]["ops"], [0, 1])
        nobody = js("clicked", state, 0, 0)  # the line with `def`
        assert (nobody["picked"], nobody["entry"]) == (state["picked"], [0, 0])

    def test_it_says_how_many(self, js, view):
        said = js("told", view.view)
        counts = [len(places) for places in js("lit", view.view, view.view["picked"])]
        assert said.endswith(f"{counts[-1]} in {view.columns[-1]['name']}")


class TestText:
    def test_each_call_at_each_station(self, view):
        text = repr(view)
        assert text.count("  bytecode ") == len(view.view["ops"])
        assert "aten.addmm" in text

    def test_names_are_short(self):
        assert short("aten.addmm.default") == "aten.addmm"
        assert short("mine.cap.default") == "mine.cap.default"

    def test_a_piece_that_is_not_there(self, story):
        with pytest.raises(IndexError):
            onelayer.show_compile(story, piece=1)


class TestHtml:
    def test_it_is_one_piece_that_fetches_nothing(self, view):
        expect_one_piece(view.html(), text="aten.addmm")

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "from onelayer.compiler.fx_record import record_graph",
            "from onelayer.compiler.piece import Piece",
            "from onelayer.compiler.story import CompileStory",
            "graph = record_graph(torch.fx.symbolic_trace(torch.nn.ReLU()).graph)",
            "piece = Piece(graph, None, None, None, (), None, None)",
            "view = onelayer.show_compile(CompileStory('relu', (), (), (piece,), (), ()))",
        )


class TestInABrowser:
    def test_a_step_lights_up_every_station(self, browser, view, tmp_path):
        with shown(browser, tmp_path, view.html()) as page:
            page.get_by_role("button", name="next call").click()
            assert page.locator(".Python .lit").inner_text().strip() == "z = z.clamp(-30, 30)"
            assert page.locator(".joint .lit").count() > 1
            page.get_by_role("list", name="joint").get_by_role("button").first.press("Enter")
            assert "bytes" in page.locator(".full").inner_text()
