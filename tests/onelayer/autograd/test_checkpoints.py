"""show_checkpoints: its bytes and its schedule against torch's own checkpoints, and its page."""

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import onelayer
from onelayer.autograd.checkpoints import CheckpointsView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(CheckpointsView)
FLOAT = 4


@pytest.fixture(scope="module")
def js():
    return Script(CheckpointsView)


class Chain:
    """Layers of `sin` and `cos`: each operation saves its input. `layers[i]`: floats that enter
    layer i, and how many tensors of that size it saves besides."""

    def __init__(self, layers):
        self.layers = layers
        self.running = None

    def view(self, kept, *, everything=False):
        layers = [
            {"entry": FLOAT * size, "inside": FLOAT * size * more} for size, more in self.layers
        ]
        return {"layers": layers, "kept": kept, "all": everything, "at": 0}

    def layer(self, i, x):
        size, more = self.layers[i]
        after = self.layers[i + 1][0] if i + 1 < len(self.layers) else 1
        self.running = i
        try:
            for turn in range(1 + more):
                x = x.sin() if turn % 2 else x.cos()
        finally:
            self.running = None
        return torch.cat([x] * (after // size + 1))[:after].clone()  # saves no tensor

    def run(self, x, kept, *, everything):
        starts = [i for i, keep in enumerate(kept) if keep]
        for start, end in zip(starts, [*starts[1:], len(kept)], strict=True):

            def segment(x, start=start, end=end):
                for i in range(start, end):
                    x = self.layer(i, x)
                return x

            x = segment(x) if everything else checkpoint(segment, x, use_reentrant=False)
        return x.sum()


class Watch(TorchDispatchMode):
    """What sin and cos have read, while it lives: those are the bytes that the chain saves."""

    def __init__(self, chain):
        super().__init__()
        self.chain, self.alive, self.peak, self.began = chain, {}, 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in ("aten::sin", "aten::cos"):
            storage = args[0].untyped_storage()
            if storage._cdata not in self.alive:
                self.alive[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, storage._cdata).atexit = False
            if self.chain.running is not None:
                self.began.append(self.chain.running)
        self.peak = max(self.peak, sum(self.alive.values()))
        return func(*args, **(kwargs or {}))


def measured(chain, kept, *, everything=False):
    """By torch: bytes kept after the forward, the peak of backward, layers that ran again, and the
    gradient."""
    x = torch.linspace(0, 1, chain.layers[0][0]).requires_grad_()
    with onelayer.count_saved() as saved:
        loss = chain.run(x, kept, everything=everything)
    fresh = torch.linspace(0, 1, chain.layers[0][0]).requires_grad_()
    watch = Watch(chain)
    with watch:
        loss = chain.run(fresh, kept, everything=everything)
        watch.peak, watch.began = 0, []
        loss.backward()
    return saved.bytes, watch.peak, len(set(watch.began)), fresh.grad


SIZES = st.tuples(st.integers(1, 50), st.integers(0, 3))


@st.composite
def plans(draw):
    layers = draw(st.lists(SIZES, min_size=1, max_size=8))
    kept = [True, *(draw(st.booleans()) for _ in layers[1:])]
    return Chain(layers), kept


class TestAgainstTorch:
    @pytest.mark.slow
    @settings(max_examples=300)
    @given(plan=plans())
    def test_kept_peak_and_what_runs_again_are_the_checkpoints(self, js, plan):
        chain, kept = plan
        bill = js("bill", chain.view(kept))
        nbytes, peak, again, grad = measured(chain, kept)
        assert (bill["kept"], bill["peak"], bill["again"]) == (nbytes, peak, again)
        *_, plain = measured(chain, kept, everything=True)
        assert grad.equal(plain)

    @settings(max_examples=100)
    @given(plan=plans())
    def test_everything_kept_is_autograd_alone(self, js, plan):
        chain, kept = plan
        bill = js("bill", chain.view(kept, everything=True))
        nbytes, peak, again, _ = measured(chain, kept, everything=True)
        assert bill["kept"] == bill["peak"] == nbytes == peak
        assert bill["again"] == again == 0
        assert bill["made"] == 0

    def test_another_schedule_would_be_noticed(self, js):
        """The oracle is able to say no: one checkpoint is not two."""
        chain = Chain([(10, 1)] * 6)
        two = [True, False, False, True, False, False]
        one = [True, *[False] * 5]
        assert js("bill", chain.view(one))["peak"] != measured(chain, two)[1]


class TestSchedule:
    @settings(max_examples=200)
    @given(plan=plans(), everything=st.booleans())
    def test_backward_finds_what_it_needs_and_leaves_nothing(self, js, plan, everything):
        chain, kept = plan
        view = chain.view(kept, everything=everything)
        there, ran, undone = set(), [], []
        for step in js("steps", view):
            there |= {tuple(item) for item in step["keeps"]}
            if step["kind"] == "again":
                assert (step["layer"], "entry") in there
            if step["kind"] == "backward":
                needed = {(step["layer"], "entry")}
                if view["layers"][step["layer"]]["inside"]:
                    needed.add((step["layer"], "inside"))
                assert needed <= there
                undone.append(step["layer"])
            if step["kind"] == "forward":
                ran.append(step["layer"])
            there -= {tuple(item) for item in step["frees"]}
        assert ran == undone[::-1] == list(range(len(kept)))
        assert not there
        assert js("held", view)[-1] == 0

    @pytest.mark.parametrize(("layers", "root"), [(4, 2), (9, 3), (16, 4), (25, 5), (64, 8)])
    def test_of_bare_layers_the_root_is_the_best_interval(self, js, layers, root):
        peaks = js("curve", [{"entry": 1, "inside": 0}] * layers)
        assert min(peaks) == peaks[root - 1] == 2 * root - 1
        assert peaks[0] == peaks[-1] == layers

    def test_extra_work_is_a_third_of_a_step_where_every_layer_runs_twice(self, js):
        view = {"layers": [{"entry": 1, "inside": 9}] * 12, "kept": js("every", 12, 3)}
        assert js("bill", view | {"all": False})["extra"] == pytest.approx(1 / 3)
        assert js("bill", view | {"all": True})["extra"] == 0

    @pytest.mark.parametrize("count", range(1, 12))
    def test_an_interval_is_recognised(self, js, count):
        for interval in range(1, count + 1):
            assert js("intervalOf", js("every", count, interval)) == interval

    @pytest.mark.parametrize(
        ("numbers", "said"), [([4], "4"), ([1, 9], "1 and 9"), ([3, 4, 5], "3 to 5")]
    )
    def test_the_best_intervals_are_said(self, js, numbers, said):
        assert js("spoken", numbers) == said

    def test_entries_picked_by_hand_are_no_interval(self, js):
        assert js("intervalOf", [True, False, True, True, False]) == 0


class TestPython:
    def test_text_says_the_chain_and_the_checkpoints(self):
        view = onelayer.show_checkpoints([(10, 5)] * 6, every=3)
        assert repr(view) == "6 layers that save 90 bytes for backward, checkpoints at layers 1, 4"
        assert repr(onelayer.show_checkpoints([(10, 5)])).endswith("no checkpoint")

    @pytest.mark.parametrize(
        ("layers", "every", "says"),
        [
            ([], None, "1 to 64"),
            ([(1, 1)] * 65, None, "1 to 64"),
            ([(1, -1)], None, "negative"),
            ([(1, 1)], 0, "at least one layer"),
        ],
    )
    def test_what_is_no_chain_is_said(self, layers, every, says):
        with pytest.raises(ValueError, match=says):
            onelayer.show_checkpoints(layers, every=every)

    def test_html_is_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.show_checkpoints([(10, 5)] * 6).html(), text="6 layers")

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_checkpoints([(1, 1)])",
        )


