"""Lab 07: the reader of kernels against Triton's own interpreter, and kernels with real faults."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from autograder.checks.lab07_triton import lab, repairs
from autograder.checks.lab07_triton.admitted import Kernel, Refused, admitted
from autograder.checks.lab07_triton.kernels import FAULTS, Case, padded, tf32
from autograder.checks.lab07_triton.memory import Fault
from autograder.checks.lab07_triton.programs import launched
from autograder.checks.lab07_triton.suspects import PLANS, drawn
from autograder.judge import Cause, Doubles, Draw, LocalStudent, State, Verdict, ask
from autograder.selftest import alternatives, execute

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "07_triton" / "07_triton.ipynb"
KERNELS = ("softmax_kernel", "linear_kernel", "fused_loss_kernel", "fused_backward_kernel")


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return execute(SOLUTION)


@pytest.fixture(scope="module")
def others() -> dict[str, list[dict[str, Any]]]:
    return alternatives(SOLUTION)


def cases_of(question: str, seed: int = 1) -> list[Case]:
    module = import_module(f"autograder.checks.lab07_triton.{question}")
    beyond = getattr(module, "_beyond", None)
    return [*module._cases(Draw(seed)), *(beyond(Draw(seed)) if beyond else ())]


def asked(question: str, source: str, seed: int = 7) -> Verdict:
    return ask(lab.questions[question], LocalStudent({"written": lambda name: source}), seed=seed)


def read(source: str, grid: tuple[int, ...] = (1,), outputs: str = "y_ptr", **given: Any) -> Any:
    return launched(admitted(source), grid, given, (outputs,))


def fault_in(kernel: Kernel, case: Case) -> str:
    try:
        launched(kernel, case.grid, case.given, tuple(case.want))
    except Fault as fault:
        return fault.kind
    return ""


class TestAgainstTriton:
    """The same text, read by us and run by Triton's interpreter, stores the same."""

    @pytest.mark.slow
    @pytest.mark.parametrize("question", KERNELS)
    def test_every_known_answer_stores_the_same_in_both(
        self, question: str, solved: dict[str, Any], others: dict[str, list[dict[str, Any]]]
    ) -> None:
        pytest.importorskip("triton")
        for names in (solved, *others[question]):
            kernel = admitted(names["written"](question))
            for case in cases_of(question)[:4]:
                mine = launched(kernel, case.grid, case.given, tuple(case.want)).tensors
                theirs = {k: _copied(v) for k, v in case.given.items()}
                names[question][case.grid](**theirs)
                for name in case.want:
                    torch.testing.assert_close(mine[name], theirs[name], rtol=1e-4, atol=1e-4)

    @pytest.mark.filterwarnings("ignore:.*encountered in exp:RuntimeWarning")  # on numpy
    def test_every_suspect_does_the_same_in_both(self) -> None:
        pytest.importorskip("triton")
        from onelayer.kernels.triton_jit import kernel as jit

        for suspect in drawn(3, 1):
            run, kernel = jit(_function(suspect.source)), admitted(suspect.source)
            for case in suspect.cases:
                if fault_in(kernel, case):
                    continue
                mine = launched(kernel, case.grid, case.given, tuple(case.want))
                theirs = {k: _copied(v) for k, v in case.given.items()}
                run[case.grid](**theirs)
                for name in case.want:
                    torch.testing.assert_close(
                        mine.tensors[name], theirs[name], rtol=1e-4, atol=1e-4, equal_nan=True
                    )


def _copied(value: Any) -> Any:
    """With the same strides: .clone() keeps those of a tensor without gaps alone."""
    if not isinstance(value, Tensor):
        return value
    flat = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).clone()
    return flat.as_strided(value.shape, value.stride(), int(value.storage_offset()))


def _function(source: str) -> Any:
    import linecache

    from triton import language as tl

    name = f"<suspect {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"tl": tl}
    exec(compile(source, name, "exec"), names)
    return next(v for k, v in names.items() if callable(v) and k not in ("tl", "__builtins__"))


