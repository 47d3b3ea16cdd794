"""CUDA on the CPU: building, what is kept of it, calling, and what it costs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from onelayer import cuda_cpu
from onelayer.cuda_cpu import builds, modes, nvcc
from onelayer.cuda_cpu.modes import Mode
from onelayer.cuda_cpu.text import Text
from onelayer.custom_op import build_cache, cpp_compiler

pytestmark = pytest.mark.compiler

CORPUS = Path(__file__).parent / "corpus"
COUNTER = """
__device__ int calls = 0;
__global__ void k(int* out) { out[0] = ++calls + STEP; }
extern "C" void count(int* out) { k<<<1, 1>>>(out); }
"""


def counter(step: int) -> str:
    return f"#define STEP {step}\n{COUNTER}"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ONELAYER_CACHE", str(tmp_path))
    return tmp_path


# ---- errors -------------------------------------------------------------------------------------

OURS = ("onelayer", "student.", "/tmp", "ONELAYER", "lambda", "auto:")
LAUNCH = "void launch(float* x, int n)"
REFUSED = {
    "no semicolon": ("__global__ void k(float* x) {\n  x[0] = 1\n}\n", {2, 3}),
    "unknown name": ("__global__ void k(float* x) {\n  x[0] = nothing;\n}\n", {2}),
    "too few": (
        f"__global__ void k(float* x, int n) {{}}\n{LAUNCH} {{\n  k<<<1, 2>>>(x);\n}}\n",
        {3},
    ),
    "wrong type": (f"__global__ void k(int* x) {{}}\n{LAUNCH} {{\n\n  k<<<1, 2>>>(x);\n}}\n", {4}),
    "no such kernel": (f"{LAUNCH} {{\n  absent<<<1, 2>>>(x);\n}}\n", {2}),
    "never closed": ("__global__ void k(float* x) {\n  x[0] = 1;\n\n", {2, 3}),
    "no barrier": ("__global__ void k() {\n  __syncthread();\n}\n", {2}),
    "bad launch": (f"__global__ void k() {{}}\n{LAUNCH} {{\n  k<<<1, 2>>(x);\n}}\n", {3, 4}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_compile_error_shows_the_students_line_and_nothing_of_ours(why: str) -> None:
    text, lines = REFUSED[why]
    with pytest.raises(cuda_cpu.CompileError) as caught:
        cuda_cpu.build(text)
    told = str(caught.value)
    assert {int(line.split(":")[1]) for line in told.splitlines() if ": error: " in line} <= lines
    assert not [word for word in OURS if word in told], told
    assert any(line.strip() and line.strip() in told for line in text.splitlines())


def test_nvccs_errors_read_the_same() -> None:
    try:
        nvcc.nvcc()
    except cuda_cpu.NoCompiler as missing:
        pytest.skip(str(missing))
    with pytest.raises(cuda_cpu.CompileError) as caught:
        cuda_cpu.through_nvcc("__global__ void k(float* x) {\n  x[0] = nothing;\n}\n", "sm_75")
    assert str(caught.value).startswith("kernels.cu:2: error: ")
    assert str(caught.value).endswith("x[0] = nothing;")


def test_without_a_compiler_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    cpp_compiler.compiler.cache_clear()
    with pytest.raises(cuda_cpu.NoCompiler, match=r"needs a C\+\+ compiler: install g\+\+"):
        modes.compiler()


def test_elsewhere_than_on_linux_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes.sys, "platform", "darwin")
    with pytest.raises(cuda_cpu.NoCompiler, match="needs Linux, and this is darwin"):
        modes.compiler()


# ---- the cache ----------------------------------------------------------------------------------


def test_a_failed_build_leaves_nothing_and_the_mended_text_builds(own_cache: Path) -> None:
    with pytest.raises(cuda_cpu.CompileError):
        cuda_cpu.build(counter(1).replace("++calls", "++cals"))
    assert [path.suffix for path in own_cache.iterdir()] == [".o"]  # the runtime, which is whole
    out = torch.zeros(1, dtype=torch.int32)
    assert cuda_cpu.build(counter(1)).call("count", out).ok
    assert out.item() == 2


def test_what_was_built_once_is_not_built_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda_cpu.build(counter(2))
    there = sorted(own_cache.iterdir())
    monkeypatch.setattr(builds, "run", lambda command: pytest.fail(f"ran {command}"))
    cuda_cpu.build(counter(2))
    assert sorted(own_cache.iterdir()) == there


def test_a_half_written_build_is_never_seen(own_cache: Path) -> None:
    def killed(path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_cache.cached(["key"], ".so", killed)
    assert list(own_cache.iterdir()) == []


def test_several_who_build_the_same_at_once_all_have_it(own_cache: Path) -> None:
    meet = threading.Barrier(3)

    def build(_: int) -> tuple[Path, bytes]:
        meet.wait()
        path = builds.library(Text(counter(3)), Mode())
        return path, path.read_bytes()

    with ThreadPoolExecutor(3) as pool:
        made = set(pool.map(build, range(3)))
    assert len({path for path, _ in made}) == 1
    assert sorted(path.suffix for path in own_cache.iterdir()) == [".o", ".so"]
    out = torch.zeros(1, dtype=torch.int32)
    cuda_cpu.build(counter(3)).call("count", out).expect_clean()
    assert out.item() == 4


def test_two_libraries_do_not_share_their_variables() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    one, other = (cuda_cpu.build(counter(step)) for step in (100, 200))
    seen = []
    for kernels in (one, other, one):
        kernels.call("count", out).expect_clean()
        seen.append(out.item())
    assert seen == [101, 201, 102]


def test_a_home_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ONELAYER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/1/nowhere")
    monkeypatch.setattr(build_cache.tempfile, "tempdir", str(tmp_path))
    assert build_cache.cache_directory().is_relative_to(tmp_path)


def test_a_folder_that_others_can_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    monkeypatch.setenv("ONELAYER_CACHE", str(shared))
    assert build_cache.cache_directory() != shared


# ---- calls --------------------------------------------------------------------------------------


def test_an_argument_that_does_not_fit_is_named() -> None:
    scale = cuda_cpu.build(CORPUS / "memory.cu")
    x, y = torch.ones(4), torch.zeros(4)
    for arguments, words in [
        ((x, y, 2.0), r"scale\(x, y, a, n\) takes 4 arguments, and 3 came"),
        ((x.double(), y, 2.0, 4), "scale: x points to float .* and the tensor is torch.float64"),
        ((x, y, x, 4), r"scale: a is a number \(double\), not Tensor"),
        ((x, y, 2.0, 4.5), "scale: n is an integer, not 4.5"),
        ((x, 7, 2.0, 4), "scale: y is a pointer: pass a tensor, not int"),
        ((x, y.to("meta"), 2.0, 4), "scale: y must be a tensor on cpu, not on meta"),
    ]:
        with pytest.raises(TypeError, match=words):
            scale.call("scale", *arguments)
    with pytest.raises(AttributeError, match=r"no host function .* it exports: run_saxpy, scale"):
        scale.call("scales", x)


def test_a_call_keeps_what_a_tensor_had_outside_its_view() -> None:
    memory = torch.arange(20.0)
    kernels = cuda_cpu.build(CORPUS / "memory.cu")
    run = kernels.call("scale", memory[4:10], memory[10:16], 10.0, 6)
    assert run.faults[0].kind == "misaligned"  # a float4 at the wrong place
    kernels.call("run_saxpy", 6, 10.0, memory[4:10], memory[10:16]).expect_clean()
    assert memory[10:16].tolist() == [10 * i + i + 6 for i in range(4, 10)]
    assert memory[:10].tolist() == list(range(10))
    assert memory[16:].tolist() == list(range(16, 20))


def test_a_large_local_array_has_room() -> None:
    kernels = cuda_cpu.build("""
    __global__ void k(float* y) {
        float z[200 * 256];
        for (int i = 0; i < 200 * 256; i++) z[i] = i + threadIdx.x;
        y[threadIdx.x] = z[200 * 256 - 1 - threadIdx.x];
    }
    extern "C" void launch(float* y) { k<<<2, 64>>>(y); }
    """)
    y = torch.zeros(64)
    kernels.call("launch", y).expect_clean()
    assert y.tolist() == [51199.0] * 64


def test_threads_of_python_may_call_at_once() -> None:
    kernels = cuda_cpu.build(CORPUS / "memory.cu")

    def one(seed: int) -> bool:
        x, y = torch.full((301,), float(seed)), torch.zeros(301)
        return kernels.call("run_saxpy", 301, 2.0, x, y).ok and bool((y == 2 * seed).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(20)))


def test_without_a_gpu_device_cuda_says_so() -> None:
    if torch.cuda.is_available():
        x, y = torch.ones(9, device="cuda"), torch.zeros(9, device="cuda")
        run = cuda_cpu.build(CORPUS / "memory.cu", device="cuda").call("scale", x, y, 2.0, 9)
        assert run.where == "cuda"
        assert y.tolist() == [2.0] * 9
        return
    with pytest.raises(RuntimeError, match="needs a GPU"):
        cuda_cpu.build(CORPUS / "memory.cu", device="cuda")


# ---- cost ---------------------------------------------------------------------------------------


def head(n: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    x, w, b = (torch.randn(*s, generator=generator) for s in ((n, 64), (600, 64), (600,)))
    return x, w, b, torch.zeros(n, 600)


def test_the_cost_line_counts_what_is_written() -> None:
    kernels = cuda_cpu.build(CORPUS / "heads.cu")
    naive = kernels.call("head_naive", *head(8), 8, 64, 600).launches[0]
    of_those_that_work = 8 * 600 / naive.threads  # 8 rows are one block high; 600 is 18.75 wide
    assert naive.cost.global_loads == pytest.approx(of_those_that_work * (2 * 64 + 1))
    assert naive.cost.global_stores == pytest.approx(of_those_that_work)
    assert naive.cost.shared_loads == naive.cost.shared_stores == 0
    tiled = kernels.call("head_tiled", *head(16), 16, 64, 600, None).launches[0]
    assert tiled.cost.shared_loads == 2 * 64
    assert tiled.cost.shared_stores == 2 * 64 / 16
    assert 2 * 64 / 16 * 0.98 < tiled.cost.global_loads < 2 * 64 / 16 + 1
    assert (tiled.kernel, tiled.grid, tiled.block) == ("tiled", (38, 1, 1), (16, 16, 1))
    assert tiled.shared_bytes == 4 * (16 * 16 + 16 * 17)


def test_a_vector_is_one_load_and_an_atomic_is_counted_apart() -> None:
    x, y = torch.ones(128), torch.zeros(128)
    run = cuda_cpu.build(CORPUS / "memory.cu").call("scale", x, y, 2.0, 128)
    assert (run.cost.global_loads, run.cost.global_stores, run.cost.threads) == (1, 1, 32)
    values, bins = torch.zeros(192, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    run = cuda_cpu.build(CORPUS / "atomics.cu").call("run_histogram", values, bins, 192)
    assert run.cost.atomics == 1 + 16 / 48
    assert "atomics" in str(run)


def test_256_tokens_go_through_the_tiled_head_unchecked() -> None:
    kernels = cuda_cpu.build(CORPUS / "heads.cu", check=False)
    x, w, b, y = head(256)
    kernels.call("head_tiled", x, w, b, y, 256, 64, 600, None).expect_clean()
    torch.testing.assert_close(y, F.linear(x, w, b), rtol=1e-4, atol=1e-4)
