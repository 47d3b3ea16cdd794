"""show_tiles: its index arithmetic against the kernel's own, its page, and its widget."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import onelayer
from onelayer import cuda_cpu
from onelayer.custom_op.tiles import TilesView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(TilesView)
SIZES = st.fixed_dictionaries(
    {
        "n": st.integers(0, 20),
        "v": st.integers(1, 40),
        "d": st.integers(1, 20),
        "tile": st.integers(1, 9),
    }
)


@pytest.fixture(scope="module")
def js():
    return Script(TilesView)


EVERYTHING = """(() => {
  const size = SIZE, { bx: wide, by: high, steps } = grid(size), { tile } = size, all = [];
  for (let by = 0; by < high; by++) for (let bx = 0; bx < wide; bx++)
    for (let ty = 0; ty < tile; ty++) for (let tx = 0; tx < tile; tx++) {
      const at = { bx, by, tx, ty }, brought = [];
      for (let step = 0; step < steps; step++) brought.push(loads(size, at, step));
      all.push({ ...at, ...lane(size, at), brought });
    }
  return all;
})()"""


def product_by(threads, x, w, tile):
    """z as blocks of these threads compute it, with what they bring, and the loads they made."""
    z = np.full((len(x), len(w)), np.nan)
    made = 0
    shared = {}  # block, step -> the tiles of x and of w
    for thread in threads:
        for step, place in enumerate(thread["brought"]):
            tiles = shared.setdefault(
                (thread["bx"], thread["by"], step), np.full((2, tile, tile), np.nan)
            )
            for side, (name, matrix) in enumerate((("x", x), ("w", w))):
                found = place[name]
                made += found is not None
                value = 0.0 if found is None else matrix[tuple(found)]
                assert np.isnan(tiles[side, thread["ty"], thread["tx"]])  # nobody else brought it
                tiles[side, thread["ty"], thread["tx"]] = value
    for thread in threads:
        if thread["live"]:
            assert np.isnan(z[thread["row"], thread["column"]])  # one thread to an output
            z[thread["row"], thread["column"]] = sum(
                shared[thread["bx"], thread["by"], step][0, thread["ty"]]
                @ shared[thread["bx"], thread["by"], step][1, thread["tx"]]
                for step in range(len(thread["brought"]))
            )
    return z, made


WHO = """
__global__ void who(int* z, int N, int V) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < N && column < V)
    z[row * V + column] = ((blockIdx.y * 64 + blockIdx.x) * 64 + threadIdx.y) * 64 + threadIdx.x;
}
extern "C" void launch(int* z, int N, int V, int tile) {
  who<<<dim3((V + tile - 1) / tile, (N + tile - 1) / tile), dim3(tile, tile)>>>(z, N, V);
}
"""


class TestTheArithmetic:
    @pytest.mark.compiler
    def test_a_kernel_s_threads_have_the_same_outputs(self, js):
        """The kernel writes down who it was; CUDA on the CPU runs it."""
        kernels = cuda_cpu.build(WHO, check=False)
        for n, v, tile in itertools.product((1, 7, 16), (5, 33), (1, 4, 8)):
            z = torch.full((n, v), -1, dtype=torch.int32)
            assert kernels.call("launch", z, n, v, tile).ok
            size = {"n": n, "v": v, "d": 1, "tile": tile}
            for thread in js.value_of(EVERYTHING.replace("SIZE", json.dumps(size))):
                if thread["live"]:
                    by, bx, ty, tx = (thread[name] for name in ("by", "bx", "ty", "tx"))
                    assert (
                        z[thread["row"], thread["column"]] == ((by * 64 + bx) * 64 + ty) * 64 + tx
                    )
            assert (z >= 0).all()

    @pytest.mark.slow
    @settings(max_examples=300)
    @given(size=SIZES, seed=st.integers(0, 2**16))
    def test_its_threads_compute_the_product(self, js, size, seed):
        """Every output once, from tiles that are full, with as many loads as it says."""
        random = np.random.default_rng(seed)
        x, w = (
            random.normal(size=(size["n"], size["d"])),
            random.normal(size=(size["v"], size["d"])),
        )
        threads = js.value_of(EVERYTHING.replace("SIZE", json.dumps(size)))
        z, made = product_by(threads, x, w, size["tile"])
        np.testing.assert_allclose(z, x @ w.T, atol=1e-12)
        said = js("counts", size)
        assert said["threads"] == len(threads)
        assert said["idle"] == sum(not thread["live"] for thread in threads)
        assert said["tiled"] == made
        assert said["naive"] == 2 * size["d"] * z.size

    def test_a_kernel_without_its_guard_would_be_noticed(self, js):
        """The oracle is able to say no."""
        size = {"n": 3, "v": 5, "d": 4, "tile": 2}
        threads = js.value_of(EVERYTHING.replace("SIZE", json.dumps(size)))
        lost = [thread | {"live": True} for thread in threads]
        with pytest.raises(IndexError):
            product_by(lost, np.ones((3, 4)), np.ones((5, 4)), 2)
        turned = [t | {"brought": [b | {"w": b["x"]} for b in t["brought"]]} for t in threads]
        w = np.arange(20.0).reshape(5, 4)
        z, _ = product_by(turned, np.ones((3, 4)), w, 2)
        assert not np.allclose(z, np.ones((3, 4)) @ w.T)

    @settings(max_examples=200)
    @given(
        size=SIZES,
        at=st.fixed_dictionaries(
            {name: st.integers(-3, 60) for name in ("bx", "by", "tx", "ty", "step")}
        ),
    )
    def test_a_choice_stays_inside(self, js, size, at):
        view = js("settled", size | at)
        grid = js("grid", size)
        assert all(0 <= view[name] < max(grid[name], 1) for name in ("bx", "by"))
        assert all(0 <= view[name] < size["tile"] for name in ("tx", "ty"))
        assert 0 <= view["step"] < grid["steps"]
        first, second = js("told", view)
        inside = js("lane", view, view)["live"]
        assert ("computes nothing" in first) is (not inside)
        assert f"Step {view['step'] + 1} of {grid['steps']}" in second


class TestHtml:
    def test_it_is_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.show_tiles().html(), text="38 x 1 blocks")

    @pytest.mark.parametrize("wrong", [{"n": 0}, {"tile": 33}, {"d": -1}])
    def test_what_cannot_be_launched_is_said(self, wrong):
        with pytest.raises(ValueError, match="1 up"):
            onelayer.show_tiles(**wrong)

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_tiles()",
        )


class TestInABrowser:
    def test_blocks_threads_steps_and_sizes_can_be_chosen(self, browser, tmp_path):
        html = onelayer.show_tiles().html()
        with shown(browser, tmp_path, html) as page:
            said = page.locator(".say")
            assert "computes z[0,592]" in said.inner_text()
            page.locator('[data-lane="9,3"]').click()
            assert "column 601 is beyond V = 600" in said.inner_text()
            assert "brings x[3,9] and w[595,9]" in said.inner_text()
            for _ in range(3):
                page.get_by_role("button", name="next step").click()
            assert page.get_by_role("button", name="next step").is_disabled()
            assert "brings x[3,57] and w[595,57]" in said.inner_text()
            page.get_by_role("img", name="blocks of z").press("ArrowLeft")
            assert "Thread (9, 3) of block (36, 0) computes z[3,585]" in said.inner_text()
            page.get_by_role("button", name="24", exact=True).click()
            assert "25 x 1 blocks of 24 x 24" in page.locator(".whole").inner_text()
            page.get_by_role("slider").press("End")
            assert "z (40, 600)" in page.locator(".whole").inner_text()