EDITS = [
    ("softmax_kernel", 'mask=v < V, other=float("-inf")', "mask=v < V, other=0.0",
     "lanes_beyond_count"),
    ("softmax_kernel", "tl.exp(z - tl.max(z, 0))", "tl.exp(z)", "no_maximum"),
    ("softmax_kernel", "e / tl.sum(e, 0)", "e", "not_divided"),
    ("softmax_kernel", "n * x_n + v * x_v", "n * V + v", "strides_of_x_ignored"),
    ("softmax_kernel", "n * y_n + v * y_v", "n * V + v", "strides_of_y_ignored"),
    ("softmax_kernel", ", mask=v < V, other=0.0)", ")", "not_masked"),
    ("linear_kernel", ', input_precision="ieee"', "", "in_tf32"),
    ("linear_kernel", "tl.dot(x, tl.trans(w)",
     "tl.dot(x.to(tl.float16), tl.trans(w.to(tl.float16))", "in_float16"),
    ("linear_kernel", "z += tl.dot", "z = tl.dot", "sum_started_anew"),
    ("linear_kernel", "range(0, D, FEATURES)", "range(0, D // FEATURES * FEATURES, FEATURES)",
     "last_features_dropped"),
    ("linear_kernel", "range(0, D, FEATURES)", "range(0, FEATURES, FEATURES)", "one_tile"),
    ("linear_kernel", "(rows < N)[:, None] & (d < D)[None, :]", "(rows < N)[:, None]",
     "edge_not_masked"),
    ("linear_kernel", "words[:, None] * w_v + d[None, :] * w_d",
     "words[:, None] * D + d[None, :]", "strides_of_w_ignored"),
    ("fused_loss_kernel", "total * tl.exp(top - higher)", "total", "not_rescaled"),
    ("fused_loss_kernel", "tl.maximum(top, tl.max(z, 1))", "tl.max(z, 1)", "not_carried"),
    ("fused_loss_kernel", 'mask=v < V, other=float("-inf")', "mask=v < V, other=0.0",
     "words_beyond_count"),
    ("fused_loss_kernel", "at_target += ", "at_target = ", "target_of_the_last_tile"),
    ("fused_loss_kernel", "lse - at_target", "at_target - lse", "gain"),
    ("fused_loss_kernel", "tl.store(lse_ptr + rows, lse", "tl.store(lse_ptr + rows, lse - top",
     "maximum_left_off_lse"),
    ("fused_loss_kernel", ', input_precision="ieee"', "", "in_tf32"),
    ("fused_loss_kernel", "tl.dot(x, tl.trans(w)",
     "tl.dot(x.to(tl.float16), tl.trans(w.to(tl.float16))", "in_float16"),
    ("fused_backward_kernel", "tl.atomic_add(db_ptr", "tl.store(db_ptr",
     "stored_instead_of_added"),
    ("fused_backward_kernel", "* dloss[:, None]", "* tl.where(rows < N, 1.0, 0.0)[:, None]",
     "no_cotangent"),
    ("fused_backward_kernel", "- hit", "", "no_target"),
    ("fused_backward_kernel", "dx += ", "dx = ", "dx_of_the_last_tile"),
    ("fused_backward_kernel",
     'other=float("inf"))\n    dloss = tl.load(dloss_ptr + rows, mask=rows < N, other=0.0',
     "other=0.0)\n    dloss = tl.load(dloss_ptr + rows, mask=rows < N, other=1.0",
     "rows_beyond_count"),
    ("fused_backward_kernel", 'mask=v < V, other=float("-inf")', "mask=v < V, other=0.0",
     "inf_times_0_in_dx"),
    ("fused_backward_kernel", "    d = tl.arange(0, D)\n",
     "    d = tl.arange(0, D)\n    rows = tl.minimum(rows, N - 1)\n", "last_token_again"),
    ("fused_backward_kernel", "tl.sum(dz, 0)", "tl.sum(tl.exp(z - lse[:, None]) - hit, 0)",
     "db_without_cotangent_beside_inf"),
    ("fused_backward_kernel", "tl.dot(dz, w", "tl.dot(tl.exp(z - lse[:, None]) - hit, w",
     "dx_without_cotangent"),
    ("fused_backward_kernel", ', input_precision="ieee"', "", "in_tf32"),
    ("linear_kernel", "d = first + tl.arange(0, FEATURES)",
     "d = (first + tl.arange(0, FEATURES)) % D", "first_features_again"),
    ("fused_loss_kernel", "lse - at_target", "-tl.log(tl.exp(at_target - lse))",
     "through_the_probability"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "was", "instead", "misreading"), EDITS)
def test_a_kernel_with_one_fault_is_told_its_sentence(
    question: str, was: str, instead: str, misreading: str, solved: dict[str, Any]
) -> None:
    source = solved["written"](question)
    assert was in source
    known = {w.name: w.sentence for w in lab.questions[question].wrong_answers}
    for seed in (1, 2):
        verdict = asked(question, source.replace(was, instead), seed)
        assert (verdict.state, verdict.sentence) == (State.FAIL, known[misreading])


def test_a_probability_vanishes_whatever_is_drawn() -> None:
    """A loss that is above 104, of which float32 has no probability, is asked on every seed."""
    for seed in range(40):
        losses = [case.want["loss_ptr"].max() for case in cases_of("fused_loss_kernel", seed)]
        assert max(losses) > 104, seed


def test_words_taken_off_the_sum_again_are_not_a_maximum_from_0(solved: dict[str, Any]) -> None:
    """Their maximum begins at -inf, as it should."""
    source = solved["written"]("fused_loss_kernel").replace(', other=float("-inf")', ", other=0.0")
    beyond = "(WORDS - V % WORDS) % WORDS * tl.exp(-top)"
    source = source.replace("tl.log(total)", f"tl.log(total - {beyond})")
    verdict = asked("fused_loss_kernel", source)
    assert (verdict.state, "never below 0" in str(verdict.sentence)) == (State.FAIL, False)
    assert "taken off the sum again" in str(verdict.sentence)


