"""The benchmark of the fused head loss: who takes part, what is timed, and a GPU's path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from bench import head_loss, loss_devices, loss_peers
from bench.loss_devices import Gpu
from bench.loss_floor import floor
from bench.loss_peers import Absent, HeadLoss, peer
from onelayer.kernels.eager import eager_head_loss

# What the interpreter of Triton 3.6, which comes with torch 2.11, does inside itself.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")

LIGER = """
from onelayer.kernels.eager import eager_head_loss
def liger_fused_linear_cross_entropy(input, weight, target, bias=None, ce_weight=None):
    return eager_head_loss(input, weight, bias, target)
"""  # the beginning of the parameters of 0.8.5
CCE = """
import torch
def linear_cross_entropy(e, c, targets, ignore_index=-100, softcap=None, reduction="mean"):
    return torch.nn.functional.cross_entropy(e @ c.T, targets, ignore_index=ignore_index)
"""  # of 25.1.1, which has no bias
CCE_WITH_BIAS = """
from onelayer.kernels.eager import eager_head_loss
def linear_cross_entropy(e, c, targets, bias=None):
    return eager_head_loss(e, c, bias, targets)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts modules with the peers' own signatures where Python finds them first."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [one for one in sys.modules if one.startswith(("liger_kernel", "cut_cross"))]:
        monkeypatch.delitem(sys.modules, name)

    def write(**modules: str) -> None:
        for name, text in modules.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.fixture
def both(packages: Callable[..., None]) -> None:
    packages(liger_kernel__transformers__functional=LIGER, cut_cross_entropy=CCE)


def run(path: Path, *arguments: str) -> tuple[SimpleNamespace, dict]:
    """What the command said and left behind."""
    out, said = path / "out.json", StringIO()
    with redirect_stdout(said):
        try:
            head_loss.main([*arguments, "--out", str(out)])
            done = SimpleNamespace(exit_code=0, output=said.getvalue())
        except SystemExit as end:  # with a sentence, which Python prints, or with a number
            code = 1 if isinstance(end.code, str) else end.code
            done = SimpleNamespace(exit_code=code, output=f"{said.getvalue()}{end.code}\n")
    return done, json.loads(out.read_text()) if out.exists() else {}


# ---- the command --------------------------------------------------------------------------------


@pytest.mark.slow
def test_on_a_cpu_it_times_who_can_and_says_why_the_others_cannot(tmp_path: Path) -> None:
    some = ("--tokens", "300", "--turns", "2", "--peers", "chunked,cuda,liger")
    done, result = run(tmp_path, *some)
    assert done.exit_code == 0, done.output
    row = result["tokens"]["300"]
    assert set(row["ms"]) == set(row["bytes"]) == {"chunked"}
    assert all(value > 0 for value in (*row["ms"].values(), *row["bytes"].values()))
    assert row["floor"]["floor_ms"] > 0
    assert result["absent"] == {"cuda": "needs a GPU", "liger": "needs a GPU"}
    assert "liger: needs a GPU" in done.output


def test_without_a_gpu_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done, _ = run(tmp_path, "--device", "cuda")
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "No CUDA GPU is to be had here" in done.output


def test_a_name_that_is_no_peers_is_refused(tmp_path: Path) -> None:
    done, _ = run(tmp_path, "--peers", "eager,lieger")
    assert "No such peer: lieger" in done.output


def wrong(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    return 1.1 * eager_head_loss(x, w, b, t)


def not_a_number(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    return eager_head_loss(x, w, b, t) * torch.nan


def out_of_memory(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory.\nmore")


@pytest.mark.parametrize(
    ("loss_of", "why"),
    [
        (wrong, "differs from eager by 0.1: nothing to time"),
        (not_a_number, "differs from eager by inf: nothing to time"),
        (out_of_memory, "OutOfMemoryError: CUDA out of memory."),
    ],
)
def test_who_computes_something_else_is_not_timed_and_ours_end_in_an_error(
    loss_of: HeadLoss, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loss_peers._MAKERS, "chunked", lambda: loss_of)
    done, result = run(tmp_path, "--tokens", "9", "--turns", "1", "--peers", "chunked")
    assert result["tokens"]["9"]["failed"] == {"chunked": why}
    assert result["tokens"]["9"]["ms"] == {}
    assert done.exit_code == 1
    assert "Ours, and not timed: chunked." in done.output


# ---- the peers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "package"), [("liger", "liger_kernel"), ("cut-cross-entropy", "cut_cross_entropy")]
)
def test_a_package_that_is_not_there_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Absent, match=rf"not installed \({package}\)"):
        peer(name, "cuda")


def test_without_nvcc_the_kernels_in_cuda_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_peers.nvcc, "nvcc", no_nvcc)
    with pytest.raises(Absent, match="nvcc is not on this machine"):
        peer("cuda", "cuda")


