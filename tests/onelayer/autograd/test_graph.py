"""show_graph: what it says of torch's nodes, its engine's order against torch's, and its page."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import onelayer
from onelayer.autograd.graph import graph_of
from onelayer.autograd.graph_view import GraphView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(GraphView)


@pytest.fixture(scope="module")
def js():
    return Script(GraphView)


class NameThatNoBoxOfThisPictureCanHold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy


def head_loss(*, x_learns=False):
    """The head's loss, and the tensors that it was made of."""
    w, b = torch.randn(6, 4, requires_grad=True), torch.randn(6, requires_grad=True)
    x = torch.randn(3, 4, requires_grad=x_learns)
    loss = F.cross_entropy(F.linear(x, w, b), torch.tensor([0, 2, 5]))
    return loss, {"w": w, "b": b, "x": x}


def plain(nodes):
    return [{"sequence": n.sequence, "next": list(n.next), "leaf": n.leaf} for n in nodes]


class TestGraph:
    def test_it_holds_what_torch_holds(self):
        loss, names = head_loss()
        nodes = graph_of(loss, names)
        assert [n.name for n in nodes[:3]] == [
            loss.grad_fn.name(),
            loss.grad_fn.next_functions[0][0].name(),
            loss.grad_fn.next_functions[0][0].next_functions[0][0].name(),
        ]
        assert {n.leaf for n in nodes if n.leaf} == {"w", "b"}
        addmm = next(n for n in nodes if n.name == "AddmmBackward0")
        assert [after is None for after in addmm.next] == [False, True, False]

    def test_a_saved_view_of_a_named_tensor_costs_nothing(self):
        loss, names = head_loss(x_learns=True)
        addmm = next(n for n in graph_of(loss, names) if n.name == "AddmmBackward0")
        assert {s.name: s.shares for s in addmm.saved} == {"mat1": "x", "mat2": "w"}
        assert not any(s.fresh for s in addmm.saved)
        unnamed = next(n for n in graph_of(loss) if n.name == "AddmmBackward0")
        assert all(s.fresh for s in unnamed.saved)

    def test_fresh_bytes_are_those_of_the_saved_tensors_hooks(self):
        """By another way: collect each saved storage while it is packed."""
        packed = {}
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t: packed.setdefault(t.untyped_storage().data_ptr(), t), lambda t: t
        )
        with hooks:
            _, names = head_loss()
        plain_loss, names = head_loss()
        view = onelayer.show_graph(plain_loss, names=names)
        x_bytes = names["x"].nbytes
        assert view.saved_bytes == sum(t.nbytes for t in packed.values()) - x_bytes

    def test_a_node_used_twice_is_one_node(self):
        w = torch.ones((), requires_grad=True)
        y = w.exp()
        nodes = graph_of(y * y, {"w": w})
        assert [n.name for n in nodes] == ["MulBackward0", "ExpBackward0", "AccumulateGrad"]
        assert nodes[0].next == (1, 1)

    def test_freed_and_edited_tensors_are_said(self):
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        out = y.sum()
        y.add_(1)
        (saved,) = next(n for n in graph_of(out) if n.name == "ExpBackward0").saved
        assert "changed in place" in str(saved)
        z = w.exp().sum()
        z.backward()
        (saved,) = next(n for n in graph_of(z) if n.name == "ExpBackward0").saved
        assert "freed" in str(saved)

    def test_lists_of_tensors_and_python_functions(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, t):
                ctx.save_for_backward(t)
                return t * 2

            @staticmethod
            def backward(ctx, dy):
                return dy * 2

        x = torch.ones(5, requires_grad=True)
        node = graph_of(Double.apply(x), {"x": x})[0]
        assert [s.shares for s in node.saved] == ["x"]
        indexed = graph_of(x[torch.tensor([0, 0, 2])])[0]
        assert [s.shape for s in indexed.saved] == [(3,)]

    @pytest.mark.parametrize("what", [torch.ones(3), torch.ones(3, requires_grad=True)])
    def test_no_graph_is_said(self, what):
        with pytest.raises(ValueError, match="no grad_fn"):
            onelayer.show_graph(what)

    def test_what_is_no_tensor_is_said(self):
        with pytest.raises(TypeError, match="list"):
            onelayer.show_graph([1])

    def test_a_whole_model_is_too_much(self):
        y = torch.ones(1, requires_grad=True)
        for _ in range(200):
            y = y + 1
        with pytest.raises(ValueError, match="too many"):
            onelayer.show_graph(y)