@pytest.mark.parametrize("question", KERNELS)
def test_no_two_misreadings_are_alike(question: str) -> None:
    """Else the sentence of one could be told for the other."""
    module = import_module(f"autograder.checks.lab07_triton.{question}")
    kernels = import_module("autograder.checks.lab07_triton.kernels")
    cases = cases_of(question)
    seen = {
        name: [kernels._quietly(lambda case, m=m: m.stored(case.given), case) for case in cases]
        for name, m in module.MISREADINGS.items()
    }
    for a in seen:
        for b in seen:
            if a < b:
                alike = map(kernels._alike, seen[a], seen[b])
                assert not all(alike), (a, b)


@pytest.mark.parametrize("question", lab.questions)
@pytest.mark.slow
def test_no_wrong_answer_is_lucky(question: str) -> None:
    """Each known wrong answer fails whatever is drawn, and is known by its own sentence."""
    asked = lab.questions[question]
    for seed in range(100, 102):
        doubles = Doubles(asked, seed)
        for known in asked.wrong_answers:
            verdict = ask(asked, LocalStudent(known.functions), seed=seed, doubles=doubles)
            assert verdict.state is State.FAIL, (known.name, seed)
            assert verdict.sentence == known.sentence, (known.name, seed)


class TestFaults:
    """What Triton's interpreter lets pass."""

    def test_a_lane_outside_of_the_tensor(self) -> None:
        source = "def k(y_ptr, B: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, B), 1.0)\n"
        with pytest.raises(Fault) as caught:
            read(source, y_ptr=torch.zeros(5), B=8)
        assert (caught.value.kind, caught.value.line) == ("out_of_bounds", 2)

    def test_the_gap_between_two_rows_is_outside(self) -> None:
        source = "def k(y_ptr, B: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, B), 1.0)\n"
        wide = torch.zeros(4, 4)
        with pytest.raises(Fault, match="outside"):
            read(source, y_ptr=wide[:, :2], B=8)

    @pytest.mark.parametrize(
        "line",
        [
            "tl.store(y_ptr, 1.0)",
            "tl.store(y_ptr + 1, tl.load(y_ptr) + tl.program_id(0), mask=tl.program_id(0) > 0)\n"
            "    tl.store(y_ptr, 1.0, mask=tl.program_id(0) < 1)",
            "tl.atomic_add(y_ptr, 1.0)\n    tl.store(y_ptr, 2.0)",
        ],
    )
    def test_two_programs_in_one_element(self, line: str) -> None:
        with pytest.raises(Fault) as caught:
            read(f"def k(y_ptr):\n    {line}\n", (2,), y_ptr=torch.zeros(3))
        assert caught.value.kind == "race"

    def test_atomic_adds_may_meet(self) -> None:
        run = read("def k(y_ptr):\n    tl.atomic_add(y_ptr, 2.0)\n", (3,), y_ptr=torch.zeros(1))
        assert run.tensors["y_ptr"].tolist() == [6.0]

    def test_inputs_are_not_written(self) -> None:
        source = "def k(x_ptr, y_ptr):\n    tl.store(x_ptr, 1.0)\n"
        with pytest.raises(Fault) as caught:
            read(source, x_ptr=torch.zeros(1), y_ptr=torch.zeros(1))
        assert caught.value.kind == "wrote_input"

    def test_a_masked_lane_without_other_holds_nothing(self) -> None:
        source = (
            "def k(x_ptr, y_ptr, B: tl.constexpr):\n    v = tl.arange(0, B)\n"
            "    tl.store(y_ptr + v, tl.load(x_ptr + v, mask=v < 3))\n"
        )
        run = read(source, x_ptr=torch.ones(4), y_ptr=torch.zeros(4), B=4)
        assert run.tensors["y_ptr"].isnan().tolist() == [False, False, False, True]

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ("x = tl.arange(0, N)", "not_constexpr"),
            ("x = tl.arange(0, 6)", "power_of_two"),
            ("x = tl.zeros((4, N), tl.float32)", "not_constexpr"),
            ("x = tl.arange(0, 4) + tl.arange(0, 8)", "shapes"),
            ("x = tl.dot(tl.zeros((4, 8), tl.float32), tl.zeros((4, 8), tl.float32))", "shapes"),
            ("x = tl.arange(0, 4)[None]", "shapes"),
            ("x = y_ptr + 1.5", "dtypes"),
            ("x = tl.exp(tl.arange(0, 4))", "dtypes"),
            ("x = tl.arange(0, 4) < y_ptr", "misused"),
            ("x = missing + 1", "unknown_name"),
            ("x = tl.sort(tl.arange(0, 4))", "unknown_word"),
            ("x = open('/etc/passwd')", "unknown_function"),
            ("x = tl.arange(0, 4).tofile('x')", "unknown_word"),
            ("x = tl.arange.__globals__", "unknown_word"),
            ("x = y_ptr.buffer", "unknown_word"),
            ("x = tl.full((2048, 2048), 0.0, tl.float32)", "too_large"),
            ("x = 9 * 10 ** 300", "misused"),
            ("x = tl.arange(0, 4) ** 2", "misused"),
            ("x = 1 << 1000000000", "too_large"),
            ("x = tl.trans(tl.arange(0, 4), 1, 0)", "shapes"),
            ("x = tl.advance(y_ptr, (0,))", "misused"),
            ("x = float('a number')", "misused"),
            ("x = 4611686018427387904 * 4", "too_large"),
            ("x = 1 // 0", "misused"),
            ("if tl.arange(0, 4) > 1:\n        pass", "misused"),
            ("while True:\n        pass", "endless"),
            ("for i in range(10 ** 9):\n        pass", "endless"),
            ("for i in range(1000000000):\n        pass", "endless"),
            ("x = tl.load(1)", "misused"),
            ("x = tl.load(y_ptr, nobody=1, mask=tl.zeros((2, 2), tl.float32) > 0)", "shapes"),
            ("tl.store(y_ptr, tl.arange(0, 4))", "shapes"),
            ("x = -(tl.arange(0, 4) > 1)", "dtypes"),
            ("x = tl.arange(0, 4) + 99999999999999999999", "dtypes"),
        ],
    )
    def test_each_has_its_name_and_a_sentence(self, line: str, kind: str) -> None:
        with pytest.raises(Fault) as caught:
            read(f"def k(y_ptr, N):\n    {line}\n", y_ptr=torch.zeros(1), N=4)
        assert caught.value.kind == kind
        assert kind in FAULTS

    def test_every_kind_that_is_raised_has_a_sentence(self) -> None:
        folder = ROOT / "autograder" / "checks" / "lab07_triton"
        raised = set()
        for path in folder.glob("*.py"):
            raised |= set(re.findall(r'Fault\(\s*"(\w+)"', path.read_text("utf-8")))
        assert {"race", "shapes", "endless"} <= raised <= set(FAULTS)

    def test_a_fault_names_its_line_in_the_verdict(self, solved: dict[str, Any]) -> None:
        source = solved["written"]("softmax_kernel").replace("mask=v < V, other=0.0", "")
        verdict = asked("softmax_kernel", source)
        assert "tl.load(b_ptr" in str(verdict.got)
        assert verdict.sentence == FAULTS["out_of_bounds"]


