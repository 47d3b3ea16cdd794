# ruff: noqa: E501 - the planted faults are lines of C++
"""Lab 06's own promises: broken sources are told by name, and a verdict in the jail says what it
rests on."""

from __future__ import annotations

import gc
import inspect
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import torch.nn.functional as F

from autograder import selftest
from autograder.checks.lab06_custom_op import bench, harness, heads, lab
from autograder.checks.lab06_custom_op.faults import SENTENCES
from autograder.checks.lab06_custom_op.repair import KINDS
from autograder.judge import Cause, KnownAnswer, LocalStudent, State, Verdict, ask
from autograder.sandbox import Cell, Jail
from onelayer import cuda_cpu
from onelayer.cuda_cpu import faults

pytestmark = pytest.mark.compiler

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "solutions" / "06_custom_op" / "06_custom_op.ipynb"


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return selftest.execute(PAGE)


@pytest.fixture
def asked(solved: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], Verdict]:
    """The verdict on the lab's own answers, with this one in the place of one of them."""

    def verdict(name: str, answer: Any) -> Verdict:
        monkeypatch.setitem(solved, name, answer)
        return ask(lab.questions[name], LocalStudent(solved), seed=5)

    return verdict


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


BIAS_FIRST = ("float sum = b[v * b_v];", "float sum = 0;")
BROKEN_CPP = {
    "strides_ignored": [("n * x_n + d * x_d", "n * D + d"), ("v * w_v + d * w_d", "v * D + d")],
    "stride_of_the_bias_ignored": [("b[v * b_v]", "b[v]")],
    "weight_transposed": [("v * w_v + d * w_d", "d * V + v")],
    "bias_forgotten": [BIAS_FIRST],
    "bias_in_every_term": [BIAS_FIRST, ("w[v * w_v + d * w_d]", "w[v * w_v + d * w_d] + b[v * b_v]")],
    "added_to_what_was_there": [("y[n * V + v] = sum", "y[n * V + v] += sum")],
    "last_feature_missing": [("d < D", "d + 1 < D")],
    "last_features_missing": [("d < D", "d < D / 8 * 8")],
    "written_by_columns": [("y[n * V + v]", "y[v * N + n]")],
    "strides_of_w_exchanged": [("v * w_v + d * w_d", "d * w_v + v * w_d")],
    "features_of_x_side_by_side": [("d * x_d", "d")],
    "sums_in_integers": [("float sum", "int sum")],
    "by_a_library": [("extern", "namespace at { inline void linear() {} }\nextern"), ("float sum", "at::linear();\n float sum")],
}  # fmt: skip
BROKEN_NAIVE = {
    "edge_not_masked": [("if (n >= N || v >= V) return;", "")],
    "empty_grid_launched": [("if (N == 0) return;", "")],
    "grid_rounded_down": [("(V + 15) / 16, (N", "V / 16, (N")],
    "blocks_exchanged": [("(V + 15) / 16, (N + 15) / 16", "(N + 15) / 16, (V + 15) / 16")],
    "written_by_columns": [("y[n * V + v]", "y[v * N + n]")],
    "nothing_launched": [("y[n * V + v] = sum;", "")],
    "grid_and_block_swapped": [("<<<grid, block>>>", "<<<block, grid>>>")],
    "loads_at_the_edge": [
        ("    float sum = b[v * b_v];", ""),
        (
            "if (n >= N || v >= V) return;",
            "float sum = v < V ? b[v * b_v] : 0;\n    if (n >= N || v >= V) return;",
        ),
    ],
    "scattered": [
        (
            "int v = blockIdx.x * blockDim.x + threadIdx.x;",
            "int v = blockIdx.x * blockDim.x + threadIdx.y;",
        ),
        (
            "int n = blockIdx.y * blockDim.y + threadIdx.y;",
            "int n = blockIdx.y * blockDim.y + threadIdx.x;",
        ),
    ],
}
BROKEN_TILED = {
    "no_barrier": [("        __syncthreads();  // the tiles are whole\n", "")],
    "returned_early": [("    float sum = 0;", "    if (n >= N || v >= V) return;\n    float sum = 0;")],
    "tile_not_masked": [("row < V && d < D ?", "d < D ?")],
    "edge_left_unwritten": [("xs[i][j] = n < N && d < D ? x[n * x_n + d * x_d] : 0;", "if (n < N && d < D) xs[i][j] = x[n * x_n + d * x_d];")],
    "edge_brings_zeros": [("n < N && d < D ?", "n < N && v < V && d < D ?"), ("row < V && d < D ?", "row < V && n < N && v < V && d < D ?")],
    "never_shared": [("xs[i][k] * ws[j][k];", "(n < N && v < V && first + k < D ? x[n * x_n + (first + k) * x_d] * w[v * w_v + (first + k) * w_d] : 0);")],
    "last_tile_kept": [("xs[i][j] = n < N && d < D ?", "if (d < D) xs[i][j] = n < N ?"), ("ws[i][j] = row < V && d < D ?", "if (d < D) ws[i][j] = row < V ?")],
    "last_features_dropped": [("first < D;", "first + TILE <= D;")],
    "row_v_brought": [("row = blockIdx.x * TILE + i", "row = v")],
    "tile_of_w_read_across": [("xs[i][k] * ws[j][k]", "xs[i][k] * ws[k][j]")],
    "tiles_swapped": [("xs[i][k] * ws[j][k]", "xs[j][k] * ws[i][k]")],
    "first_tile_again": [("d = first + j", "d = j")],
    "added_to_what_was_there": [("y[n * V + v] = sum", "y[n * V + v] += sum")],
    "tile_of_x_read_across": [("xs[i][k] * ws[j][k]", "xs[k][i] * ws[j][k]")],
    "feature_of_the_row": [("d = first + j", "d = first + i")],
    "sum_begun_for_each_tile": [("// the tiles are whole", "sum = 0;")],
    "edge_not_stored": [("if (n < N && v < V) y", "if ((blockIdx.y + 1) * TILE <= N && (blockIdx.x + 1) * TILE <= V) y")],
}  # fmt: skip
BROKEN = [
    *(("cpu_head", key, edits) for key, edits in BROKEN_CPP.items()),
    *(("naive_head", key, edits) for key, edits in BROKEN_NAIVE.items()),
    *(("tiled_head", key, edits) for key, edits in BROKEN_TILED.items()),
]