class TestInABrowser:
    def test_keep_play_and_change_by_keyboard_on_a_phone(self, browser, tmp_path):
        html = onelayer.show_checkpoints([(1000, 0)] * 16, every=4).html()
        with shown(browser, tmp_path, html) as page:
            numbers = page.locator(".numbers")
            assert "7,000 bytes" in numbers.inner_text()
            assert "12 layers forward, 25 %" in numbers.inner_text()
            entry = page.get_by_role("button", name="entry of layer 3,")
            entry.press("Enter")
            assert entry.evaluate("it => it === document.activeElement")
            assert entry.get_attribute("aria-pressed") == "true"
            page.get_by_role("button", name="keep everything").press("Enter")
            assert "16,000 bytes" in numbers.inner_text()
            assert "0 layers forward" in numbers.inner_text()
            step = page.get_by_role("button", name="next step")
            for _ in range(32):
                step.press("Enter")
            assert step.is_disabled()
            assert "0 bytes held" in page.get_by_role("status").inner_text()
            page.get_by_label("saves inside").fill("500")
            page.get_by_label("saves inside").press("Enter")
            assert "24,000 bytes" in numbers.inner_text()
            page.get_by_role("button", name="longer interval").press("Enter")
            assert "16 layers forward, 33 %" in numbers.inner_text()
            for _ in range(16):
                page.get_by_role("button", name="one layer less").click(force=True)
            assert page.locator(".layer").count() == 1