class TestAdmission:
    @pytest.mark.parametrize(
        "source",
        [
            "import os",
            "def k(): import os",
            "def k(a=print('now')): pass",
            "def k(*a): pass",
            "def k():\n    x = lambda: 1",
            "def k():\n    x = [y for y in z]",
            "def k():\n    x.y = 1",
            "def k():\n    x[0] = 1",
            "def k():\n    def inner(): pass",
            "def k():\n    return 1",
            "def k():\n    x = 0 < 1 < 2",
            "def k():\n    break",
            "def k():\n    global x",
            "def k():\n    x = f'{1}'",
            "def k():\n    (x := 1)",
            "class K: pass",
            "def k(): pass\ndef l(): pass",
            "def k(:",
            "def k():\n    x = " + "(" * 5000 + ")" * 5000,
            "def k():\n    pass\n" + "#" * 30_000,
            "\0",
        ],
    )
    def test_other_texts_are_refused(self, source: str) -> None:
        with pytest.raises(Refused):
            admitted(source)

    def test_decorators_and_docstrings_are_let_be(self) -> None:
        kernel = admitted('@anything(1)\ndef k(y_ptr, B: "tl.constexpr"):\n    """Text."""\n')
        assert kernel.constants == {"B"}

    @pytest.mark.parametrize("source", ["", "no kernel", "misread: nothing", "def k(): pass"])
    def test_a_text_that_is_no_answer_fails(self, source: str) -> None:
        assert asked("softmax_kernel", source).state is State.FAIL

    @pytest.mark.parametrize("source", [None, 3, ["def k(): pass"]])
    def test_no_text_fails(self, source: Any) -> None:
        assert asked("linear_kernel", source).cause is Cause.WRONG

    def test_deep_expressions_end(self) -> None:
        deep = "def k(y_ptr):\n    x = " + "-" * 3000 + "1\n"
        with pytest.raises((Fault, Refused)):
            read(deep, y_ptr=torch.zeros(1))