SEEN = {
    "MOVED": [("y[n * V + v]", "y[x_n < x_d ? v * N + n : n * V + v]")],
    "END_TO_END": [("n * x_n + d * x_d", "n * (x_d == 1 && N == 6 ? D : x_n) + d * x_d")],
    "FIRST_ROW_ALONE": [("n < N", "n < (x_n ? N : 1)")],
    "FIRST_ROW_RIGHT": [("b[v * b_v]", "b[(n * V + v) * b_v]")],
    "NOT_THE_BIAS": [("b[v * b_v]", "b[v * (b_v ? b_v : 1)]")],
}


@pytest.mark.parametrize("key", SEEN)
def test_what_the_values_show_is_said_of_a_misreading_that_has_no_name(
    solved: dict[str, Any], asked: Any, key: str
) -> None:
    text = edited(solved["cpu_head"](), *SEEN[key])
    assert asked("cpu_head", lambda: text).sentence == getattr(heads, key)


@pytest.mark.parametrize(("name", "key", "edits"), BROKEN, ids=lambda part: str(part)[:40])
def test_a_broken_source_is_told_what_its_misreading_in_python_is_told(
    solved: dict[str, Any], asked: Any, name: str, key: str, edits: list[tuple[str, str]]
) -> None:
    """The known wrong answers compile nothing; here the compiler shows that they are right."""
    text = edited(solved[name](), *edits)
    verdict = asked(name, lambda: text)
    known = next(w for w in lab.questions[name].wrong_answers if w.name == key)
    assert verdict.state is State.FAIL
    assert verdict.sentence == known.sentence, str(verdict)


RARE = [
    ("cpu_head", ("d * x_d", "d * (x_d ? x_d : 1)")),
    ("cpu_head", ("w[v * w_v", "w[v * (w_v ? w_v : D)")),
    ("tiled_head", ("k < TILE", "k < TILE && k < V")),
]


@pytest.mark.parametrize(("name", "edit"), RARE)
def test_a_stride_of_0_and_fewer_words_than_a_tile_are_always_asked(
    solved: dict[str, Any], asked: Any, name: str, edit: tuple[str, str]
) -> None:
    text = edited(solved[name](), edit)
    assert asked(name, lambda: text).state is State.FAIL


