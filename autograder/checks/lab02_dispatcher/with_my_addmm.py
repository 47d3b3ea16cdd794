"""A kernel of one's own in place of torch's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, Wrong, expect_close, expect_equal, expect_tuple, within

from . import lab

Overridden = tuple[int, list[torch.Tensor], torch.Tensor]


@lab.question(
    "with_my_addmm",
    points=4,
    minutes=14,
    difficulty=4,
    hints=(
        "Three things in order: register, run every x, destroy. Which of the results go through "
        "addmm at all is not your affair: the table decides.",
        "Your kernel adds 1 to calls and returns original.call_boxed(keyset, *args, **kwargs) "
        "rounded. library.impl comes before the loop, library._destroy() in a finally after it.",
        'library.impl("addmm", my_addmm, "CPU", with_keyset=True); ...; library._destroy()',
    ),
    host="It replaces the kernel that torch has for the CPU.",
)
def with_my_addmm(student: Student, draw: Draw) -> None:
    """Replace torch's CPU kernel of addmm in a scope: count its calls, round its results, give it
    back.

    xs (list of x (..., D)), w (V, D), b (V,) -> (calls, results, F.linear(xs[0], w, b) afterwards).
    """
    for begins in ("flat", "two", *["all"] * len(draw.cases(2)), "turned"):
        w, b = _whole(draw, 20, 64, largest=20).requires_grad_(), _whole(draw, 20)
        flat, deep = _whole(draw, 3, 64), _whole(draw, 2, 3, 64)
        turned = _whole(draw, 3, 2, 64).transpose(0, 1)  # takes no addmm
        empty = _whole(draw, 0, 64)
        xs = [flat, turned, deep, turned, empty]
        xs += [_whole(draw, n, 64) for n in draw.sizes(1, high=5)]
        columns = _whole(draw, 64, 3).t()
        one = _whole(draw, 64)  # as many dimensions as a bias
        xs = {
            "flat": [flat],
            "two": [flat, _whole(draw, 2, 64)],  # of which whoever puts them together makes one
            "all": xs,
            "turned": [turned, one, flat, flat, one, columns],
        }[begins]
        want = _override(xs, w, b)  # before the student's kernel can be in the table
        with explaining(_RAISED):
            got = student.call("with_my_addmm", xs, w, b)
        _expect_override(got, want)


_RAISED = {
    "RecursionError": "Your kernel called what runs addmm, as torch.addmm and F.linear do, and "
    "the table sent it back to your kernel. Call `original`, the kernel from before.",
    "TypeError": "`original.call_boxed` takes the key set first, then the arguments as they came. "
    "Your kernel is given the key set if it is registered `with_keyset=True`.",
}


def _whole(draw: Draw, *shape: int, largest: int = 999) -> torch.Tensor:
    """Whole numbers: their products are exact in float32, whatever the order of summation. Those
    above 256 are mostly too long for bfloat16, so that rounding them early shows."""
    return draw.integers(*shape, low=-largest, high=largest).float()


def _override(
    xs: list[torch.Tensor],
    w: torch.Tensor,
    b: torch.Tensor,
    *,
    rounds: Callable[[int], bool] = bool,
) -> Overridden:
    """What must come out, with nothing replaced: `rounds` says for which number of addmm's. It runs
    no addmm itself: a kernel that was never given back would spoil it."""
    counts = [_addmms(x, w, b) for x in xs]
    plain = [x @ w.T + b for x in xs]
    results = [y.bfloat16().float() if rounds(n) else y for n, y in zip(counts, plain, strict=True)]
    return sum(counts), results, plain[0].clone()


def _addmms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> int:
    """How often F.linear(x, w, b) runs addmm, as the profiler sees it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own log is for nobody here
    with torch.autograd.profiler.profile() as seen:
        F.linear(x, w, b)
    events: Any = seen.function_events
    return sum(event.name == "aten::addmm" for event in events)


