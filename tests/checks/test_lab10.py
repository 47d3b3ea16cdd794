"""Lab 10's own truths: its formats are torch's where torch has them, its rules of autocast are what
torch does, and its repaired step is what a loop of torch's own does."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd

from autograder.checks.lab10_mixed_precision import (
    autocast_dtypes,
    custom_op_under_autocast,
    lab,
    loss_scale,
    mended_run,
    safe_head_loss,
    training,
)
from autograder.checks.lab10_mixed_precision.broken_rows import broken_rule
from autograder.checks.lab10_mixed_precision.exactly import (
    expect_elements,
    expect_number,
    same_number,
)
from autograder.checks.lab10_mixed_precision.formats import (
    BFLOAT16,
    E4M3FN,
    E5M2,
    FLOAT16,
    FLOAT32,
    Format,
)
from autograder.checks.lab10_mixed_precision.training import Trained, drawn_task, trained
from autograder.judge import Draw, LocalStudent, NoAnswer, State, Wrong, WroteInput, ask

TORCHS = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16, torch.float8_e5m2: E5M2}
BYTES = {1: torch.uint8, 2: torch.int16}


def patterns(dtype: torch.dtype) -> Tensor:
    """Every number of a dtype, in the order of its bits as an unsigned number."""
    bits = 8 * dtype.itemsize
    every = torch.arange(2**bits).to(BYTES[dtype.itemsize])
    return every.view(dtype)


def interesting() -> Iterator[float]:
    """float32 numbers of every size, many of them halfway between short numbers."""
    choose = random.Random(7)
    for _ in range(4000):
        fraction = choose.choice((choose.getrandbits(23), choose.getrandbits(6) << 17, 1 << 22))
        field = choose.choice((choose.randrange(256), choose.randrange(100, 145)))
        yield _float((choose.getrandbits(1) << 31) | (field << 23) | fraction)


def _float(bits: int) -> float:
    signed = bits - 2**32 if bits >= 2**31 else bits
    number: float = torch.tensor(signed, dtype=torch.int32).view(torch.float32).item()
    return number


class TestFormats:
    @pytest.mark.parametrize("dtype", TORCHS, ids=str)
    def test_every_pattern_is_worth_what_torch_says(self, dtype: torch.dtype) -> None:
        kind, step = TORCHS[dtype], 1 if dtype.itemsize == 1 else 7
        for bits, number in list(enumerate(patterns(dtype).double().tolist()))[::step]:
            assert same_number(abs(kind.value(bits)), abs(number)), bits
            assert math.isnan(number) or same_number(kind.value(bits), number), bits

    @pytest.mark.parametrize("dtype", TORCHS, ids=str)
    def test_rounding_is_torchs(self, dtype: torch.dtype) -> None:
        kind, numbers = TORCHS[dtype], list(interesting())
        theirs = torch.tensor(numbers).to(dtype).double().tolist()
        for x, want in zip(numbers, theirs, strict=True):
            assert same_number(kind.nearest(x), want), x

    def test_rounding_to_the_finite_format_is_torchs_up_to_its_largest_number(self) -> None:
        """What torch makes of larger ones has changed: NaN once, the largest number now."""
        assert E4M3FN.largest == 448 == torch.finfo(torch.float8_e4m3fn).max
        numbers = [x for x in interesting() if abs(x) <= 464]
        theirs = torch.tensor(numbers).to(torch.float8_e4m3fn).double().tolist()
        for x, want in zip(numbers, theirs, strict=True):
            assert same_number(E4M3FN.nearest(x), want), x

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
    def test_ends_and_spacing_are_torchs(self, dtype: torch.dtype) -> None:
        kind, info = {**TORCHS, torch.float32: FLOAT32}[dtype], torch.finfo(dtype)
        assert kind.largest == info.max
        assert 2.0**kind.smallest_exponent == info.tiny
        assert 2.0 ** kind.spacing_exponent(1.0) == info.eps
        assert 2.0 ** kind.spacing_exponent(0.0) == info.smallest_normal * info.eps

    def test_every_float_is_a_number_of_float32(self) -> None:
        for x in interesting():
            assert same_number(FLOAT32.nearest(x), x)

    def test_a_halfway_number_goes_to_the_even_one(self) -> None:
        kind = Format(4, 2)
        assert [kind.nearest(x) for x in (1.125, 1.375, -1.125)] == [1.0, 1.5, -1.0]


class TestExactly:
    def test_the_sign_of_zero_counts(self) -> None:
        assert same_number(-0.0, -0.0)
        assert not same_number(0.0, -0.0)
        with pytest.raises(Wrong):
            expect_number(0.0, -0.0, "here")

    def test_a_wrong_element_is_named_with_its_input(self) -> None:
        got, want = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
        with pytest.raises(Wrong) as wrong:
            expect_elements(got, want, torch.tensor([5.0, 6.0]), where="to 7 bits")
        assert (wrong.value.expected, wrong.value.got) == ("3.0", "2.0")
        assert str(wrong.value.where) == "to 7 bits: x = 6.0, one of 1 wrong among 2"

    def test_a_whole_tensor_is_wrong_at_no_element(self) -> None:
        with pytest.raises(Wrong) as wrong:
            expect_elements(torch.ones(2).double(), *[torch.ones(2)] * 2, where="to 7 bits")
        assert wrong.value.where == "to 7 bits"

    @pytest.mark.parametrize("got", [True, "1", None, torch.ones(2)])
    def test_what_is_no_number_is_wrong(self, got: Any) -> None:
        with pytest.raises(Wrong):
            expect_number(got, 1.0, "here")


class TestAutocast:
    def test_the_rules_are_torchs(self) -> None:
        """The rules of the page, which the known wrong answers bend, on programs that are drawn."""
        asked = set()
        for seed in range(40):
            for program in (autocast_dtypes._drawn(Draw(seed)),):
                said = autocast_dtypes._Rules().dtypes(program)
                for (name, op, _), want in autocast_dtypes._run(program):
                    assert said[name] == want, (program, name)
                    asked.add(op)
        assert asked == set(autocast_dtypes._OPERATORS)

    def test_a_name_that_is_no_operator_s_is_wrong(self) -> None:
        def answer(program: Any) -> dict[str, str]:
            inputs = {name: args[0] for name, op, args in program if op == "input"}
            return inputs | autocast_dtypes._Rules().dtypes(program)

        student = LocalStudent({"autocast_dtypes": answer})
        verdict = ask(lab.questions["autocast_dtypes"], student, seed=2)
        assert verdict.state == State.FAIL
        assert "no operator" in str(verdict)

    def test_no_region_is_left_open(self) -> None:
        row = ("a", "mm", ["b", "b"])
        program = [("b", "input", ["float32", "number"]), ("", "enter", ["bfloat16"]), row]
        with pytest.raises(RuntimeError):
            autocast_dtypes._run(program)
        assert not torch.is_autocast_enabled("cpu")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Looking:
    """What an operation sees, forward and backward, in a case."""

    case: dict[str, Any]
    seen: dict[str, Any]

    def run(self, *xs: Tensor) -> Tensor:
        i, j = self.case["product"]
        product = xs[i] @ xs[j]
        result = product + xs[self.case["added"]]
        dtypes = [_name(x.dtype) for x in xs]
        self.seen |= {"received": dtypes, "product": _name(product.dtype)}
        self.seen["result"] = _name(result.dtype)
        copied: Tensor = result.clone()
        return copied

    def back(self, ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        saved = ctx.saved_tensors
        try:
            self.seen["backward"] = _name((dy @ saved[self.case["backward"]]).dtype)
        except RuntimeError:
            self.seen["backward"] = "error"
        return tuple(torch.zeros_like(x) for x in saved)


LOOKING = Looking()


@cache
def library_op(cast: str | None) -> Callable[..., Tensor]:
    """torch.library's operator, once for each dtype to cast to."""

    def look(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
        return LOOKING.run(a, b, c, d, e)

    look.__annotations__ = dict.fromkeys(("a", "b", "c", "d", "e", "return"), Tensor)
    op = torch.library.custom_op(f"test_lab10::look_{cast}", look, mutates_args=())
    op.register_autograd(
        LOOKING.back, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    if cast:
        op.register_autocast("cpu", getattr(torch, cast))
    return op


def function(cast: str | None, *, amp: bool) -> Callable[..., Tensor]:
    def forward(ctx: Any, *xs: Tensor) -> Tensor:
        ctx.save_for_backward(*xs)
        return LOOKING.run(*xs)

    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        return LOOKING.back(ctx, dy)

    if amp:
        to = getattr(torch, cast) if cast else None
        forward = custom_fwd(forward, device_type="cpu", cast_inputs=to)
        backward = custom_bwd(backward, device_type="cpu")
    parts = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made: Any = type("Look", (torch.autograd.Function,), parts)
    apply: Callable[..., Tensor] = made.apply
    return apply


def looked(case: dict[str, Any]) -> dict[str, Any]:
    """What torch does in this case."""
    LOOKING.case, LOOKING.seen = case, {}
    way, cast = case["way"], case["cast"]
    if way in ("custom_op", "register_autocast"):
        operation = library_op(cast)
    else:
        operation = function(cast, amp=way == "custom_fwd")
    xs = [torch.ones(2, 2, dtype=getattr(torch, d), requires_grad=True) for d in case["inputs"]]
    off, region = case["region"] == "off", case["region"]
    with nullcontext() if off else torch.autocast("cpu", dtype=getattr(torch, region)):
        y = operation(*xs)
    y.sum().backward()  # type: ignore[no-untyped-call]
    return LOOKING.seen


class TestCustomOp:
    def test_the_rules_are_torchs(self) -> None:
        ways = set()
        for seed in range(60):
            for case in (
                *custom_op_under_autocast._fixed(Draw(seed)),
                custom_op_under_autocast._drawn(Draw(seed)),
            ):
                assert custom_op_under_autocast.predicted(case) == looked(case), case
                ways.add((case["way"], case["cast"] is None, case["region"] == "off"))
        assert len(ways) >= 9

    def test_a_case_where_rules_are_wrong_is_found(self) -> None:
        case = custom_op_under_autocast._fixed(Draw(1))[0]
        bent = custom_op_under_autocast.predicted(case, off_inside=False)
        assert bent != looked(case)


class TestScaler:
    def test_the_model_of_the_known_answers_is_torchs(self) -> None:
        for seed in range(12):
            arguments = loss_scale._drawn(Draw(seed))
            mine, theirs = loss_scale._run(*arguments), loss_scale._torchs(*arguments)
            assert [(a, c) for a, _, c in mine] == [(a, c) for a, _, c in theirs]

    def test_a_run_has_bad_steps_and_growth(self) -> None:
        said = loss_scale._torchs(*loss_scale._whole(Draw(3)))
        scales = [scale for _, _, scale in said]
        assert sum(not took for took, _, _ in said) == 3
        assert max(scales) > scales[0] > min(scales) or len(set(scales)) > 3

    def test_a_float64_too_large_for_float32_is_finite(self) -> None:
        def is_bad(grads: Any) -> bool:
            return loss_scale._is_bad([g.float() for g in grads])

        answer = partial(loss_scale._run, is_bad=is_bad)
        verdict = ask(lab.questions["loss_scale"], LocalStudent({"loss_scale": answer}), seed=2)
        assert verdict.state == State.FAIL
        assert "finite, so the optimizer steps" in str(verdict)

    def test_an_answer_of_no_name_is_told_the_rule_of_its_step(self) -> None:
        arguments = loss_scale._whole(Draw(3))
        said = loss_scale._torchs(*arguments)
        faults = {
            "an element that is not finite": lambda took, grads, scale: (True, grads, scale),
            "finite, so the optimizer steps": lambda took, grads, scale: (False, grads, scale),
            "divided by the scale": lambda took, grads, scale: (
                took,
                [2 * g for g in grads],
                scale,
            ),
            "multiplied by `backoff`": lambda took, grads, scale: (took, grads, took * scale),
            "multiplied by `growth`": lambda took, grads, scale: (
                took,
                grads,
                min(scale, said[0][2]),
            ),
            "the scale stays": lambda took, grads, scale: (took, grads, 2 * scale),
        }
        for sentence, fault in faults.items():
            with pytest.raises(Wrong) as wrong:
                loss_scale._expect([fault(*step) for step in said], arguments)
            assert sentence in str(wrong.value.why)


def test_a_number_of_rows_is_none_of_bfloat16() -> None:
    sizes = [len(x) for _, (x, *_) in safe_head_loss._cases(Draw(1)) if x.dtype == torch.bfloat16]
    assert any(int(torch.tensor(float(n)).bfloat16()) != n for n in sizes)


@pytest.mark.parametrize("size", [1, 48, 64, 256, 1000, 1024])
def test_rows_added_up_in_16_bits_are_found_whatever_is_drawn(size: int) -> None:
    """In parts of any size: where the rows are sorted, the sum over a part has too many digits."""
    inputs = (*safe_head_loss._in_order(), 8.0)
    x, w, b, t, scale = inputs
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    for start in range(0, len(t), size):
        rows = slice(start, start + size)
        part = safe_head_loss._computed(x[rows], w, b, t[rows], scale * len(t[rows]) / len(t))
        dw, db = dw + part[2].bfloat16(), db + part[3].bfloat16()
    for mine, want in zip((dw, db), safe_head_loss._truth(*inputs)[2:], strict=True):
        with pytest.raises(Wrong):
            safe_head_loss._expect_near(mine, want)


def test_sorted_rows_are_added_exactly_by_float32_one_after_the_other() -> None:
    """The slowest right answer: each row by itself, each sum in float32."""
    inputs = (*safe_head_loss._in_order(), 8.0)
    x, w, b, t, scale = inputs
    n, loss, db = len(t), torch.zeros(()), torch.zeros(len(b))
    for row in range(n):
        logs = torch.log_softmax(x[row].float() @ w.float().T + b.float(), 0)
        loss = loss - logs[t[row]]
        db = db + (logs.exp() - torch.eye(len(b))[t[row]]) * (scale / n)
    want = safe_head_loss._truth(*inputs)
    safe_head_loss._expect_near(loss / n, want[0])
    safe_head_loss._expect_near(db.bfloat16(), want[3])


def test_a_sum_that_changes_within_a_tolerance_has_changed() -> None:
    def answer(terms: Tensor) -> tuple[float, int, float]:
        total, moved = torch.zeros((), dtype=terms.dtype), 0
        for term in terms:
            moved += not torch.isclose(total + term, total)
            total = total + term
        return total.item(), moved, terms.double().sum().to(terms.dtype).item()

    verdict = ask(lab.questions["stuck_sum"], LocalStudent({"stuck_sum": answer}), seed=2)
    assert (verdict.state, verdict.misconception) == (State.FAIL, "within_a_tolerance")


def without_equal_rows(rows: training.Rows) -> training.Rows:
    """Removes equal rows and makes every backward scaled after that."""
    left = list(dict.fromkeys(rows))
    names = dict.fromkeys(row[1] for row in left if row[0] in ("unscale", "step", "step_always"))
    mended: training.Rows = [("weights", "float32")]
    for batch in dict.fromkeys(row[1] for row in left if row[0] in ("forward", "backward")):
        backwards = [row for row in left if row[:2] == ("backward", batch)] or [()]
        mended += [("forward", batch), *[("backward", batch, "scaled") for _ in backwards]]
    for name in names:
        clips = [row for row in left if row[:2] == ("clip", name)]
        mended += [("unscale", name), *clips, ("step", name)]
    return [*mended, ("update",)]


def test_a_row_too_many_need_not_be_equal_to_another() -> None:
    student = LocalStudent({"mended_run": without_equal_rows})
    verdict = ask(lab.questions["mended_run"], student, seed=2)
    assert verdict.state == State.FAIL
    assert "there are 1 forward and 2 backward" in str(verdict)


def by_hand(seed: int) -> tuple[Trained, Trained]:
    """A drawn step as its rows, and as a loop that a person would write with torch."""
    right, task = mended_run._drawn(Draw(seed))
    run = trained(right, task)
    params = {name: torch.nn.Parameter(w.clone()) for name, w in task.weights.items()}
    norms = {row[1]: row[2] for row in right if row[0] == "clip"}
    optimizers = {name: torch.optim.SGD([p], lr=training._LR) for name, p in params.items()}
    scaler = torch.amp.GradScaler("cpu", training.SCALE, growth_interval=2)
    seen = Trained()
    for data in task.steps:
        for p in params.values():
            p.grad = None
        for x, y in data.values():
            body, head = (p.half() for p in params.values())
            loss = ((torch.tanh(x.half() @ body) @ head).float() - y).square().mean()
            seen.losses.append(loss.item())
            scaler.scale(loss * training._PER_TOKEN).backward()  # type: ignore[no-untyped-call]
        for name, optimizer in optimizers.items():
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params[name], norms[name])
            scaler.step(optimizer)
        scaler.update()
        seen.weights.append({name: p.detach().clone() for name, p in params.items()})
        seen.scales.append(scaler.get_scale())
    return run, seen


class TestTraining:
    def test_a_late_clip_lies_behind_the_steps_of_both_optimizers(self) -> None:
        right, _ = mended_run._drawn(Draw(5))
        rows = mended_run._spoilt(right, ("late_clip",), min)
        names = {v: [row[1] for row in rows if row[0] == v] for v in ("clip", "step")}
        assert names["clip"] == names["step"][::-1]

    def test_the_rows_do_what_a_loop_does(self) -> None:
        for seed in range(4):
            rows, loop = by_hand(seed)
            mended_run._expect_as(rows, loop)
            assert rows.losses == loop.losses

    def test_one_step_is_left_out_and_the_others_clip(self) -> None:
        rows, task = mended_run._drawn(Draw(5))
        run = trained(rows, task)
        assert all(w.isfinite().all() for step in run.weights for w in step.values())
        assert run.scales[2] < run.scales[1]
        unclipped = trained([row for row in rows if row[0] != "clip"], task)
        for name in task.weights:
            assert mended_run._change(unclipped, 1, name) > 1.5 * mended_run._change(run, 1, name)

    @pytest.mark.parametrize("fault", mended_run.FAULTS)
    def test_each_fault_alone_changes_what_is_judged(self, fault: str) -> None:
        for seed in range(10):
            draw = Draw(seed)
            right, task = mended_run._drawn(draw)
            spoilt = mended_run._spoilt(right, (fault,), draw.choice)
            assert spoilt != right
            with pytest.raises(Wrong):
                mended_run._expect_as(trained(spoilt, task), trained(right, task))

    @pytest.mark.parametrize(
        "rows",
        [
            None,
            [None],
            [[]],
            [("fly",)],
            [("step", "nobody")],
            [("forward", torch.ones(1))],
            [("clip", "body", "much")],
            [("weights",)],
            [("update",)],
        ],
    )
    def test_rows_that_do_not_run_are_wrong(self, rows: Any) -> None:
        task = drawn_task(Draw(1), ("body", "head"), ("a", "b"))
        with pytest.raises(Wrong):
            trained(rows, task)

    def test_a_name_that_came_in_no_row_is_told(self) -> None:
        right, _ = mended_run._drawn(Draw(1))
        assert broken_rule([*right, ("step", "nobody")], right).startswith("nobody names no batch")
        assert not broken_rule(right, right)

    def test_the_dtype_that_is_wrong_is_told_and_a_batch_that_is_gone(self) -> None:
        right, _ = mended_run._drawn(Draw(1))
        both = [("weights", "float32"), ("weights", "float16"), *right[1:]]
        assert broken_rule(both, right).startswith("A row keeps the weights in float16.")
        batch = right[1][1]
        gone = [row for row in right if row[1:2] != (batch,)]
        assert broken_rule(gone, right).startswith(f"The batch {batch} is in none of the rows")
        assert broken_rule([("weights",), *right[1:]], right) == ""


class TestVerdicts:
    """The same verdict with every seed: no answer passes or fails by luck."""

    @pytest.mark.slow
    @pytest.mark.parametrize("question", list(lab), ids=lambda question: question.name)
    def test_each_wrong_answer_fails_with_every_seed(self, question: Any) -> None:
        slow = question.name in ("autocast_dtypes", "mended_run", "safe_head_loss", "loss_scale")
        for seed in range(100, 103 if slow else 110):
            for known in question.wrong_answers:
                student = LocalStudent(known.functions)
                student.begin(may_write=question.may_write)
                with pytest.raises((Wrong, WroteInput, NoAnswer)):
                    question.check(student, Draw(seed))

    def test_a_nan_is_the_same_answer_as_a_nan(self) -> None:
        """So that a wrong answer is told from others by what else it says."""
        question = lab.questions["value_of_bits"]
        (known,) = (w for w in question.wrong_answers if w.name == "no_sign")
        verdict = ask(question, LocalStudent(known.functions), seed=3)
        assert (verdict.state, verdict.misconception) == (State.FAIL, "no_sign")