def no_checks(text: str) -> str:
    return re.sub(r"    STD_TORCH_CHECK\((?!false).*?\);\n", "", text, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (no_checks, "x and w have different numbers of features"),
        (lambda text: edited(text, ("ScalarType::Double", "ScalarType::Half")), "float64"),
        (lambda text: edited(text, ("m.def", "if (false) m.def")), "defines no operator"),
        (lambda text: edited(text, ("    if (b) {", "    if (b && b->numel()) {")), "different numbers of words"),
        (lambda text: edited(text, ("Tensor? b=None)", "Tensor b)")), "it was not called"),
        (lambda text: edited(text, ("Tensor x, Tensor w, Tensor? b", "Tensor(a!) x, Tensor w, Tensor? b")), "writes into none"),
        (lambda text: None, "as text"),
        (lambda text: edited(text, ("    else if (x.scalar_type() == ScalarType::Double)\n        loops<double>(x, w, b, y);\n    else\n        STD_TORCH_CHECK(false, \"there are kernels for float32 and float64 alone\");", "    else loops<double>(x, w, b, y);")), "has no kernel here"),
        (lambda text: edited(text, ("    STD_TORCH_CHECK(x.scalar_type() == w.scalar_type(), \"x and w have two dtypes\");\n", "")), "x and w have two dtypes"),
        (lambda text: edited(text, ("x.scalar_type() == w.scalar_type()", "(x.scalar_type() == ScalarType::Double) == (w.scalar_type() == ScalarType::Double)")), "x and w have two dtypes"),
        (lambda text: edited(text, ("x.scalar_type() == w.scalar_type()", "b || x.scalar_type() == w.scalar_type()")), "x and w have two dtypes"),
        (lambda text: edited(text, ("b->scalar_type() == w.scalar_type()", "(b->scalar_type() == ScalarType::Double) == (w.scalar_type() == ScalarType::Double)")), "b has another dtype than w"),
        (lambda text: edited(text, ("(lab6, CPU, m)", "(lab6, CUDA, m)")), "no kernel for the CPU"),
        (lambda text: "\n" * 18 + edited(text, (", x.size(1), \" features, w has \", w.size(1)", "")), "says both"),
        (lambda text: edited(text, (", x.size(1), \" features, w has \", w.size(1)", "")), "says both"),
    ],
    ids=["no checks", "no double", "not defined", "empty b", "b needed", "x written", "None", "else double", "one dtype", "w as wide", "w with b", "b as wide", "for CUDA", "later lines", "says nothing"],
)  # fmt: skip
def test_a_broken_operator_is_told_why(
    solved: dict[str, Any], asked: Any, edit: Callable[[str], str], says: str
) -> None:
    text = edit(solved["head_operator"]())
    verdict = asked("head_operator", lambda: text)
    assert verdict.state is State.FAIL
    assert says in str(verdict.sentence), str(verdict)


def declaring(**schemas: str) -> Callable[[Any], None]:
    right = {
        "head": "head(Tensor x, Tensor w, Tensor? b=None) -> Tensor",
        "cap_": "cap_(Tensor(a!) z, float limit=30.0) -> Tensor(a!)",
        "top": "top(Tensor z, int k=3, *, bool largest=True) -> (Tensor, Tensor)",
    }

    def declare_head(library: Any) -> None:
        for schema in (right | schemas).values():
            library.impl(library.define(schema), lambda *args, **kwargs: args[0], "CPU")

    return declare_head


@pytest.mark.parametrize(
    ("schemas", "key"),
    [
        ({"head": "head(Tensor x, Tensor w, Tensor b) -> Tensor"}, "bias_needed"),
        ({"cap_": "cap_(Tensor z, float limit=30.0) -> Tensor"}, "writing_unsaid"),
        ({"top": "top(Tensor z, int k=3, bool largest=True) -> (Tensor, Tensor)"},
         "largest_by_position"),
        ({"top": "top(Tensor z, *, int k=3, bool largest=True) -> (Tensor, Tensor)"},
         "k_by_keyword"),
        ({"head": "head(Tensor x, Tensor w, Tensor? bias=None) -> Tensor"}, "bias_named_otherwise"),
        ({"cap_": "cap_(Tensor(a!) z, float limit=30.0) -> ()"}, "nothing_returned"),
    ],
)  # fmt: skip
def test_a_schema_that_says_something_else(asked: Any, schemas: dict[str, str], key: str) -> None:
    verdict = asked("declare_head", declaring(**schemas))
    assert verdict.misconception == key, str(verdict)