def _expect_override(got: Any, want: Overridden) -> None:
    with saying("Three values come back: the number of calls, the results, and one more result."):
        calls, results, after = expect_tuple(got, 3, "calls, results, the result afterwards")
    with saying("The second value is a list with one result for each x of xs, in their order."):
        expect_tuple(results, len(want[1]), f"{len(want[1])} results")
    for place, (result, right) in enumerate(zip(results, want[1], strict=True)):
        with within(f"in the result of xs[{place}]"), saying(_how_made(right)):
            expect_close(result, right, tolerance=0.0)
            if result.requires_grad != right.requires_grad:
                expected = f"requires_grad={right.requires_grad}"
                raise Wrong(expected=expected, got=f"requires_grad={result.requires_grad}")
    expect_equal(calls, want[0], why=_miscounted(calls, want[0]))
    with saying("The last value is not what torch's own kernel gives for xs[0]."):
        expect_close(after, want[2], tolerance=0.0)


def _how_made(right: torch.Tensor) -> str:
    if right.equal(right.bfloat16().float()):
        return (
            "An addmm makes this result: it is what the real kernel returns for the arguments as "
            "they came, rounded once to the nearest number of bfloat16."
        )
    return "No addmm makes this result, so it is F.linear's own, of this x and unrounded."


def _miscounted(calls: Any, want: int) -> str:
    if type(calls) is not int or calls == want:
        return ""
    return (
        f"F.linear runs addmm {want} times for these xs, and `calls` is {calls}. It begins at 0 "
        "and grows by 1 whenever your kernel is called."
    )


