"""show_call: what it says about a call against what torch does, its page, and its widget."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.profiler import profile

import onelayer
from onelayer.dispatcher.call_path import MODES, Key, keys, parts, path_of_linear, repository_path
from onelayer.dispatcher.call_view import CallView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(CallView)
LAYERS = ["python", "binding", "dispatcher", "autograd", "kernel", "python"]


def head(device="cpu", *, trainable=True):
    """x (7, 64), w (600, 64), b (600,)."""
    sizes = ((7, 64), (600, 64), (600,))
    x, w, b = (torch.randn(size, device=device) for size in sizes)
    return x, w.requires_grad_(trainable), b.requires_grad_(trainable)


@pytest.fixture(scope="module")
def view():
    return onelayer.show_call(*head())


@pytest.fixture(scope="module")
def js():
    return Script(CallView)


class TestAgainstTorch:
    @pytest.mark.parametrize("bias", [True, False])
    def test_the_parts_are_those_that_the_profiler_sees(self, monkeypatch, bias):
        monkeypatch.setenv("KINETO_LOG_LEVEL", "99")
        x, w, b = head()
        given = (x, w, b) if bias else (x, w)
        with profile() as seen:
            F.linear(*given)
        events = seen.function_events
        called = [e.name for e in events if e.cpu_parent and e.cpu_parent.name == "aten::linear"]
        known = {"aten::t", "aten::addmm", "aten::mm", "aten::matmul"}
        inner = [e.name for e in events if e.name in known - {"aten::matmul"}]
        assert parts(*given) == (inner if "aten::matmul" in called else called)

    @pytest.mark.parametrize("mode", MODES)
    def test_keys_are_those_that_the_dispatcher_computes(self, mode):
        tensors = list(head())
        with MODES[mode]():
            found = [key.name for key in keys("aten::addmm", tensors)]
            records = F.linear(*tensors).grad_fn is not None
        assert ("AutogradCPU" in found) == (mode != "inference_mode")
        assert records == (mode == "grad")
        assert found[-1] == "CPU"
        assert "AutocastCPU" not in found
        with MODES[mode](), torch.autocast("cpu"):
            assert keys("aten::addmm", tensors)[0].name == "AutocastCPU"

    def test_a_kernel_of_ours_is_found_where_it_was_registered(self):
        library = torch.library.Library("aten", "IMPL")
        try:
            library.impl("logcumsumexp", lambda x, dim: x, "CPU", allow_override=True)
            (found,) = (k for k in keys("aten::logcumsumexp", [torch.ones(2)]) if k.name == "CPU")
            assert Path(__file__).name in found.registered
        finally:
            library._destroy()

    @pytest.mark.parametrize("trainable", [True, False])
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_the_result_and_the_note_are_torchs_own(self, device, mode, trainable):
        given = head(device, trainable=trainable)
        stops = path_of_linear(*given, mode=mode)
        with MODES[mode]():
            z = F.linear(*given)
        node = type(z.grad_fn).__name__ if z.grad_fn else None
        assert [stop.layer for stop in stops] == LAYERS
        assert stops[-1].seen == (f"shape (7, 600), float32, on {device}", f"grad_fn {node}")
        autograd = stops[3]
        assert autograd.skipped == (mode == "inference_mode")
        assert ("Makes a node" in autograd.says) == (node is not None)
        assert node is None or node in autograd.says

    def test_each_device_has_a_kernel_of_its_own(self):
        seen = {device: path_of_linear(*head(device))[4] for device in ("cpu", "meta")}
        assert seen["cpu"].seen[0].startswith("CPU ")
        assert seen["meta"].seen[0].startswith("Meta ")
        assert seen["cpu"].file != seen["meta"].file

    def test_without_bias_another_operator_multiplies(self):
        x, w, _ = head()
        stops = path_of_linear(x, w)
        assert stops[3].name == stops[4].name == "aten::mm"
        assert "MmBackward0" in stops[3].says


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/__w/pytorch/pytorch/build/aten/src/ATen/RegisterCPU_2.cpp",) * 2,
        ("/pytorch/torch/csrc/autograd/generated/VariableType_0.cpp",) * 2,
        ("/home/torch/venv/lib/site-packages/torch/_meta_registrations.py",) * 2,
        (r"C:\b\pytorch\c10\core\Key.cpp", "c10/core/Key.cpp"),
        ("/dev/null", "/dev/null"),
    ],
)
def test_a_path_is_cut_to_the_repository(path, inside):
    got = repository_path(path)
    assert inside.endswith(got)
    assert got.startswith(("build/", "torch/", "c10/", "/dev"))


def test_a_key_says_where_its_kernel_is_written():
    assert str(Key("CPU", "build/aten/src/ATen/RegisterCPU_2.cpp:5051")).endswith(
        "RegisterCPU_2.cpp:5051"
    )
    assert str(Key("ADInplaceOrView", "")).endswith("falls through")


class TestScript:
    def test_steps_stay_on_the_route(self, js, view):
        at = {"stop": 0, "device": "cpu", "mode": "grad"}
        assert js("moved", view._view, at, -1)["stop"] == 0
        assert js("moved", view._view, at, 1)["stop"] == 1
        assert js("moved", view._view, at, 99)["stop"] == len(LAYERS) - 1

    def test_every_choice_has_a_route(self, js, view):
        for device in view._view["devices"]:
            for mode in view._view["modes"]:
                at = {"stop": 0, "device": device, "mode": mode}
                assert js("routeOf", view._view, at) == view.routes[f"{device}, {mode}"]

    def test_every_layer_lies_on_a_step_and_every_file_in_a_room(self, js, view):
        assert set(js("(() => DEPTH)")) == set(LAYERS)
        files = {stop["file"] for route in view.routes.values() for stop in route}
        for file in files:
            room, _ = js("roomOf", file)
            assert file.startswith(f"{room}/")
        assert {js("roomOf", file)[0] for file in files} == {"torch", "torch/csrc", "aten"}


class TestPython:
    def test_text_twin(self, view):
        lines = repr(view).splitlines()
        assert lines[0] == "F.linear of (7, 64), (600, 64), (600,)"
        assert [line.split()[0] for line in lines[1:]] == LAYERS

    def test_only_a_matrix_is_followed(self):
        x, w, b = head()
        with pytest.raises(ValueError, match=r"matrix x \(N, in\), got \(1, 7, 64\)"):
            onelayer.show_call(x[None], w, b)

    def test_the_readers_tensors_stay_as_they_are(self):
        x, w, b = head()
        onelayer.show_call(x, w, b)
        assert (x.requires_grad, w.requires_grad, w.grad) == (False, True, None)

    def test_html_is_one_piece_that_fetches_nothing(self, view):
        expect_one_piece(view.html(), text="F.linear of")
        places = re.findall(r'id="(onelayer-call-\w+)"', view.html() + view.html())
        assert len(set(places)) == 2

    def test_the_widget_runs_the_same_source(self, view):
        pytest.importorskip("anywidget")
        assert view.widget._esm == SOURCE
        assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(view.bundle())

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_call(torch.ones(2, 3), torch.ones(4, 3))",
        )


@pytest.fixture
def page(browser, tmp_path, view):
    with shown(browser, tmp_path, view.html()) as page:
        yield page


class TestInABrowser:
    def told(self, page):
        return page.locator(".told").inner_text()

    def test_down_to_the_kernel_and_back(self, page):
        following = page.get_by_role("button", name="next stop")
        names = [page.locator(".told .name").inner_text()]
        while following.is_enabled():
            following.click()
            names.append(page.locator(".told .name").inner_text())
        assert names == ["nn.Linear.forward", "F.linear", "aten::linear"] + ["aten::addmm"] * 2 + [
            "the result"
        ]
        assert "grad_fn AddmmBackward0" in self.told(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360

    def test_modes_and_devices_change_the_stops(self, page):
        page.locator(".stop").nth(3).click()
        assert "AddmmBackward0" in self.told(page)
        page.get_by_role("button", name="no_grad").click()
        assert "nothing to record" in self.told(page)
        page.get_by_role("button", name="inference_mode").click()
        assert "Not visited" in self.told(page)
        assert page.locator(".stop.skipped").count() == 1
        page.get_by_role("button", name="meta").click()
        page.locator(".stop").nth(4).click()
        assert "touches no float" in self.told(page)

    def test_the_keyboard_walks_the_stairs(self, page):
        page.locator(".stop").first.focus()
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        assert page.locator(".stop[aria-current]").inner_text().startswith("dispatcher")
        page.get_by_role("button", name="no_grad").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.textContent") == "no_grad"