def test_a_kernel_that_does_not_do_what_its_schema_says(asked: Any) -> None:
    verdict = asked("declare_head", declaring())
    assert verdict.state is State.FAIL
    assert verdict.misconception == ""


def test_a_z_that_is_no_row_by_row_is_written_too(solved: dict[str, Any], asked: Any) -> None:
    cap = solved["cap_kernel"]

    class Bent:
        """A library whose cap_ writes into a copy where z is not contiguous."""

        def __init__(self, library: Any) -> None:
            self.define, self.library = library.define, library

        def impl(self, name: str, kernel: Any, key: str) -> None:
            if kernel is cap:
                kernel = lambda z, limit=30.0: cap(z if z.is_contiguous() else z.clone(), limit)  # noqa: E731
            self.library.impl(name, kernel, key)

    declare = solved["declare_head"]
    verdict = asked("declare_head", lambda library: declare(Bent(library)))
    assert "cap_ writes into z" in str(verdict.sentence), str(verdict)


@pytest.mark.parametrize("text", ["head(" * 70, "cap_(" + "(" * 300, "x" * 5_000, "\0", 7, None])
def test_a_hostile_schema_is_a_wrong_answer(text: Any) -> None:
    declared = dict.fromkeys(("head", "cap_", "top"), (text, ["CPU"]))
    names = {"declared": lambda *args, **kwargs: declared}
    verdict = ask(lab.questions["declare_head"], KnownAnswer(names), seed=1)
    assert verdict.state is State.FAIL
    assert "schema" in str(verdict), str(verdict)


FAKES = {
    "row_by_row": lambda x, w, b=None: x.new_empty(x.shape[0], w.shape[0]),
    "shape_transposed": lambda x, w, b=None: x.new_empty(w.shape[0], x.shape[0]),
    "always_float32": lambda x, w, b=None: torch.empty(w.shape[0], x.shape[0], device=x.device).T,
    "always_on_the_cpu": lambda x, w, b=None: torch.empty(w.shape[0], x.shape[0], dtype=x.dtype).T,
    "sizes_become_numbers": lambda x, w, b=None: x.new_empty(int(w.shape[0]), int(x.shape[0])).T,
    "batch_becomes_a_number": lambda x, w, b=None: x.new_empty(w.shape[0], int(x.shape[0])).T,
    "asks_for_a_number": lambda x, w, b=None: (w @ x.T).T * x[0, 0].item(),
}


def test_float16_is_asked_of_a_fake_kernel(asked: Any) -> None:
    def fake_head(x: Any, w: Any, b: Any = None) -> Any:
        dtype = torch.float32 if x.dtype is torch.float16 else x.dtype
        return x.new_empty(w.shape[0], x.shape[0], dtype=dtype).T

    assert asked("fake_head", fake_head).state is State.FAIL


@pytest.mark.parametrize("words", [len, lambda b: b.shape[0]])
def test_a_fake_kernel_that_asks_for_a_bias_is_told_that_there_may_be_none(
    asked: Any, words: Callable[[Any], int]
) -> None:
    verdict = asked("fake_head", lambda x, w, b=None: x.new_empty(words(b), x.shape[0]).T)
    assert "b is None where" in str(verdict.sentence), str(verdict)


def test_a_backward_to_which_nothing_was_saved(asked: Any) -> None:
    def teach_head(op: str) -> None:
        def backward(ctx: Any, dy: Any) -> Any:
            x, w = ctx.saved_tensors
            return answers(x, w, dy, ctx.needs_input_grad)

        torch.library.register_autograd(op, backward)

    assert "ctx.save_for_backward in keep" in asked("teach_head", teach_head).sentence


def teaching(
    backward: Callable[..., Any], *, autocast: torch.dtype | None = torch.bfloat16
) -> Callable[[str], None]:
    def teach_head(op: str) -> None:
        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs[:2])

        def answers(ctx: Any, dy: Any) -> Any:
            return backward(*ctx.saved_tensors, dy, ctx.needs_input_grad)

        torch.library.register_autograd(op, answers, setup_context=keep)
        if autocast:
            torch.library.register_autocast(op, "cpu", autocast)

    return teach_head


def answers(x: Any, w: Any, dy: Any, needs: Any) -> Any:
    dx, dw = (
        f() if n else None for n, f in zip(needs, (lambda: dy @ w, lambda: dy.T @ x), strict=False)
    )
    return dx, dw, dy.sum(0) if any(needs[2:]) else None