@with_my_addmm.wrong(
    "not_given_back",
    "The last result is rounded to bfloat16, and torch's own kernel does not do that. A "
    "registration stays until its library is destroyed: call library._destroy(), then F.linear "
    "once more. What an earlier run has left in the table goes when the notebook's kernel is "
    "restarted.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    return calls, results, after.bfloat16().float()


with_my_addmm.wrong(
    "every_result_rounded",
    "A result was rounded that no addmm has made: this x takes another kernel. Round inside your "
    "kernel, not around F.linear.",
    with_my_addmm=lambda xs, w, b: _override(xs, w, b, rounds=lambda n: True),
)
with_my_addmm.wrong(
    "nothing_rounded",
    "The results are those of torch's own kernel, though the count is right: what yours returns is "
    "not rounded to bfloat16.",
    with_my_addmm=lambda xs, w, b: _override(xs, w, b, rounds=lambda n: False),
)


@with_my_addmm.wrong(
    "no_autograd_above",
    "w requires a gradient and this result does not. Register for CPU, below autograd's kernel, "
    "call F.linear in ordinary mode, and detach neither w nor what it returns.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    counts = [_addmms(x, w, b) for x in xs]
    cut = [y.detach() if n else y for n, y in zip(counts, results, strict=True)]
    return calls, cut, after


@with_my_addmm.wrong(
    "arguments_rounded",
    "The arguments were rounded before the product. Let the real kernel have them as they came, "
    "and round what it returns.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    counts = [_addmms(x, w, b) for x in xs]
    low = [F.linear(x.bfloat16(), w.bfloat16(), b.bfloat16()).float() for x in xs]
    return calls, [y if n else z for n, y, z in zip(counts, low, results, strict=True)], after


@with_my_addmm.wrong(
    "left_in_bfloat16",
    "The result stayed in bfloat16. Autograd's kernel and the caller expect addmm's own dtype: "
    "`.bfloat16().float()`.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    counts = [_addmms(x, w, b) for x in xs]
    return (
        calls,
        [y.bfloat16() if n else y for n, y in zip(counts, results, strict=True)],
        after,
    )


@with_my_addmm.wrong(
    "never_registered",
    "The results are torch's own and the count is 0, as where your kernel is never asked. It is "
    "asked if it is registered for CPU before F.linear(x, w, b) runs, and not destroyed before.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, results, after = _override(xs, w, b, rounds=lambda n: False)
    return 0, results, after


@with_my_addmm.wrong(
    "calls_of_linear",
    "This is how often F.linear was called. Not each call of it runs addmm: count inside your "
    "kernel.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, results, after = _override(xs, w, b)
    return len(xs), results, after


with_my_addmm.wrong(
    "never_counted",
    "The results are right and the count is 0. Each call of your kernel adds 1, with `nonlocal "
    "calls` in it, and `calls` is looked at when the last x has run.",
    with_my_addmm=lambda xs, w, b: (0, *_override(xs, w, b)[1:]),
)


@with_my_addmm.wrong(
    "float16",
    "The result was rounded to float16, which has more digits and a smaller range. `.bfloat16()` "
    "was asked for.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, plain, after = _override(xs, w, b, rounds=lambda n: False)
    counts = [_addmms(x, w, b) for x in xs]
    low = [y.half().float() if n else y for n, y in zip(counts, plain, strict=True)]
    return calls, low, after


@with_my_addmm.wrong(
    "two_dimensions",
    "The result has lost dimensions that x has. F.linear takes x (..., 64) as it is, and its "
    "result keeps them.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return _override([x.reshape(-1, 64) for x in xs], w, b)


@with_my_addmm.wrong(
    "first_x_only",
    "There is one result. Run F.linear for every x of xs.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return _override(xs[:1], w, b)


@with_my_addmm.wrong(
    "not_in_a_list",
    "This is one result, and not a list of results: run F.linear for every x of xs.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Any:
    calls, results, after = _override(xs[:1], w, b)
    return calls, results[0], after


@with_my_addmm.wrong(
    "without_bias",
    "The bias is missing from the results: F.linear(x, w, b).",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return 0, [F.linear(x, w) for x in xs], F.linear(xs[0], w, b)


@with_my_addmm.wrong(
    "one_run_too_many",
    "The count is one too large, as where F.linear runs once more while your kernel is "
    "registered. Run it once for each x there, and count from 0.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    return calls + _addmms(xs[0], w, b), results, after


@with_my_addmm.wrong(
    "there_and_back",
    "The arguments were rounded to bfloat16 and back before the product. Round what the real "
    "kernel returns.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b, rounds=lambda n: False)
    counts = [_addmms(x, w, b) for x in xs]
    low = [F.linear(*(t.bfloat16().float() for t in (x, w, b))) for x in xs]
    return calls, [y if n else z for n, y, z in zip(counts, low, results, strict=True)], after


@with_my_addmm.wrong(
    "every_x_rounded_and_counted",
    "Every x was rounded and counted here, also where F.linear runs no addmm. Leave to F.linear "
    "which kernel it takes, and round and count inside yours.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, results, after = _override(xs, w, b, rounds=lambda n: True)
    return len(xs), results, after


@with_my_addmm.wrong(
    "last_one_inside",
    "The last F.linear ran while your kernel was still registered, and was counted. Destroy the "
    "library first.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    return calls + _addmms(xs[0], w, b), results, after.bfloat16().float()


@with_my_addmm.wrong(
    "destroyed_after_one",
    "Only the first call met your kernel, as where the library is destroyed before the others.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, rounded, after = _override(xs, w, b)
    _, plain, _ = _override(xs, w, b, rounds=lambda n: False)
    return 1, [*rounded[:1], *plain[1:]], after


@with_my_addmm.wrong(
    "left_in_float64",
    "The result came back in float64. `.float()` is float32, the dtype that addmm has here.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    counts = [_addmms(x, w, b) for x in xs]
    return calls, [y.double() if n else y for n, y in zip(counts, results, strict=True)], after


@with_my_addmm.wrong(
    "calls_in_a_list",
    "The number of calls stands in a list. It is an int.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Any:
    calls, results, after = _override(xs, w, b)
    return [calls], results, after


@with_my_addmm.wrong(
    "rows_counted",
    "These are the rows that your kernel got. Each call counts one.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, results, after = _override(xs, w, b)
    rows = sum(x.numel() // x.shape[-1] for x in xs if _addmms(x, w, b))
    return rows, results, after


@with_my_addmm.wrong(
    "addmm_by_its_name",
    "Your kernel called what runs addmm, as torch.addmm and F.linear do, and the table sent it "
    "back to your kernel. Call `original`, the kernel from before.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    raise RecursionError("maximum recursion depth exceeded while calling a Python object")


@with_my_addmm.cost
def _(student: Student, draw: Draw) -> str:
    w, b = _whole(draw, 600, 64, largest=20), _whole(draw, 600)
    xs = [_whole(draw, 4, 64)] * 3
    calls, *_ = student.call("with_my_addmm", xs, w, b)
    return f"{calls} calls went through your Python; without the scope, none does"
