"""Kernels of lab 07 with one fault, and right ones in unusual forms: what they are told."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from autograder.checks.lab07_triton import lab, repairs
from autograder.checks.lab07_triton.admitted import admitted
from autograder.checks.lab07_triton.kernels import FAULTS, Case
from autograder.checks.lab07_triton.programs import launched
from autograder.checks.lab07_triton.suspects import PLANS, drawn
from autograder.judge import Cause, Doubles, Draw, LocalStudent, State, ask
from autograder.selftest import execute
from tests.checks.lab07.asking import KERNELS, SOLUTION, asked, cases_of, edited

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
    known = {w.name: w.sentence for w in lab.questions[question].wrong_answers}
    for seed in (1, 2):
        verdict = edited(solved, question, was, instead, seed)
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
    assert str(edited(solved, question, old, new).sentence).startswith(sentence)


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
    assert edited(solved, question, old, new).state is State.FAIL


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
    assert edited(solved, question, old, new).state is State.PASS


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