def on_ctx(op: str) -> None:
    """What the backward reads is an attribute of ctx, which remembers no version."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.x, ctx.w = inputs[:2]

    def backward(ctx: Any, dy: Any) -> Any:
        return answers(ctx.x, ctx.w, dy, ctx.needs_input_grad)

    torch.library.register_autograd(op, backward, setup_context=keep)
    torch.library.register_autocast(op, "cpu", torch.bfloat16)


TAUGHT = {
    "saved_on_ctx": on_ctx,
    "autocast_passes_by": teaching(answers, autocast=None),
    "cast_to_half": teaching(answers, autocast=torch.float16),
    "everybody_answered": teaching(lambda x, w, dy, needs: (dy @ w, dy.T @ x, dy.sum(0))),
    "bias_averaged": teaching(lambda x, w, dy, needs: (*answers(x, w, dy, needs)[:2], dy.mean(0))),
    "no_backward": lambda op: torch.library.register_autocast(op, "cpu", torch.bfloat16),
}


@pytest.mark.parametrize("key", TAUGHT)
def test_an_operator_that_is_taught_something_else(asked: Any, key: str) -> None:
    verdict = asked("teach_head", TAUGHT[key])
    assert verdict.misconception == key, str(verdict)


@pytest.mark.parametrize("ever", [False, True])
def test_whether_there_is_a_bias_is_a_fact_of_a_call(asked: Any, ever: bool) -> None:
    """ever: the operator had one at some time, and not in its last call."""

    def teach_head(op: str) -> None:
        has = [False]

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            has[0] = inputs[2] is not None or (ever and has[0])
            ctx.save_for_backward(*inputs[:2])

        def backward(ctx: Any, dy: Any) -> Any:
            dx, dw, _ = answers(*ctx.saved_tensors, dy, ctx.needs_input_grad[:2])
            return dx, dw, dy.sum(0) if has[0] and ctx.needs_input_grad[2] else None

        torch.library.register_autograd(op, backward, setup_context=keep)
        torch.library.register_autocast(op, "cpu", torch.bfloat16)

    verdict = asked("teach_head", teach_head)
    assert verdict.sentence == bench.KEPT, str(verdict)
    assert verdict.misconception == ("" if ever else "bias_of_the_last_call")


def test_a_backward_to_which_the_other_tensor_was_not_saved(asked: Any) -> None:
    def teach_head(op: str) -> None:
        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            learns = zip(inputs[:2], ctx.needs_input_grad, strict=False)
            ctx.save_for_backward(*(t if need else None for t, need in learns))

        def backward(ctx: Any, dy: Any) -> Any:
            return answers(*ctx.saved_tensors, dy, ctx.needs_input_grad)

        torch.library.register_autograd(op, backward, setup_context=keep)
        torch.library.register_autocast(op, "cpu", torch.bfloat16)

    assert "dx reads w, and dw reads x" in asked("teach_head", teach_head).sentence


def test_a_bias_may_get_its_gradient_from_a_product(asked: Any) -> None:
    def by_ones(x: Any, w: Any, dy: Any, needs: Any) -> Any:
        ones = dy.new_ones(1, len(dy))
        dx, dw, _ = answers(x, w, dy, needs)
        return dx, dw, (ones @ dy)[0] if any(needs[2:]) else None

    assert asked("teach_head", teaching(by_ones)).state is State.PASS


def test_a_backward_may_keep_copies(asked: Any) -> None:
    """They cost memory, and no later write reaches them."""

    def teach_head(op: str) -> None:
        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*(t.clone() for t in inputs[:2]))

        def backward(ctx: Any, dy: Any) -> Any:
            return answers(*ctx.saved_tensors, dy, ctx.needs_input_grad)

        torch.library.register_autograd(op, backward, setup_context=keep)
        torch.library.register_autocast(op, "cpu", torch.bfloat16)

    assert asked("teach_head", teach_head).state is State.PASS


def test_a_kernel_of_the_page_may_be_its_own_fake(asked: Any, solved: dict[str, Any]) -> None:
    kernel = solved["head_kernel"]
    assert asked("fake_head", lambda x, w, b=None: kernel(x, w, b)).state is State.PASS


def test_a_fake_kernel_may_compute_and_has_to_return(asked: Any) -> None:
    """Of a GPU that is not there, torch refuses to index a fake tensor."""

    def computes(x: Any, w: Any, b: Any = None) -> Any:
        y = w @ x.T
        return (y if b is None else y + b[:, None]).T

    assert asked("fake_head", computes).state is State.PASS
    assert "returned None" in str(asked("fake_head", lambda x, w, b=None: None).sentence)


def test_what_is_computed_for_nobody_is_counted_where_the_weight_learns_alone(asked: Any) -> None:
    def either(x: Any, w: Any, dy: Any, needs: Any) -> Any:
        dx = dy @ w if needs[0] or needs[1] else None
        return dx, *answers(x, w, dy, needs)[1:]

    assert asked("teach_head", teaching(either)).state is State.FAIL


@pytest.mark.parametrize(
    "cap",
    [
        lambda z, limit=30.0: [setattr(z, "data", z.clamp(max=limit)), z][1],
        lambda z, limit=30.0: z.clamp_(max=limit).requires_grad_(),
    ],
)
def test_an_operator_in_place_writes_numbers_and_nothing_else(
    asked: Any, solved: dict[str, Any], cap: Any
) -> None:
    right = solved["declare_head"]

    def declare_head(library: Any) -> None:
        right(SimpleNamespace(define=library.define, impl=impl(library)))

    def impl(library: Any) -> Any:
        return lambda op, kernel, key: library.impl(op, cap if op == "cap_" else kernel, key)

    verdict = asked("declare_head", declare_head)
    assert "another tensor of its argument" in str(verdict.sentence), str(verdict)


def test_what_6_7_teaches_is_taught_to_the_operator_that_6_2_declares(
    solved: dict[str, Any],
) -> None:
    library = solved["new_library"]()
    solved["declare_head"](library)
    solved["teach_head"](f"{library.ns}::head")
    op = getattr(torch.ops, library.ns).head
    x, w, b = (torch.randn(*size, requires_grad=True) for size in ((3, 4), (5, 4), (5,)))
    for given in ((x, w, b), (x, w, None), (x, w)):
        got = torch.autograd.grad(op(*given).sum(), (x, w))
        want = torch.autograd.grad(F.linear(*given).sum(), (x, w))
        torch.testing.assert_close(got, want)


def test_an_operator_outlives_the_room_that_defined_it() -> None:
    """torch 2.11 fails in every later decomposition where it does not."""
    room: dict[str, Any] = {"__name__": "room"}  # what it is in a notebook
    exec(inspect.getsource(harness), room)
    name = room["new_operator"]()[0]
    room["operator_of"](name)  # from here on torch.ops lists it
    room.clear()
    gc.collect()
    torch._C._dispatch_find_schema_or_throw(name, "")
    assert torch.ops.aten.linear.default in {**torch.export.default_decompositions()}


def tempering(
    kernel: Callable[..., Any], fake: Callable[..., Any] | None, slope: Callable[..., Any] | None
) -> Callable[[Any], None]:
    def clean_temper(library: Any) -> None:
        library.define("temper(Tensor z, float t) -> Tensor")
        library.impl("temper", kernel, "CPU")
        op = f"{library.ns}::temper"
        if fake:
            torch.library.register_fake(op, fake, lib=library)
        if slope:
            keep = lambda ctx, inputs, output: setattr(ctx, "t", inputs[1])  # noqa: E731
            torch.library.register_autograd(
                op, lambda ctx, dy: (slope(dy, ctx.t), None), setup_context=keep, lib=library
            )

    return clean_temper


def over(z: Any, t: float) -> Any:
    return z / t


def like(z: Any, t: float) -> Any:
    return torch.empty_like(z)


TEMPERED = {
    "writes_into_z": tempering(lambda z, t: z.div_(t).clone(), like, over),
    "returns_z_itself": tempering(lambda z, t: z if t == 1 else z / t, like, over),
    "fake_in_float32": tempering(over, lambda z, t: torch.empty_like(z, dtype=torch.float32), over),
    "fake_contiguous": tempering(over, lambda z, t: z.new_empty(z.shape), over),
    "fake_with_gaps": tempering(over, lambda z, t: z.new_empty_strided(z.shape, z.stride()), over),
    "no_fake": tempering(over, None, over),
    "no_backward": tempering(over, like, None),
    "backward_multiplies": tempering(over, like, lambda dy, t: dy * t),
}


@pytest.mark.parametrize("key", TEMPERED)
def test_an_operator_that_opcheck_would_not_pass(asked: Any, key: str) -> None:
    if key in ("fake_contiguous", "fake_with_gaps") and torch.__version__.startswith("2.11."):
        pytest.skip("opcheck of torch 2.11 does not compare the strides of a fake result")
    assert asked("clean_temper", TEMPERED[key]).misconception == key


@pytest.mark.parametrize(
    ("kernel", "slope", "said"),
    [
        (lambda z, t: (z.div_(t).clone(), z.mul_(t))[0], over, "wrote into z"),
        (over, lambda dy, t: dy / torch.tensor(t), "sixteen"),
        (over, lambda dy, t: dy / abs(t), "opposite"),
        (over, lambda dy, t: dy / t + (t < 0), "dz = dy / t"),
    ],
    ids=["puts back what it wrote over", "t in float32", "|t| behind", "another slope below 0"],
)
def test_an_operator_that_is_nearly_right(
    asked: Any, kernel: Callable[..., Any], slope: Callable[..., Any], said: str
) -> None:
    verdict = asked("clean_temper", tempering(kernel, like, slope))
    assert said in str(verdict.sentence), str(verdict)


@pytest.mark.parametrize("suspect", KINDS)
def test_a_suspect_looks_right_and_has_the_fault_that_is_asked_for(
    solved: dict[str, Any], suspect: str
) -> None:
    kernels = cuda_cpu.build(solved["SUSPECTS"][suspect])
    found = []
    for n, v, d in ((16, 16, 16), (19, 24, 40)):
        x, w, b, y = torch.randn(n, d), torch.randn(v, d), torch.randn(v), torch.empty(n, v)
        run = kernels.call("launch", x, w, b, y, n, v, d, d, 1, d, 1, 1)
        found.append({fault.kind for fault in run.faults})
    assert found == [set(), {KINDS[suspect]}]


def test_each_fault_that_a_run_can_end_with_has_its_sentence() -> None:
    assert set(cuda_cpu.KINDS) - set(faults.WARNINGS) <= SENTENCES.keys()


@pytest.mark.parametrize(
    "edits",
    [
        [("float acc = 0;", "float acc = 1;")],
        [("no such line", "x")],
        [("acc", "sum")],
        [(f"int {name}", f"int  {name}") for name in ("tx", "v0", "k = 0", "d0", "x_n")],
        [("float acc = 0;", "float acc = 0;" + " " * 100)],
        [("float acc = 0;\n    for", "float acc = 0;\n    for")],
    ],
    ids=["wrong", "not there", "in many places", "too many", "too long", "two lines"],
)
def test_a_repair_that_is_none(asked: Any, edits: list[tuple[str, str]]) -> None:
    verdict = asked("repair", lambda suspect: (KINDS[suspect], edits))
    assert verdict.state is State.FAIL


def test_where_there_is_a_gpu_the_values_are_the_gpu_s(
    solved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the CPU sees of it: the same text is built for "cuda", and its y is what counts."""
    simulated, asked_for = solved["built"], []

    def built(source: str, device: str = "cpu") -> Any:
        asked_for.append(device)
        return simulated(source)

    monkeypatch.setitem(solved, "built", built)
    monkeypatch.setitem(solved, "has_gpu", lambda: True)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda t: t)
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *args, device=None: full(*args))
    x, w, b = torch.randn(3, 5), torch.randn(7, 5), torch.randn(7)
    y = solved["run_cu"]("naive_head", x, w, b)
    torch.testing.assert_close(y, F.linear(x, w, b))
    assert asked_for == ["cpu", "cuda"]
    assert solved["run_cu"]("naive_head", x, w, b, count=True)[2] == "a GPU"