@st.composite
def graphs(draw):
    """A scalar over a few leaves, by operations that reach back at random."""
    made = [torch.rand(2, requires_grad=True) for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 8))):
        a, b = (made[draw(st.integers(0, len(made) - 1))] for _ in range(2))
        op = draw(st.sampled_from([torch.mul, torch.add, torch.maximum, "exp", "sin"]))
        made.append(getattr(a, op)() if isinstance(op, str) else op(a, b))
    return made[-1].sum()


def torchs_order(output):
    """The nodes as the engine runs them, by their places in graph_of."""
    nodes, ran = [output.grad_fn], []
    for node in nodes:
        for after, _ in node.next_functions:
            if after is not None and after not in nodes:
                nodes.append(after)
    for place, node in enumerate(nodes):
        node.register_prehook(lambda _, place=place: ran.append(place))
    output.backward()
    return ran


def settled(order, nodes):
    """Leaves that are ready together may run either way round."""
    out, leaves = [], []
    for place in order:
        if nodes[place].sequence is None:
            leaves.append(place)
        else:
            out += [*sorted(leaves), place]
            leaves = []
    return out + sorted(leaves)


class TestOrder:
    @settings(max_examples=150)
    @given(output=graphs())
    def test_it_is_the_engines(self, js, output):
        nodes = graph_of(output)
        order = js("order", plain(nodes))
        assert settled(order, nodes) == settled(torchs_order(output), nodes)

    @settings(max_examples=100)
    @given(output=graphs())
    def test_every_edge_goes_down_and_no_two_boxes_meet(self, js, output):
        nodes = plain(graph_of(output))
        level, drawn = js("levels", nodes), js("places", nodes)
        for k, node in enumerate(nodes):
            assert all(level[after] > level[k] for after in node["next"] if after is not None)
        corners = {(at["x"], at["y"]) for at in drawn["at"]}
        assert len(corners) == len(nodes)
        assert all(at["x"] >= 0 and at["x"] + 190 <= drawn["width"] for at in drawn["at"])

    def test_an_engine_that_does_not_wait_would_be_noticed(self):
        """The oracle is able to say no: walking level by level is another order."""
        w = torch.ones((), requires_grad=True)
        output = w.exp().sin() * w
        nodes = graph_of(output)
        assert settled(list(range(len(nodes))), nodes) != settled(torchs_order(output), nodes)


class TestHtml:
    def test_it_is_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.show_graph(head_loss()[0]).html(), text="AddmmBackward0")

    def test_a_name_cannot_close_the_script(self):
        loss, names = head_loss()
        html = onelayer.show_graph(loss, names={"</script><b>": names["w"]}).html()
        assert "</script><b>" not in html

    def test_text_names_each_node_once(self):
        w = torch.ones((), requires_grad=True)
        text = repr(onelayer.show_graph(w.exp() * w.sin(), names={"w": w}))
        assert text.count("AccumulateGrad w") == 2
        assert text.count("(see above)") == 1

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_graph(torch.ones(1, requires_grad=True) * 2)",
        )


class TestInABrowser:
    def test_nodes_run_one_by_one_and_tell_what_they_saved(self, browser, tmp_path):
        loss, names = head_loss()
        html = onelayer.show_graph(loss, names=names).html()
        with shown(browser, tmp_path, html) as page:
            step = page.get_by_role("button", name="run the next node")
            for _ in range(6):
                step.click()
            assert step.is_disabled()
            assert "adds its gradient to w.grad" in page.get_by_role("status").inner_text()
            page.get_by_role("button", name="start again").click()
            page.get_by_role("button", name="AddmmBackward0").press("Enter")
            assert "in the storage of x" in page.locator(".details").inner_text()

    def test_a_long_name_is_shortened_in_its_box_and_whole_below(self, browser, tmp_path):
        y = NameThatNoBoxOfThisPictureCanHold.apply(torch.ones(1, requires_grad=True))
        whole = y.grad_fn.name()
        with shown(browser, tmp_path, onelayer.show_graph(y).html()) as page:
            named = page.locator("svg .node .name").first
            share = named.evaluate(
                "e => { const length = e.getAttribute('textLength');"
                " e.removeAttribute('textLength'); return length / e.getComputedTextLength() }"
            )
            assert share > 0.7
            assert named.text_content().startswith(whole[:12])
            page.get_by_role("button", name=whole).press("Enter")
            assert whole in page.locator(".details").inner_text()
