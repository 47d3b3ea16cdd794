"""Reading what Inductor generates: each way of touching memory, on texts written by hand."""

from pathlib import Path

import pytest

import onelayer
from onelayer.compiler.generated_kernel import body_of


def cpp(*nests: str, alias: str = "") -> str:
    blocks = "\n".join(f"    {{\n{nest}\n    }}" for nest in nests)
    signature = "const float* in_ptr0, const int64_t* in_ptr1, float* in_out_ptr0, float* out_ptr0"
    return f'extern "C"  void  kernel({signature})\n{{\n{alias}\n{blocks}\n}}\n'


LOOP = (
    "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>({}L); "
    "x0+=static_cast<int64_t>({}L))"
)


def loop(inside: str, end: int = 64, step: int = 1) -> str:
    return f"{LOOP.format(end, step)}\n{{ {inside} }}"


class TestCpp:
    def test_a_load_and_a_store(self) -> None:
        text = cpp(loop("auto tmp0 = in_ptr0[x0]; out_ptr0[x0] = tmp0;"))
        (nest,) = body_of(text, "C++").nests
        assert (nest.reads, nest.writes) == ({"in_ptr0": None}, {"out_ptr0": None})

    def test_vectors(self) -> None:
        inside = (
            "auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), 16);"
            "tmp0.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));"
        )
        (nest,) = body_of(cpp(loop(inside, step=16)), "C++").nests
        assert (set(nest.reads), set(nest.writes)) == ({"in_ptr0"}, {"out_ptr0"})

    def test_a_lookup_counts_its_turns(self) -> None:
        inside = (
            "auto tmp0 = in_ptr1[x0]; auto tmp1 = in_ptr0[static_cast<int64_t>(tmp0 + 600L*x0)];"
        )
        (nest,) = body_of(cpp(loop(inside, end=7)), "C++").nests
        assert nest.reads == {"in_ptr1": None, "in_ptr0": 7}

    def test_a_lookup_in_vectors_counts_each_lane(self) -> None:
        lanes = "for (long i = 0; i < static_cast<int64_t>(16); i++) { b[i] = in_ptr0[tmp3[i]]; }"
        (nest,) = body_of(cpp(loop(lanes, end=64, step=16)), "C++").nests
        assert nest.reads == {"in_ptr0": 64}

    def test_adding_into_memory_reads_and_writes(self) -> None:
        (nest,) = body_of(cpp(loop("out_ptr0[static_cast<int64_t>(tmp0)] += tmp1;")), "C++").nests
        assert (nest.reads, nest.writes) == ({"out_ptr0": 64}, {"out_ptr0": 64})
        (nest,) = body_of(cpp(loop("atomic_add(&out_ptr0[tmp0], tmp1);")), "C++").nests
        assert (nest.reads, nest.writes) == ({"out_ptr0": 64}, {"out_ptr0": 64})

    def test_a_comparison_writes_nothing(self) -> None:
        (nest,) = body_of(cpp(loop("auto tmp0 = in_out_ptr0[x0] == 3;")), "C++").nests
        assert nest.writes == {}

    def test_what_it_wrote_it_does_not_read(self) -> None:
        (nest,) = body_of(cpp(loop("out_ptr0[x0] = 1; auto tmp0 = out_ptr0[x0];")), "C++").nests
        assert nest.reads == {}

    def test_the_next_nest_reads_it(self) -> None:
        body = body_of(cpp(loop("out_ptr0[x0] = 1;"), loop("auto tmp0 = out_ptr0[x0];")), "C++")
        assert [set(nest.reads) for nest in body.nests] == [set(), {"out_ptr0"}]
        assert body.reads == set()

    def test_two_names_for_one_pointer(self) -> None:
        text = cpp(loop("out_ptr1[x0] = 1;"), alias="    auto out_ptr1 = in_out_ptr0;")
        body = body_of(text, "C++")
        assert (body.reads, body.writes) == (set(), {"in_out_ptr0"})

    def test_a_parallel_region_is_taken_apart(self) -> None:
        inner = f"{{ {loop('out_ptr0[x0] = in_ptr0[x0];')} }}"
        text = cpp(f"{inner}\n{inner}")
        start = text.index("    {\n{")
        parallel = f"{text[:start]}    #pragma omp parallel num_threads(2)\n{text[start:]}"
        assert len(body_of(text, "C++").nests) == 1
        assert len(body_of(parallel, "C++").nests) == 2


TRITON = """
@triton.jit
def triton_poi_fused_0(in_ptr0, in_ptr1, in_out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 448
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.load(in_ptr1 + (tmp0 + 600*x0), xmask)
    tmp2 = tl.load(in_out_ptr0 + (x0), xmask)
    tl.store(in_out_ptr0 + (x0), tmp2, xmask)
"""


class TestTriton:
    def test_loads_stores_and_lookups(self) -> None:
        body = body_of(TRITON, "Triton")
        assert body.parameters[:3] == ("in_ptr0", "in_ptr1", "in_out_ptr0")
        (nest,) = body.nests
        assert nest.reads == {"in_ptr0": None, "in_ptr1": 448, "in_out_ptr0": None}
        assert nest.writes == {"in_out_ptr0": None}


FILE = '''
triton_poi_fused_0 = async_compile.triton("triton_poi_fused_0", """
@triton.jit
def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 28
    tmp0 = tl.load(in_ptr0 + (xindex), xmask)
    tl.store(out_ptr0 + (xindex), tmp0, xmask)
""", device_str="cuda")


def call(args):
    arg0_1, arg1_1 = args
    s0 = arg0_1
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((s0, 4), (4, 1), torch.float16)
        triton_poi_fused_0.run(arg1_1, buf0, 4*s0, stream=stream0)
        buf1 = reinterpret_tensor(buf0, (4, s0), (1, 4), 0); del buf0
    return (buf1, None, )


def benchmark_compiled_module():
    arg0_1 = 7
    arg1_1 = rand_strided((7, 4), (4, 1), device="cuda:0", dtype=torch.float16)
'''


class TestFile:
    def test_a_gpus_file_with_a_symbol(self) -> None:
        file = onelayer.read_inductor_file(FILE)
        (kernel,) = file.kernels
        assert (kernel.language, kernel.reads, kernel.writes) == ("Triton", ("arg1_1",), ("buf0",))
        assert (kernel.bytes_read, kernel.bytes_written) == (56, 56)
        assert file.returns == ("buf1",)
        assert (file.bytes_allocated, [b.shape for b in file.allocated]) == (56, [(7, 4)])

    def test_a_whole_file_for_a_gpu(self) -> None:
        """Each kernel's bytes on paper, for 3,584 rows of 600 logits."""
        text = (Path(__file__).parent / "inductor_triton.txt").read_text("utf-8")
        product, sums, loss = onelayer.read_inductor_file(text).kernels
        rows, logits, bias = 3584 * 4, 3584 * 600 * 4, 600 * 4
        assert [k.language for k in (product, sums, loss)] == ["library", "Triton", "Triton"]
        assert (product.bytes_read, product.bytes_written) == (3584 * 64 * 4 + 600 * 64 * 4, logits)
        assert (sums.bytes_read, sums.bytes_written) == (logits + bias, 2 * rows)
        # an int64 target, two row sums and one logit for each row, and the whole bias
        assert (loss.bytes_read, loss.bytes_written) == (2 * rows + 2 * rows + rows + bias, 4)

    def test_what_is_no_file_is_said(self) -> None:
        with pytest.raises(ValueError, match="no function `call`"):
            onelayer.read_inductor_file("x = 1")