def test_python_in_the_place_of_a_source_is_no_answer(asked: Any) -> None:
    """What a person hands in is text, and text is compiled: there is no place for F.linear."""
    for answer in (F.linear, lambda: F.linear, lambda: b"int x;", lambda: ""):
        for name in ("cpu_head", "naive_head"):
            assert asked(name, answer).state is State.FAIL


def test_a_library_may_be_spoken_of_and_not_called(solved: dict[str, Any], asked: Any) -> None:
    text = solved["cpu_head"]()
    spoken = "// as at::linear does\n/* <torch/all.h> */" + text
    assert asked("cpu_head", lambda: spoken).state is State.PASS
    for called in ("#include <ATen/ATen.h>\n", 'extern "C" void *dlsym(void*, const char*);'):
        assert asked("cpu_head", lambda called=called: called + text).state is State.FAIL


def test_a_source_that_does_not_compile_is_told_its_own_line(
    solved: dict[str, Any], asked: Any
) -> None:
    for name in ("cpu_head", "naive_head", "head_operator"):
        text = solved[name]().replace("y", "why", 1)
        verdict = asked(name, lambda text=text: text)
        assert "does not take it" in str(verdict.sentence), str(verdict)
        assert re.search(r":\d+: ", str(verdict.got)), str(verdict)
        assert "/" not in str(verdict.got).split(".c")[0]