class TestMeaning:
    """Words whose meaning is easily a little off."""

    @pytest.mark.parametrize(
        ("expression", "want"),
        [
            ("tl.arange(0, 4) / 2", [0.0, 0.5, 1.0, 1.5]),
            ("tl.arange(0, 4) * 0.5", [0.0, 0.5, 1.0, 1.5]),
            ("tl.where(tl.arange(0, 4) < 2, 1.0, 0.0)", [1.0, 1.0, 0.0, 0.0]),
            ("tl.maximum(tl.arange(0, 4), 2)", [2.0, 2.0, 2.0, 3.0]),
            ("tl.cdiv(tl.arange(0, 4), 2)", [0.0, 1.0, 1.0, 2.0]),
            ("(tl.arange(0, 4) + 1).to(tl.float32)", [1.0, 2.0, 3.0, 4.0]),
            ("tl.sum(tl.zeros((4, 2), tl.float32) + 3, axis=1)", [6.0] * 4),
            ("tl.full((4,), float('-inf'), tl.float32) if 1 > 2 else tl.zeros([4], tl.float32)",
             [0.0] * 4),
            ("tl.trans(tl.arange(0, 4)[:, None] + tl.zeros((4, 1), tl.float32)).sum(0)",
             [0.0, 1.0, 2.0, 3.0]),
            ("min(3, 5) + tl.zeros((4,), tl.float32)", [3.0] * 4),
            ("tl.maximum(tl.zeros([4], tl.float32), float('-Infinity'))", [0.0] * 4),
            ("tl.arange(0, 4) << 1", [0.0, 2.0, 4.0, 6.0]),
            ("tl.arange(0, 8 >> 1) >> 1", [0.0, 0.0, 1.0, 1.0]),
            ("tl.max(input=tl.arange(0, 4), axis=0)", [3.0] * 4),
            ("tl.multiple_of(tl.arange(0, 4), 4) + tl.zeros_like(tl.arange(0, 4))", [0, 1, 2, 3]),
            ("tl.fdiv(tl.arange(0, 4), 2)", [0.0, 0.5, 1.0, 1.5]),
            ("tl.softmax(tl.zeros((4,), tl.float32) - 200)", [0.25] * 4),
            ("tl.permute(tl.arange(0, 4)[:, None], (1, 0)).reshape(4)", [0.0, 1.0, 2.0, 3.0]),
            ("tl.arange(0, 4)[:, None].trans(1, 0).view(4)", [0.0, 1.0, 2.0, 3.0]),
            ("tl.zeros((4,), tl.float32).exp2()", [1.0] * 4),
        ],
    )  # fmt: skip
    def test_values(self, expression: str, want: list[float]) -> None:
        source = f"def k(y_ptr):\n    tl.store(y_ptr + tl.arange(0, 4), {expression})\n"
        assert read(source, y_ptr=torch.zeros(4)).tensors["y_ptr"].tolist() == want

    def test_a_tuple_of_blocks_gives_each_name_its_own(self) -> None:
        source = (
            "def k(y_ptr, B: tl.constexpr):\n    n, v = tl.program_id(0), tl.arange(0, B)\n"
            "    tl.static_assert(B > 1)\n    HALF = tl.constexpr(B // 2)\n"
            "    tl.store(y_ptr + v, v + n + HALF)\n"
        )
        assert read(source, y_ptr=torch.zeros(4), B=4).tensors["y_ptr"].tolist() == [2, 3, 4, 5]

    def test_a_block_pointer_has_edges_and_moves(self) -> None:
        source = (
            "def k(x_ptr, y_ptr, N, B: tl.constexpr):\n"
            "    x = tl.make_block_ptr(x_ptr, (3, N), (N, 1), (0, 0), (B, B), (1, 0))\n"
            "    y = tl.make_block_ptr(base=y_ptr, shape=(3, N), strides=(N, 1), offsets=(0, 0),\n"
            "                          block_shape=(B, B), order=(1, 0))\n"
            "    for _ in range(0, N, B):\n"
            "        block = tl.load(x, boundary_check=(0, 1), padding_option='zero')\n"
            "        tl.store(y, block * 2, boundary_check=(0, 1))\n"
            "        x = tl.advance(x, (0, B))\n        y = y.advance((0, B))\n"
        )
        x = Draw(3).tensor(3, 7)
        run = read(source, x_ptr=x, y_ptr=torch.zeros(3, 7), N=7, B=4)
        assert torch.equal(run.tensors["y_ptr"], 2 * x)
        with pytest.raises(Fault) as caught:
            read(source.replace("(0, 1))", "(0,))"), x_ptr=x, y_ptr=torch.zeros(3, 7), N=7, B=4)
        assert caught.value.kind == "out_of_bounds"

    def test_a_program_knows_its_place(self) -> None:
        source = (
            "def k(y_ptr, N):\n"
            "    i, j = tl.program_id(0), tl.program_id(1)\n"
            "    tl.store(y_ptr + i * tl.num_programs(1) + j, 10 * i + j)\n"
        )
        run = read(source, (2, 3), y_ptr=torch.zeros(6), N=1)
        assert run.tensors["y_ptr"].tolist() == [0, 1, 2, 10, 11, 12]

    def test_an_early_return_ends_one_program(self) -> None:
        source = (
            "def k(y_ptr):\n    n = tl.program_id(0)\n    if n == 1:\n        return\n"
            "    tl.store(y_ptr + n, 1.0)\n"
        )
        assert read(source, (3,), y_ptr=torch.zeros(3)).tensors["y_ptr"].tolist() == [1, 0, 1]

    def test_bytes_are_counted_once_for_each_access(self) -> None:
        source = (
            "def k(x_ptr, y_ptr):\n    v = tl.arange(0, 4)\n"
            "    x = tl.load(x_ptr + v * 0) + tl.load(x_ptr + v, mask=v < 2, other=0.0)\n"
            "    tl.store(y_ptr + v, x)\n"
        )
        run = read(source, x_ptr=torch.ones(4), y_ptr=torch.zeros(4))
        assert (run.loaded_bytes["x_ptr"], run.stored_bytes["y_ptr"]) == (4 + 8, 16)

    def test_tf32_keeps_ten_bits(self) -> None:
        source = (
            "def k(x_ptr, y_ptr):\n    v = tl.arange(0, 16)\n"
            "    x = tl.load(x_ptr + v[:, None] * 16 + v[None, :])\n"
            "    eye = tl.where(v[:, None] == v[None, :], 1.0, 0.0)\n"
            "    tl.store(y_ptr + v[:, None] * 16 + v[None, :], tl.dot(x, eye))\n"
        )
        x = Draw(3).tensor(16, 16)
        y = read(source, x_ptr=x, y_ptr=torch.zeros(16, 16)).tensors["y_ptr"]
        assert torch.equal(y, tf32(x))
        assert 2**-13 < float(((y - x) / x).abs().max()) <= 2**-11

    def test_padding_is_the_next_power_of_two(self) -> None:
        assert [padded(n) for n in (1, 2, 3, 64, 65, 600)] == [1, 2, 4, 64, 128, 1024]