def no_nvcc() -> str:
    raise loss_peers.NoCompiler("nvcc is not on this machine: it comes with a toolkit.")


@pytest.mark.parametrize("code", [CCE, CCE_WITH_BIAS])
def test_a_bias_rides_along_where_cut_cross_entropy_takes_none(
    code: str, packages: Callable[..., None]
) -> None:
    packages(cut_cross_entropy=code)
    device = loss_devices.Cpu()
    assert (
        head_loss.objection(peer("cut-cross-entropy", "cuda"), loss_devices.inputs(9, device)) == ""
    )


# ---- a GPU's path, simulated --------------------------------------------------------------------


class Simulated(Gpu):
    """A GPU's class on a CPU: events, counters and properties are made up, all else is run."""

    place, sizes, side, copied = "cpu", (33,), 64, 1 << 12


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the stream, in order. A step takes 2.5 ms."""
    asked: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            asked.append("record")

        def synchronize(self) -> None:
            asked.append("synchronize")

        def elapsed_time(self, end: Event) -> float:
            return 2.5

    known = SimpleNamespace(name="Simulated", major=7, L2_cache_size=1 << 10)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: known)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: asked.append("wait"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 700)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: asked.append("reset"))
    return asked


@pytest.mark.compiler
def test_a_gpus_path_with_every_peer(
    both: None, events: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_peers, "ON_A_GPU", ())
    monkeypatch.setattr(head_loss, "_device", lambda name: Simulated())
    monkeypatch.setattr(loss_peers.nvcc, "nvcc", lambda: "nvcc")
    everybody = [name for name in loss_peers.NAMES if name != "compiled"]
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        everybody.remove("torch's own")
    arguments = ("--device", "cuda", "--turns", "1", "--peers", ",".join(everybody))
    done, result = run(tmp_path, *arguments)
    assert done.exit_code == 0, (done.output, result)
    assert result["absent"] == {}
    assert set(result["tokens"]) == {"33"}
    for row in result["tokens"].values():
        assert row["ms"] == dict.fromkeys(everybody, 2.5)
        assert row["bytes"] == dict.fromkeys(everybody, 600)
        assert row["failed"] == {}


def test_the_second_cache_is_flushed_before_the_clock_starts(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Simulated()
    assert device.flush.nbytes == 2 << 10  # twice the cache
    device.flush.fill_(1)
    took = device.ms(lambda: events.append(f"work, flush {int(device.flush.sum())}"))
    assert took == 2.5
    assert events == ["record", "work, flush 0", "record", "synchronize"]


def test_everybody_takes_a_turn_before_anybody_takes_another(events: list[str]) -> None:
    seen: list[tuple[str, int]] = []

    def watched(name: str) -> HeadLoss:
        def loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
            seen.append((name, x.data_ptr()))
            return eager_head_loss(x, w, b, t)

        return loss

    names = ["a", "b", "c"]
    head_loss.in_turns({name: watched(name) for name in names}, 5, Simulated(), turns=3)
    timed = seen[3:]  # each ran once to be compared
    rounds = [timed[i : i + 3] for i in (0, 3, 6)]
    assert [[name for name, _ in one] for one in rounds] == [list("abc"), list("bca"), list("cab")]
    assert [len({x for _, x in one}) for one in rounds] == [1, 1, 1]
    assert len({one[0][1] for one in rounds}) == 3  # other inputs each time


# ---- the floor ----------------------------------------------------------------------------------


def test_the_floor_of_an_h200_is_what_its_rates_say() -> None:
    """790 TFLOP/s and 4.3 TB/s: 6 N V D operations take 0.306 ms at N = 2^20, x and dx 0.062."""
    took = iter([2 * 64**3 / 790e9] * 10 + [2 * (1 << 12) / 4.3e9] * 10)
    device = SimpleNamespace(
        place="cpu", dtype=torch.bfloat16, side=64, copied=1 << 12, ms=lambda work: next(took)
    )
    found = floor(2**20, device)  # type: ignore[arg-type]
    assert found["tflops"] == pytest.approx(790)
    assert found["tb_per_s"] == pytest.approx(4.3)
    assert found["products_ms"] == pytest.approx(0.306, abs=1e-3)
    assert found["traffic_ms"] == pytest.approx(0.0624, abs=1e-4)
    assert found["floor_ms"] == found["products_ms"]