RUNAWAY = {
    "ended its process: SIGSEGV": "y[(n + 1) * 1000000000L] = sum;",
    "runs on": "y[n * V + v] = sum; --v;",
}


def runaway(solved: dict[str, Any], said: str) -> str:
    return edited(solved["cpu_head"](), ("y[n * V + v] = sum;", RUNAWAY[said]))


@pytest.mark.parametrize("said", RUNAWAY)
def test_a_kernel_that_takes_its_process_along_does_not_take_the_notebook_s(
    solved: dict[str, Any], asked: Any, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """This test's process is the notebook: it is still there to compare."""
    text = runaway(solved, said)
    short = inspect.getsource(harness).replace("ENDLESS_S = 10.0", "ENDLESS_S = 1.0")
    monkeypatch.setattr(bench, "harness", short)
    verdict = asked("cpu_head", lambda: text)
    assert verdict.state is State.FAIL
    assert said in str(verdict.got)
    assert str(verdict.sentence).startswith("The kernel ")


@pytest.mark.parametrize("apart", ["(V + D)", "2 * V", "3 * D"])
def test_rows_of_y_at_another_distance_end_no_process(
    solved: dict[str, Any], asked: Any, apart: str
) -> None:
    text = edited(solved["cpu_head"](), ("y[n * V + v] = sum;", f"y[n * {apart} + v] = sum;"))
    assert "outside of y" in str(asked("cpu_head", lambda: text).sentence)


def test_ctrl_c_ends_a_kernel_that_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves no process behind."""
    before = psutil.Process().children()

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        harness.expect_to_return(lambda: signal.pause())
    assert psutil.Process().children() == before


def test_a_machine_without_a_compiler_costs_nobody_a_point(
    asked: Any, solved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise RuntimeError("This needs a C++ compiler, and there is none on the PATH.")

    monkeypatch.setattr(bench, "compiler", none)
    verdict = asked("naive_head", solved["naive_head"])
    assert verdict.state is State.UNGRADABLE
    assert "needs a C++ compiler" in str(verdict.sentence)


def test_no_point_rests_on_what_the_student_s_process_tells() -> None:
    assert not any(question.witnessed for question in lab)


@pytest.mark.jail
@pytest.mark.compiler
@pytest.mark.timeout(900)
def test_the_whole_lab_is_graded_in_the_jail_and_a_python_cheat_is_not(
    solved: dict[str, Any],
) -> None:
    """Cold: nothing is built before, and every build ends with its submission."""
    cells = [
        Cell(cell["id"], "".join(cell["source"]))
        for cell in selftest._cells(PAGE)
        if selftest._is_setup(cell) or selftest._is_answer(cell)
    ]
    cheat = Cell("cheat", "def cpu_head(): return lambda x, w, b: F.linear(x, w, b)")
    budget_s = sum(question.budget_s or 0.0 for question in lab)
    with Jail() as jail:
        with jail.open(cells, extra_load_s=budget_s) as student:
            assert all(cell.error is None for cell in student.cells), student.cells
            verdicts = [ask(question, student, seed=11) for question in lab]
            assert [v.state for v in verdicts] == [State.PASS] * len(verdicts), verdicts
            assert all("simulated" in v.cost for v in verdicts if "CUDA" in v.question)
        with jail.open([*cells, cheat]) as student:
            assert ask(lab.questions["cpu_head"], student, seed=11).state is State.FAIL
        text = runaway(solved, "ended its process: SIGSEGV")
        with jail.open([*cells, Cell("runaway", f"def cpu_head(): return {text!r}")]) as student:
            verdict = ask(lab.questions["cpu_head"], student, seed=11)
        assert verdict.cause is Cause.DIED, verdict
