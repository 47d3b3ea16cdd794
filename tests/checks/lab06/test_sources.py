# ruff: noqa: E501 - the planted faults are lines of C++
"""Lab 06's texts in C++ and CUDA: broken ones are told by name, and a verdict in the jail says what
it rests on."""

from __future__ import annotations

import inspect
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.nn.functional as F

from autograder import selftest
from autograder.checks.lab06_custom_op import bench, harness, heads, lab
from autograder.checks.lab06_custom_op.faults import SENTENCES
from autograder.checks.lab06_custom_op.repair import KINDS
from autograder.judge import Cause, State, ask
from autograder.sandbox import Cell, Jail
from onelayer import cuda_cpu
from onelayer.cuda_cpu import faults

pytestmark = pytest.mark.compiler

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "solutions" / "06_custom_op" / "06_custom_op.ipynb"


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
