"""What is read and written around the mocked device, which needs no CUDA build."""

import pytest

from onelayer.mock_cuda.builds import NoMock, library, nvidia_packages
from onelayer.mock_cuda.calls import causing, demangled, read_calls, short_kernel
from onelayer.mock_cuda.devices import DEVICES, device_model, parse_bytes
from onelayer.mock_cuda.stubs import assembly
from onelayer.mock_cuda.summary import Seen, summary

NEG = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
    "St5arrayIPcLm1EEEEviT0_T1_"
)
LOG = f"""N\t0\tcudaLaunchKernel
N\t1\t{NEG}
N\t2\tcudaStreamSynchronize
N\t3\t
S\t0\t/here/train.py\tstep\t7|/here/train.py\t<module>\t9
C\tk\t0\t1\t0\t7\t2,1,1\t128,1,1\t0\t4096\t1000\t3000\t5000\t9000\t0
C\ts\t2\t3\t0\t0\t0,0,0\t0,0,0\t0\t0\t4000\t9500\t0\t0\t0
C\tk\t0\t1\t0\t7\t2,1"""


@pytest.fixture
def calls(tmp_path):
    (tmp_path / "calls-17.tsv").write_text(LOG)
    return read_calls(tmp_path)


def test_calls_are_read_and_a_torn_line_is_left_out(calls):
    kernel, wait = calls
    assert kernel.kind == "kernel"
    assert (kernel.grid, kernel.block, kernel.bytes) == ((2, 1, 1), (128, 1, 1), 4096)
    assert (kernel.begin_us, kernel.finish_us, kernel.took_us) == (4.0, 8.0, 4.0)
    assert (wait.kind, wait.waited_us, wait.begin_us) == ("wait", 5.5, None)
    assert str(kernel.line) == "train.py:7"
    assert kernel.process == 17


def test_names_of_kernels(calls):
    assert demangled(NEG).startswith("void at::native::vectorized_elementwise_kernel<4, at::native")
    assert short_kernel(demangled(NEG)) == "FillFunctor (vectorized_elementwise_kernel)"
    assert short_kernel("triton_poi_fused_add_0") == "triton_poi_fused_add_0"


def test_a_stack_without_a_persons_line_has_none():
    assert causing([]) is None


def test_the_summary_tells_waits_by_their_line(calls):
    model = device_model("L4", "1 GiB")
    stats = [{"allocated_bytes.all.peak": 2**29, "reserved_bytes.all.peak": 2**30}]
    page = summary(Seen(model, False, calls, stats, "", "well"))
    assert "mocked NVIDIA L4" in page
    assert "1 x train.py:7" in page
    assert "fits in 1.00 GiB" in page
    assert "50% unused" in page


def test_the_summary_says_what_does_not_fit_in_torchs_words(calls):
    page = summary(Seen(device_model("T4"), False, calls, [], "CUDA out of memory. Tried", "badly"))
    assert "does not fit: CUDA out of memory. Tried" in page


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8 GiB", 8 * 2**30), ("24GB", 24 * 10**9), ("512MiB", 2**29), (77, 77), ("1.5 GiB", 3 << 29)],
)
def test_sizes_of_memory(text, nbytes):
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("wrong", ["", "8", "8 gigs", "GiB"])
def test_a_memory_that_is_no_size(wrong):
    with pytest.raises(ValueError, match="memory"):
        parse_bytes(wrong)


def test_an_unknown_device_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match="T4, L4, A100, H100, H200"):
        device_model("H300")


@pytest.mark.parametrize("name", DEVICES)
def test_each_device_says_where_its_figures_come_from(name):
    model = DEVICES[name]
    assert "https://" in model.source
    assert model.fp32_flop_s <= model.tf32_flop_s <= model.half_flop_s
    assert f"memory_bytes={model.memory_bytes}" in model.setting()


def test_a_stub_is_weak_and_names_itself():
    text = assembly(["cudaFoo"])
    assert ".weak cudaFoo" in text
    assert '"cudaFoo"' in text


def test_without_a_cuda_build_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr("onelayer.mock_cuda.builds.nvidia_packages", lambda: None)
    library.cache_clear()
    with pytest.raises(NoMock, match="CUDA build of torch"):
        library()
    library.cache_clear()


def test_elsewhere_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    library.cache_clear()
    with pytest.raises(NoMock, match="Linux on x86_64"):
        library()
    library.cache_clear()
    assert nvidia_packages() is None or nvidia_packages().name == "nvidia"