class TestOracles:
    """The truths of the questions about numbers, against the launch of a real kernel."""

    def test_bytes_are_those_of_the_solutions_launch(self, solved: dict[str, Any]) -> None:
        module = import_module("autograder.checks.lab07_triton.fused_bytes")
        loss = import_module("autograder.checks.lab07_triton.fused_loss_kernel")
        linear = import_module("autograder.checks.lab07_triton.linear_kernel")
        n, v, d, rows, words = 21, 75, 16, 16, 32
        (read_z, written), (after_read, after_written) = module._counted(n, v, d, 4, rows, words)
        case = loss.case_of(Draw(1), n, v, d, (rows, words))
        run = _run(solved, "fused_loss_kernel", case)
        assert sum(run.loaded_bytes.values()) == after_read
        assert sum(run.stored_bytes.values()) == after_written
        case = linear._case(Draw(1), (n, v, d), (rows, words, 16))
        run = _run(solved, "linear_kernel", case)
        assert sum(run.loaded_bytes.values()) + n * v * 4 + 8 * n == read_z
        assert sum(run.stored_bytes.values()) + 4 * n == written

    def test_the_sectors_of_a_row_are_a_memory_of_bytes(self) -> None:
        module = import_module("autograder.checks.lab07_triton.sectors")
        for seed in range(30):
            for first, stride, columns, itemsize in module._cases(Draw(seed)):
                at = [first + itemsize * (k // columns * stride[0] + k % columns * stride[1])
                      for k in range(32)]  # fmt: skip
                words = np.unique(np.array(at) // 4)
                want = len({a // 32 for a in at}), int(np.bincount(words % 32).max())
                assert module._touched(first, stride, columns, itemsize) == want

    def test_the_roof_is_the_one_that_was_drawn(self) -> None:
        module = import_module("autograder.checks.lab07_triton.roofline_time")
        for seed in range(20):
            draw = Draw(seed)
            machine = module._machine(draw)
            for roof in module.ROOFS:
                times = module._times(
                    module._kernel(draw, machine, roof, draw.integer(100, 900)), machine
                )
                assert module.ROOFS[int(np.argmax(times))] == roof


def _run(solved: dict[str, Any], question: str, case: Case) -> Any:
    kernel = admitted(solved["written"](question))
    return launched(kernel, case.grid, case.given, tuple(case.want))


class TestPage:
    def test_the_answer_repairs_the_five_of_the_page(self, solved: dict[str, Any]) -> None:
        repairs = {name: solved["broken_kernel"](text) for name, text in solved["SUSPECTS"].items()}
        assert {name: number for name, (number, _) in repairs.items()} == {
            "Ada": 4, "Bo": 7, "Cy": 3, "Di": 8, "Ed": 7
        }  # fmt: skip

    def test_a_list_of_repairs_is_no_answer(self, solved: dict[str, Any]) -> None:
        """Of all kernels of one seed: with another one their names are others."""
        published = {s.source: solved["broken_kernel"](s.source) for s in drawn(3, 1)}
        student = LocalStudent({"broken_kernel": published.get})
        assert ask(lab.questions["broken_kernel"], student, seed=3).state is State.PASS
        assert not {s.source for s in drawn(4, 1)} & set(published)
        assert ask(lab.questions["broken_kernel"], student, seed=4).state is State.FAIL

    @pytest.mark.slow
    def test_no_suspect_is_right_as_it_stands_and_each_is_told_its_rule(self) -> None:
        known = import_module("autograder.checks.lab07_triton.broken_kernel")
        suspects = [suspect for suspect in drawn(5, 1) if suspect.kind]
        assert len(suspects) == sum(len(plan.flaws) for plan in PLANS)
        for suspect in suspects:
            first = suspect.source.splitlines()[0]
            said = {suspect.source: (1, first)}
            student = LocalStudent({"broken_kernel": said.get})
            verdict = ask(lab.questions["broken_kernel"], student, seed=5)
            assert (verdict.state, verdict.sentence) == (State.FAIL, known.MISSED[suspect.kind])

    def test_a_kernel_that_is_left_out_is_asked_for(self, solved: dict[str, Any]) -> None:
        def all_but_stores(source: str) -> Any:
            repair = solved["broken_kernel"](source)
            return None if repair and "atomic_add" in repair[1] else repair

        student = LocalStudent({"broken_kernel": all_but_stores})
        verdict = ask(lab.questions["broken_kernel"], student, seed=3)
        assert "programs meet" in str(verdict.where)
        assert "no repair" in str(verdict.sentence)

    def test_a_maximum_that_is_kept_too_late_is_not_what_was_there(
        self, solved: dict[str, Any]
    ) -> None:
        """Where nothing overflows, the kernel was right before and is not with that line."""

        def too_late(source: str) -> Any:
            for number, line in enumerate(source.splitlines(), 1):
                if (m := re.fullmatch(r"(\s+)(\w+) = (\w+)", line)) and "tl.max(" in source:
                    return number, f"{m[2]} = tl.maximum({m[2]}, {m[3]})"
            return solved["broken_kernel"](source)

        student = LocalStudent({"broken_kernel": too_late})
        verdict = ask(lab.questions["broken_kernel"], student, seed=3)
        assert (verdict.state, "only after the sum" in str(verdict.sentence)) == (State.FAIL, True)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_comment_is_no_line_of_the_kernel(self, seed: int, solved: dict[str, Any]) -> None:
        """A store in a comment stands above each store that has to add, whatever is drawn."""

        def first_store(source: str) -> Any:
            repair = solved["broken_kernel"](source)
            lines = list(enumerate(source.splitlines(), 1))
            return next(
                (
                    (k, line.replace("store", "atomic_add"))
                    for k, line in lines
                    if "tl.store" in line
                )
                if repair and "atomic_add" in repair[1]
                else iter([repair])
            )

        student = LocalStudent({"broken_kernel": first_store})
        verdict = ask(lab.questions["broken_kernel"], student, seed=seed)
        assert (verdict.state, "still store" in str(verdict.sentence)) == (State.FAIL, True)

    def test_a_kernel_without_its_decorator_is_missed(self, solved: dict[str, Any]) -> None:
        names = {**solved, "SOURCES": {}}
        student = LocalStudent({"written": lambda name: names["SOURCES"][name]})
        verdict = ask(lab.questions["softmax_kernel"], student, seed=3)
        assert verdict.state is State.FAIL


RIGHT_FORMS = (
    ("softmax_kernel", 'float("-inf")', "-math.inf"),
    ("softmax_kernel", "tl.exp(", "tl.extra.cuda.libdevice.exp("),
    ("softmax_kernel", "tl.max(z, 0)", "tl.max(z, axis=0, return_indices=True)[0]"),
    ("softmax_kernel", "tl.max(z, 0)", "tl.sum(tl.where(v == tl.argmax(z, 0), z, 0.0), 0)"),
    ("softmax_kernel", "tl.max(z, 0)", "tl.max(tl.flip(z, 0), 0)"),
    ("softmax_kernel", "tl.max(z, 0)", "tl.broadcast(z, tl.max(z, 0))[1]"),
    ("softmax_kernel", "tl.sum(e, 0)", "tl.max(tl.cumsum(e, 0), 0)"),
    ("softmax_kernel", "    v = tl.arange", "    assert BLOCK >= 1\n    v = tl.arange"),
    ("softmax_kernel", "BLOCK: tl.constexpr", "BLOCK: tl.constexpr = 1024"),
    ("linear_kernel", "tl.dot(x, tl.trans(w)", "tl.dot(input=x, other=tl.trans(w)"),
    ("linear_kernel", "tl.arange(0, FEATURES)", "tl.arange(0, FEATURES**1)"),
    ("fused_loss_kernel", "tl.zeros((ROWS,), tl.float32)", "tl.full_like(top, 0.0)"),
)


@pytest.mark.parametrize(
    ("question", "old", "new", "sentence"),
    [
        ("softmax_kernel", "0), mask=v < V)", "0), mask=e > 0)", "Some elements of an output"),
        ("softmax_kernel", "tl.max(z, 0)", "tl.min(z, 0)", "The smallest is taken"),
        ("softmax_kernel", "tl.exp(", "tl.exp2(", "tl.exp2 is a power of 2."),
        ("softmax_kernel", "z += tl.load", "z -= tl.load", repairs.TURNED),
        ("softmax_kernel", ', other=float("-inf")', "", repairs.OTHER),
        ("softmax_kernel", "e / tl.sum(e, 0)", "e / (tl.sum(e, 0) + 0.1)", repairs.TOO_MANY),
        ("softmax_kernel", "e / tl.sum", "e.to(tl.float16) / tl.sum", repairs.HALF),
        ("fused_loss_kernel", "top - higher)", "higher - top)", repairs.EXCHANGED),
        ("softmax_kernel", "n * x_n + v * x_v", "n * x_n + v", repairs.UNSTRIDED),
        ("linear_kernel", "d[None, :] * w_d", "d[None, :]", repairs.UNSTRIDED),
        ("linear_kernel", "_mask, other=0.0", "_mask", repairs.OTHER),  # of both factors
    ],
)
def test_one_place_that_makes_a_kernel_wrong_is_told(
    question: str, old: str, new: str, sentence: str, solved: dict[str, Any]
) -> None:
    source = solved["written"](question)
    assert old in source
    assert str(asked(question, source.replace(old, new)).sentence).startswith(sentence)


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        ("softmax_kernel", "n * x_n", "n * tl.where(x_n == 0, V, x_n)"),
        ("softmax_kernel", "v * x_v", "v * tl.maximum(x_v, 1)"),
        ("softmax_kernel", "v * b_v", "v * tl.maximum(b_v, 1)"),
        ("linear_kernel", "* x_n", "* tl.where(x_n == 0, D, x_n)"),
        ("linear_kernel", "* w_v", "* tl.where(w_v == 0, D, w_v)"),
        ("fused_loss_kernel", "* x_n", "* tl.where(x_n == 0, D, x_n)"),
        ("fused_backward_kernel", "* x_n", "* tl.where(x_n == 0, D, x_n)"),
    ],
)
def test_a_stride_of_0_is_a_stride(
    question: str, old: str, new: str, solved: dict[str, Any]
) -> None:
    source = solved["written"](question)
    assert old in source
    assert asked(question, source.replace(old, new)).state is State.FAIL


def test_logits_in_tf32_are_not_told_as_float16_alone(solved: dict[str, Any]) -> None:
    source = solved["written"]("fused_backward_kernel")
    rounded = source.replace(', input_precision="ieee"', "", 1)
    sentence = str(asked("fused_backward_kernel", rounded).sentence)
    assert "tf32" in sentence, sentence


def test_a_top_of_0_is_a_top() -> None:
    def running_lse(a: Any, b: Any) -> Any:
        top = torch.maximum(a[0], b[0])
        near = top.masked_fill(top == -torch.inf, 0.0)
        return top, a[1] * (a[0] - near).exp() * (a[0] != 0) + b[1] * (b[0] - near).exp()

    student = LocalStudent({"running_lse": running_lse})
    assert ask(lab.questions["running_lse"], student, seed=3).state is State.FAIL


@pytest.mark.parametrize(("question", "old", "new"), RIGHT_FORMS)
def test_an_unusual_form_of_a_right_kernel_passes(
    question: str, old: str, new: str, solved: dict[str, Any]
) -> None:
    source = solved["written"](question)
    assert old in source
    assert asked(question, source.replace(old, new)).state is State.PASS


HELPED = """\
def softmax_kernel(x_ptr, b_ptr, y_ptr, V, x_n, x_v, b_v, y_n, y_v, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    z = tl.load(x_ptr + n * x_n + v * x_v, mask=v < V, other=float("-inf"))
    z += tl.load(b_ptr + v * b_v, mask=v < V, other=0.0)
    tl.store(y_ptr + n * y_n + v * y_v, shares(z), mask=v < V)
"""


@pytest.mark.parametrize(
    ("helper", "state"),
    [
        ("def shares(z):\n    return above(z) / tl.sum(above(z), 0)\n", State.PASS),
        ("def shares(z):\n    return above(z)\n", State.FAIL),
    ],
)
def test_a_kernel_calls_functions_of_its_own(helper: str, state: State) -> None:
    texts = {"softmax_kernel": HELPED, "shares": helper,
             "above": "def above(z):\n    return tl.exp(z - tl.max(z, 0))\n"}  # fmt: skip
    student = LocalStudent({"written": texts.__getitem__})
    assert ask(lab.questions["softmax_kernel"], student, seed=3).state is state


def test_a_function_that_is_nowhere_is_told() -> None:
    student = LocalStudent({"written": {"softmax_kernel": HELPED}.__getitem__})
    verdict = ask(lab.questions["softmax_kernel"], student, seed=3)
    assert (verdict.cause, verdict.sentence) == (Cause.WRONG, FAULTS["unknown_function"])


def test_a_sum_that_changes_its_dtype_in_a_loop_is_no_kernel(solved: dict[str, Any]) -> None:
    source = solved["written"]("linear_kernel")
    narrow = source.replace(
        "tl.zeros((ROWS, WORDS), tl.float32)", "tl.zeros((ROWS, WORDS), tl.float16)"
    )
    assert asked("linear_kernel", narrow).sentence == FAULTS["dtypes"]


def test_without_triton_kernels_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "onelayer.kernels.triton_jit", raising=False)
    names = execute(SOLUTION)
    assert names["jit"] is None
    verdict = ask(lab.questions["linear_kernel"], LocalStudent(names), seed=3)
    assert verdict.state is State.PASS
