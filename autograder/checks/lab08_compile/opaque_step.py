"""A function that Dynamo cannot trace, as one node of one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.judge import (
    Draw,
    NoAnswer,
    Student,
    Wrong,
    expect_close,
    expect_equal,
    expect_tuple,
    text,
)

from . import lab
from .admission import HOST, room_for

Believed = list[tuple[Any, ...]]
Answered = tuple[list[Tensor], Believed]
NO_ROWS = (
    "`words_needed` takes a z without rows too, and gives an empty result. Joining what each row "
    "gave does not: there is nothing to join."
)
_IN_THE_FAKE = {
    "no fake impl": "The operator has no fake kernel. Dynamo does not run it, so register_fake has "
    "to say what comes out.",
    "Expected a value of type": "The operator was declared with another type than the step gives "
    "it: z is a tensor, p a float.",
    "positional argument": "The fake kernel, or a call in it, was given too many arguments or too "
    "few. It takes those of the operator, z and p.",
    "The size of tensor a": "Sizes did not fit while Dynamo traced, as where what the fake kernel "
    "gives is not (N,). N is that of the z that it gets, and may be another in each call: "
    "z.shape[0].",
    "NoneType": "The fake kernel returned None. Does it end in a `return`?",
}
"""Of errors while Dynamo asks the fake kernel: words of the message, and what they mean."""
_RAISED = {
    "Unsupported": "Dynamo met something that it cannot trace, or that fails without numbers. "
    "`words_needed` has to be a custom operator, and `step` has to call the operator, not the "
    "function inside it.",
    "TorchRuntimeError": "While Dynamo traced, a call failed, as where a fake kernel does not fit "
    "what follows. It gets a z without numbers, and returns an empty tensor of the result's "
    "shape, dtype and device: z.new_empty(...).",
    "DataDependentOutputException": "A tensor without numbers was asked for them, as where a fake "
    "kernel asks its z. That has a shape and a dtype, and no memory.",
    "UserError: Could not guard": "A tensor without numbers was asked for its numbers, as where "
    "`words_needed` runs while Dynamo traces. It runs inside the operator alone, and neither in "
    "the fake kernel nor as a function that Dynamo lets pass.",
    "RuntimeError: Tried to register": "An operator of this name is there already, of an earlier "
    "call of the function or of an earlier answer in this session. A Library defines one once; "
    "`torch.library.custom_op` replaces its own.",
    "RuntimeError: lab08::words_needed() Expected a value": "The operator was declared with "
    "another type than the step gives it: z is a tensor, p a float.",
    "RuntimeError: Unable to cast": "The operator is declared to return a tensor, and its function "
    "returned something else.",
    "AttributeError: 'NoneType' object has no attribute 'shape'": "The operator's function "
    "returned None. Does it end in a `return`?",
    "ValueError: not enough values": "The name of an operator has two parts, a namespace and a "
    'name: "lab08::words_needed".',
    "ValueError: torch.cat": NO_ROWS,
    "RuntimeError: stack expects": NO_ROWS,
    "ValueError": "torch.library reads the schema from the annotations: every parameter and the "
    "result need a type, as in (z: torch.Tensor, p: float) -> torch.Tensor.",
}


EVEN = 2049 / 4096
"""Of 4096 words that are all equally likely: exactly what 2049 of them have, one more than float16
counts."""


@lab.question(
    "opaque_step",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "What does Dynamo have to know about a function that it does not look into?",
        "`torch.library.custom_op` makes it an operator; `register_fake` says what comes out, from "
        "the shapes alone: N integers, where N is whatever z.shape[0] is.",
        "@needed.register_fake / def _(z, p): return z.new_empty(z.shape[0], dtype=torch.int64)",
    ),
    budget_s=60.0,
    host=HOST,
)
def opaque_step(student: Student, draw: Draw) -> None:
    """A step with a Python loop over numbers in it, compiled with fullgraph=True.

    xs (list of x (N, D), several N), w (V, D), b (V,), p -> (list of words_needed(z, p) * max of z;
    for each graph the dtype and dims that it expects of the operator's result).
    """
    with room_for(student, "opaque_step") as room:
        shares = [*(draw.integer(50, 90) / 100 for _ in draw.cases(2)), 1.0, EVEN]
        for k, (p, rows) in enumerate((*((p, True) for p in shares), (0.5, False))):
            w, b = draw.tensor(13, 11) / 2, draw.tensor(13)
            # Dynamo gives equal sizes one symbol: no N may be D or V.
            sizes = draw.shuffled(range(2, 9))[:3]
            xs = [(_clear if p < 1 else _short_of_1)(draw, n, w, b, p) for n in sizes * rows]
            xs = xs or [torch.empty(0, 11)]
            if p == EVEN:
                w, b = torch.zeros(4096, 11), torch.full((4096,), draw.integer(1, 9) / 2)
            with explaining(_RAISED), _explaining_the_fake():
                got = room.call("opaque_step", xs, w, b, p)
            results, believed = expect_tuple(got, 2, "(results, believed)")
            expect_tuple(results, len(xs), f"{len(xs)} results")
            want, graph = _answered(xs, w, b, p)
            for x, result, right in zip(xs, results, want, strict=True):
                with saying(_miscounted(x, w, b, p, result, shares[:k])):
                    expect_close(result, right)
            expect_equal(_told(believed, graph), graph, why=_misbelieved(believed))


@contextmanager
def _explaining_the_fake() -> Iterator[None]:
    """As `explaining`, by what stands anywhere in a message of Dynamo's."""
    try:
        yield
    except NoAnswer as none:
        raised = none.raised
        fitting = [why for words, why in _IN_THE_FAKE.items() if words in raised.message]
        if "making fake tensor call" not in raised.message or not fitting:
            raise
        told = text("no_error")
        raise Wrong(expected=told, got=raised.told, where=raised.where, why=fitting[0]) from None


def _miscounted(
    x: Tensor, w: Tensor, b: Tensor, p: float, result: Any, before: Sequence[float]
) -> str:
    """Of the first row with another number of words than it takes: both numbers; or that they are
    right for the p of a call before."""
    needed, largest = _needed(x, w, b, p), F.linear(x, w, b).amax(1)
    if not isinstance(result, Tensor) or result.shape != largest.shape:
        return ""
    words = (result.double() / largest).round()
    whole = torch.allclose(words * largest, result.double(), rtol=1e-4)
    if not (whole and bool(words.isfinite().all())) or bool((words == needed).all()):
        factors = result.double() / needed
        alike = len(needed) > 1 and factors[0] and torch.allclose(factors, factors[:1], rtol=1e-4)
        return _ONE_FACTOR * bool(alike)
    for other in before:
        if bool((words == _needed(x, w, b, other)).all()):
            return (
                f"The words were counted up to {other:g}, the p of a call before, and p is {p:g}. "
                "p is an argument of the operator: it may be another in each call."
            )
    row = int((words != needed).int().argmax())
    if int(needed[row]) == len(b):
        return (
            f"Row {row} was given {int(words[row])} words, and it takes all of its {len(b)}: the "
            "others do not reach p without the last. More than all there are not, also where "
            "rounding leaves their sum below p."
        )
    return (
        f"Row {row} was given {int(words[row])} of its words, and it takes {int(needed[row])} to "
        "reach p."
    )


_ONE_FACTOR = "All rows were multiplied by one number. Each row has a largest logit of its own."


def _misbelieved(believed: Any) -> str:
    if _is_several(believed):
        return SEVERAL
    if not isinstance(believed, (list, tuple)) or not believed:
        return ""
    if len(believed) == 1 and believed[0][0] == torch.int64:
        return ""
    if len(believed) == 1:
        kind = str(believed[0][0]).removeprefix("torch.")
        return f"The operator is to give int64, as `words_needed` does. The graph expects {kind}."
    if believed[1][-1] == "rows":
        return (
            "The fake kernel says one number of rows for every z, and the operator gave another. "
            "Take z.shape[0]."
        )
    expected, given = believed[0][0], believed[1][0]
    return (
        f"The graph expects {str(expected).removeprefix('torch.')} of the operator, and got "
        f"{str(given).removeprefix('torch.')}. The fake kernel and the operator have to agree, on "
        "int64."
    )


def _told(believed: Any, graph: Believed) -> Any:
    """Without what the operator gave in each run, which is no part of the answer, where the graphs
    say enough."""
    if not isinstance(believed, (list, tuple)):
        return believed
    graphs = [one for one in believed if len(one) == 2]
    return believed if graphs == graph else graphs


def _is_several(believed: Any) -> bool:
    """Whether several graphs were given; else more than a dtype and dims says what is wrong."""
    return isinstance(believed, (list, tuple)) and sum(len(b) == 2 for b in believed) > 1


def _given(dtype: torch.dtype, xs: list[Tensor]) -> Believed:
    """What the operator gave in each run, where the graph expects another dtype."""
    return [(dtype, 1, "given")] * len(xs)


SEVERAL = (
    "The operator stands in the graphs more than once. If step calls it once, step was compiled "
    "more than once, as where something makes a guard of N: a fake kernel that makes a number of "
    "it (hand z.shape[0] on as it is, without int), or a compile that is not dynamic."
)


def _clear(draw: Draw, n: int, w: Tensor, b: Tensor, p: float) -> Tensor:
    """Activations for which no rounding decides how many words are needed."""
    while True:
        x = draw.tensor(n, w.shape[1])
        sums = F.linear(x, w, b).softmax(-1).double().sort(-1, descending=True)[0].cumsum(-1)
        if float((sums - p).abs().min()) > 1e-4:
            return x


def _short_of_1(draw: Draw, n: int, w: Tensor, b: Tensor, p: float) -> Tensor:
    """Activations that take every word to reach p = 1, with a row whose rounded sum is below."""
    while True:
        x = draw.tensor(n, w.shape[1]) / 2
        shares = F.linear(x, w, b).softmax(-1)
        sums = shares.sort(-1, descending=True)[0].cumsum(-1)
        if float(shares.min()) > 1e-4 and float(sums[:, -1].min()) < p:
            return x


def _needed(x: Tensor, w: Tensor, b: Tensor, p: float, *, beyond: bool = False) -> Tensor:
    """How many words each row takes to reach p; beyond: to be above it."""
    sums = F.linear(x, w, b).softmax(-1).sort(-1, descending=True)[0].cumsum(-1)
    short = sums <= p if beyond else sums < p
    return (short.sum(-1) + 1).clamp(max=len(b))


def _answered(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results = [_needed(x, w, b, p) * F.linear(x, w, b).amax(1) for x in xs]
    return results, [(torch.int64, 1)]


@opaque_step.wrong("fixed_rows", SEVERAL)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, believed = _answered(xs, w, b, p)
    return results, believed * 2


@opaque_step.wrong(
    "said_to_write",
    "The operator is said to write into z. It writes nothing: mutates_args=().",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    return _answered(xs, w, b, p)[0], [(torch.int64, 1, "writes")]


@opaque_step.wrong(
    "gives_floats",
    "The graph expects integers of the operator, and it gave floats. `words_needed` returns int64, "
    "and so does the operator.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, believed = _answered(xs, w, b, p)
    return results, [*believed, *_given(torch.float32, xs)]


@opaque_step.wrong("a_graph_for_each", SEVERAL)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, believed = _answered(xs, w, b, p)
    return results, believed * len(xs)


@opaque_step.wrong(
    "words_alone",
    "These are the words alone. The step multiplies them by each row's largest logit.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    return [_needed(x, w, b, p) for x in xs], _answered(xs, w, b, p)[1]


@opaque_step.wrong(
    "one_word_more", "Each row has one word too many: the one that reaches p is the last."
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    more = [(_needed(x, w, b, p) + 1) * F.linear(x, w, b).amax(1) for x in xs]
    return more, _answered(xs, w, b, p)[1]


@opaque_step.wrong(
    "beyond_p",
    "Where a sum is p exactly, one word too many was taken. p is reached there: total >= p.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results = [_needed(x, w, b, p, beyond=True) * F.linear(x, w, b).amax(1) for x in xs]
    return results, _answered(xs, w, b, p)[1]


@opaque_step.wrong(
    "fake_of_floats",
    "The graph expects floats of the operator, and gets integers. A fake kernel has to tell the "
    "truth about the dtype: dtype=torch.int64.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.float32, 1), *_given(torch.int64, xs)]


@opaque_step.wrong(
    "floats_all_the_way",
    "The operator gives floats, and its fake kernel says so. `words_needed` returns int64, and so "
    "does the operator.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.float32, 1)]


@opaque_step.wrong(
    "fake_like_the_logits",
    "The graph expects floats in two dimensions of the operator. It returns one integer for each "
    "row, (N,).",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.float32, 2), *_given(torch.int64, xs)]


@opaque_step.wrong(
    "no_operator",
    "The results are right, and came out of no graph with `lab08::words_needed` in it. Was `step` "
    "compiled, does it call that operator, and is what it returns handed on as it is?",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, []


@opaque_step.wrong(
    "fake_used_for_real",
    "All results are 0, as where the operator does no more than its fake kernel, or takes its "
    "input down to 0. The function under the custom_op decorator computes, and writes nothing; the "
    "fake one only says what shape comes out.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, believed = _answered(xs, w, b, p)
    return [torch.zeros_like(result) for result in results], believed


@opaque_step.wrong(
    "fake_of_small_integers",
    "The graph expects int32 of the operator, and gets int64: `words_needed` returns torch.int64.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.int32, 1), *_given(torch.int64, xs)]


@opaque_step.wrong(
    "fake_of_a_column",
    "The graph expects two dimensions of the operator, as a column (N, 1) has. It returns (N,): "
    "one number for each row.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.int64, 2)]


@opaque_step.wrong(
    "fake_of_a_number",
    "The graph expects a single number of the operator. It returns one for each row: z.shape[0].",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    results, _ = _answered(xs, w, b, p)
    return results, [(torch.int64, 0)]


@opaque_step.wrong(
    "half_of_the_probability",
    "The words were counted up to probability 0.5. How far is the second argument, p.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    return _answered(xs, w, b, 0.5)


@opaque_step.wrong(
    "first_batch_only",
    "There is a result for the first x only. The compiled step is called with each of `xs`.",
)
def _(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Answered:
    return _answered(xs[:1], w, b, p)


@opaque_step.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(9, 4), draw.tensor(9)
    with room_for(student, "opaque_step") as room:
        _, believed = room.call("opaque_step", [draw.tensor(n, 4) for n in (2, 5)], w, b, 0.5)
    return f"{len(believed)} graph for two sizes; what is inside the operator fuses with nothing"
