"""A step without graph breaks."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, Wrong, describe, expect_close, expect_tuple, within

from . import lab
from .admission import HOST, room_for

Answered = tuple[list[tuple[Tensor, Tensor]], int]
_RAISED = {
    "ComputedOutside": "The values are right, and a graph returned them. Run with other numbers "
    "in the place of x, that graph does not return what the step does for them, as where "
    "something is made of x before it. The whole step goes into the function that is compiled, "
    "from x to the mean.",
    "Unsupported": "With fullgraph=True the first break is an error, and this is it. The message "
    "names the line. Say it with tensors: `torch.where` picks, a mask weighs.",
    "RuntimeError: value cannot be converted": "`limit` may be a number that float32 does not "
    "hold. Compare with it, or divide it by `top`; as a bound of a clamp torch refuses it.",
    "UserError": "With fullgraph=True the first break is an error, and this is it: Python asked "
    "for the value of a tensor. Say it with tensors: `torch.where` picks, a mask weighs.",
}


@lab.question(
    "one_graph",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Which lines need a number, or a size, that is only known when the graph runs?",
        "Leave `top` a tensor, and let torch.where choose the factor. `z[keep]` has as many rows "
        "as the values decide: keep all rows, weigh those that do not count with 0, and divide by "
        "the number of those that do, or by 1 where there is none.",
        "mean = (z * keep[:, None]).sum(0) / keep.sum().clamp(min=1)",
    ),
    budget_s=60.0,
    host=HOST,
)
def one_graph(student: Student, draw: Draw) -> None:
    """The step as found, in one graph: for each x the capped logits and the mean of the rows that
    count.

    xs (list of x (N, D)), w (V, D), b (V,), limit -> (list of (z (N, V), mean (V,)), graphs given).
    """
    with room_for(student, "one_graph") as room:
        for k in draw.cases(2):
            limit = (1 + k % 2 / 2) * LIMIT
            w, b = draw.tensor(9, 6), draw.tensor(9)
            xs = _different(draw, w, b, limit)
            _expect_one_graph(room, xs, w, b, limit)
        xs, w, b = _of_few_and_many_rows(draw)
        tiny = 2.0**-20  # a small number added to a divisor is then no small number
        huge = 2.0**75  # a large logit times the limit is inf then
        first = [x[:1] for x in xs]
        # With the drawn ones and the cost eight calls: so often Dynamo compiles a step.
        for given, limit in (
            ([*xs[:2], *(tiny * x for x in xs[:2])], tiny * LIMIT),
            ([xs[2], tiny * xs[2]], tiny * LIMIT),  # apart: other rows bring a second graph
            ([*first, *(-x for x in first)], LIMIT),  # of one row
            ([huge * x for x in xs[:2]], huge * LIMIT),
            (xs[:2], 1e300),  # float32 has no such number
        ):
            _expect_one_graph(room, given, w, b, limit)


def _of_few_and_many_rows(draw: Draw) -> tuple[list[Tensor], Tensor, Tensor]:
    """A row whose sum is 0 does not count: no rounding decides it, without a bias. And more rows
    that count than 8 bits or float16 can."""
    w, x = draw.tensor(9, 6), 5 * draw.tensor(5, 6)
    w[8], x[0, 5] = torch.tensor([0.0] * 5 + [1.0]), 0  # a logit of 0 in a row that counts
    w[0] += 1 - w.sum(0)  # the sum of a row's logits is the sum of its x
    x[:, 0] += torch.tensor([20.0, 20.0, -40.0, 30.0, 0.0]) - x.sum(1)
    x[4] = 0
    return [x, torch.zeros(5, 6), torch.ones(2049, 6)], w, torch.zeros(9)


LIMIT = 4.0
SEVERAL = (
    "The values are right, and Dynamo gave more than one graph. With fullgraph=True what breaks "
    "is an error; if nothing does, the step was compiled again, as for a number that is another "
    "in each call. Decide nothing in Python that depends on the values."
)


def _expect_one_graph(room: Student, xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> None:
    got = _answered(room, xs, w, b, limit)
    _expect_steps(got, xs, w, b, limit)
    if got[1] != 1:
        several = isinstance(got[1], int) and got[1] > 1
        why = SEVERAL if several else ""
        raise Wrong(expected="1 graph", got=f"{describe(got[1])} graphs", why=why)


def _answered(room: Student, xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> Any:
    with explaining(_RAISED):
        got = room.call("one_graph", xs, w, b, limit)
    results, graphs = expect_tuple(got, 2, "(list of (z, mean), graphs)")
    return expect_tuple(results, None, "a list of (z, mean)"), graphs


def _different(draw: Draw, w: Tensor, b: Tensor, limit: float) -> list[Tensor]:
    """Activations that take every way through the step: above the limit and below it, with some
    rows that count, with none and with one, whose sum is small. The first is below, where nothing
    is capped."""
    n = draw.integer(4, 7)
    down = torch.linalg.lstsq(w, -20 * torch.ones(9, 1) - b[:, None]).solution.T  # all but no word
    while True:
        quiet, loud = 0.01 * draw.tensor(n, 6), 5 * draw.tensor(n, 6)
        mixed = torch.where(draw.integers(n, 1, low=0, high=1).bool(), loud, 5 * draw.tensor(n, 6))
        none = down.expand(n, 6) + 0.01 * draw.tensor(n, 6)
        one = none.clone()
        up = w.sum(0)  # moves the sum of a row's logits
        one[-1] += up * (0.5 - F.linear(one[-1], w, b).sum()) / (up @ up)
        xs = [quiet, loud, none.contiguous(), one, mixed]
        if _tells_apart(xs, w, b, limit):
            return xs


def _tells_apart(xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> bool:
    """Whether no sum lies where rounding decides, and each way through the step is taken."""
    zs = [F.linear(x, w, b) for x in xs]
    sums = [z.sum(1) for z in zs]
    tops = [float(z.abs().max()) for z in zs]
    counted = [int((s > 0).sum()) for s in sums]
    clear = all(float(s.abs().min()) > 1e-2 for s in sums)
    return (
        clear
        and tops[0] < limit < min(tops[1:])
        and counted[2:4] == [0, 1]
        and 0 < counted[1] < len(xs[1])
    )


def _step(x: Tensor, w: Tensor, b: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """The step as found."""
    z = F.linear(x, w, b)
    top = z.abs().max().item()
    if top > limit:
        z = z * (limit / top)
    kept = z[z.sum(dim=1) > 0]
    mean = kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])
    return z, mean


def _whole(xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> Answered:
    return [_step(x, w, b, limit) for x in xs], 1


def _expect_steps(got: Any, xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> None:
    want, (results, _) = _whole(xs, w, b, limit)[0], got
    if len(results) != len(want):
        why = "There is not one result for each x of xs."
        raise Wrong(expected=f"{len(want)} results", got=f"{len(results)} results", why=why)
    for place, (result, right) in enumerate(zip(results, want, strict=True)):
        with saying("Each result is a pair: the capped logits, and the mean of the rows."):
            expect_tuple(result, 2, "(z, mean)", where=f"for xs[{place}]")
        logits = F.linear(xs[place], w, b)
        for name, a, c, why in zip(
            ("z", "mean"),
            result,
            right,
            (_how_capped(logits, limit), _how_averaged(right[0])),
            strict=True,
        ):
            with within(f"{name} for xs[{place}]"):
                _expect_part(a, c, why)


def _expect_part(got: Any, want: Tensor, why: str) -> None:
    """Close. Of wrong numbers `why` tells more than how all of them relate; of another shape or
    dtype it tells nothing."""
    alike = isinstance(got, Tensor) and (got.shape, got.dtype) == (want.shape, want.dtype)
    try:
        expect_close(got, want, tolerance=1e-4)
    except Wrong as wrong:
        wrong.why = why if alike else wrong.why or why
        raise


def _how_capped(logits: Tensor, limit: float) -> str:
    top = float(logits.abs().max())
    if top == 0:
        return (
            "All logits are 0 here, and so is `top`: limit / top is inf, and 0 * inf is nan. "
            "`torch.where` picks one of two values, and what it leaves out does not matter."
        )
    if top > limit:
        return (
            f"The largest amount among all logits is {top:.4g}, above the limit of {limit:g}: each "
            "of them is multiplied by the same limit / top."
        )
    return (
        f"The largest amount among all logits is {top:.4g}, below the limit of {limit:g}: none of "
        "them changes."
    )


def _how_averaged(z: Tensor) -> str:
    counted = int((z.sum(1) > 0).sum())
    if not counted:
        return "No row of z has a sum above 0 here. Then the mean is a zero for each word."
    return (
        f"{counted} of the {len(z)} rows of z have a sum above 0. The mean is theirs: for each "
        f"word one number, their sum divided by {counted}."
    )


def _bent(xs: list[Tensor], w: Tensor, b: Tensor, limit: float, *, bent: str) -> Answered:
    """The step with one thing done otherwise."""
    results = []
    for x in xs:
        z = F.linear(x, w, b)
        top = z.max() if bent.startswith("no abs") else z.abs().max()
        factor = torch.clamp(limit / top, max=1.0)
        if bent == "no abs":  # a negative top is below the limit; a clamp takes it for a factor
            factor = torch.where(top > limit, limit / top, 1.0)
        if bent == "never" or (bent == "frozen" and x is not xs[0]):
            factor = torch.ones(())
        if bent == "always":
            factor = limit / top
        if bent == "by row":
            factor = torch.clamp(limit / z.abs().amax(1, keepdim=True), max=1.0)
        uncapped = z
        z = z.clamp(-limit, limit) if bent == "clamped" else z * factor
        if bent == "product first":
            z = torch.where(top > limit, uncapped * limit / top, uncapped)
        sums = z.sum(dim=1)
        if bent == "without bias":
            z = F.linear(x, w) * factor
        if bent == "turned factor":
            z = uncapped * torch.where(top > limit, top / limit, 1.0)
        keep = (sums >= 0 if bent == "nought too" else sums > 0).float()
        rows = torch.tensor(float(len(z))) if bent == "all rows" else keep.sum()
        rows = rows if bent == "no row" else rows.clamp(min=1)
        rows = keep.sum() + 1 if bent == "one more" else rows
        counted = uncapped if bent == "uncapped" else z
        mean = (counted * keep[:, None]).sum(0) / rows
        if bent == "elements":
            mean = (z * (z > 0)).sum(0) / (z > 0).sum(0).clamp(min=1)
        if bent == "zeros left out":
            weighed = z * keep[:, None]
            mean = weighed.sum(0) / weighed.count_nonzero(0).clamp(min=1)
        if bent == "every row":
            mean = z.mean(0)
        if bent == "sum":
            mean = mean * rows
        mean = mean[None] if bent == "as a row" else mean
        z = {"rows zeroed": z * keep[:, None], "uncapped z": uncapped}.get(bent, z)
        results.append((mean, z) if bent == "turned" else (z, mean))
    return (results[:1] if bent == "first only" else results), 1


def _several(xs: list[Tensor], w: Tensor, b: Tensor, limit: float, *, graphs: int) -> Answered:
    return _whole(xs, w, b, limit)[0], graphs


for _graphs in (2, 3, *range(5, 17)):
    one_graph.wrong(f"still_breaks_{_graphs}", SEVERAL, one_graph=partial(_several, graphs=_graphs))


one_graph.wrong(
    "still_breaks",
    SEVERAL,
    one_graph=lambda xs, w, b, limit: (_whole(xs, w, b, limit)[0], 4),
)
one_graph.wrong(
    "not_compiled",
    "The values are right, and not all of them came out of a graph. Call `compiled`, not `step`, "
    "and hand on what it returns as it is.",
    one_graph=lambda xs, w, b, limit: (_whole(xs, w, b, limit)[0], 0),
)
one_graph.wrong(
    "always_scaled",
    "Quiet logits were blown up to the limit. The factor is limit / top where top is above the "
    "limit, and 1 elsewhere.",
    one_graph=lambda xs, w, b, limit: _bent(xs, w, b, limit, bent="always"),
)
one_graph.wrong(
    "never_scaled",
    "Nothing was capped. The branch has to become part of the graph: torch.where, or a clamp of "
    "the factor.",
    one_graph=lambda xs, w, b, limit: _bent(xs, w, b, limit, bent="never"),
)
one_graph.wrong(
    "each_logit_clamped",
    "Each logit was clamped by itself. The step scales all of them by one factor.",
    one_graph=lambda xs, w, b, limit: _bent(xs, w, b, limit, bent="clamped"),
)
one_graph.wrong(
    "mean_over_all_rows",
    "This is the sum of the rows that count, divided by the number of all rows. Divide it by how "
    "many count.",
    one_graph=lambda xs, w, b, limit: _bent(xs, w, b, limit, bent="all rows"),
)
one_graph.wrong(
    "no_row_counts",
    "Where no row counts this is nan, as 0 / 0 is. The step as found gives zeros there: divide a "
    "sum by at least 1, or pick zeros with `torch.where`.",
    one_graph=lambda xs, w, b, limit: _bent(xs, w, b, limit, bent="no row"),
)

_BENT = {
    "nought too": "A row whose sum is 0 was counted. The step as found keeps rows whose sum is "
    "greater than 0.",
    "by row": "Each row was capped by its own largest logit. The step has one `top` for all.",
    "no abs": "The largest logit was taken, not the largest amount: top is z.abs().max().",
    "no abs by clamp": "The largest logit was taken, not the largest amount: top is z.abs().max().",
    "zeros left out": "A logit of 0 in a row that counts was left out of the number. Divide by how "
    "many rows count, not by how many entries are not 0.",
    "one more": "The mean was divided by one row too many. `.clamp(min=1)` helps where no row "
    "counts and changes nothing else.",
    "uncapped": "The mean was taken over the logits as they were before they were capped.",
    "elements": "The mean was taken over positive logits. A row counts as a whole, or not.",
    "every row": "The mean was taken over all rows. Only those whose sum is above 0 count.",
    "sum": "The rows that count were added up. Their mean is asked: divide by how many they are.",
    "as a row": "The mean came as (1, V). It has one dimension, (V,).",
    "rows zeroed": "The rows that do not count are zero in z. They are left out of the mean alone.",
    "uncapped z": "z came as it was before it was capped.",
    "turned factor": "The factor is the wrong way round: it is limit / top.",
    "product first": "Logits times the limit are more than float32 holds here, and z is as where "
    "that is divided by `top`: the factor limit / top comes first, as in the step as found.",
    "without bias": "The bias b is missing from the logits.",
    "first only": "There is a result for the first x only. The compiled step is called with each "
    "of `xs`.",
    "turned": "(z, mean) was asked for: the capped logits come first.",
}
for _bent_how, _sentence in _BENT.items():
    one_graph.wrong(
        _bent_how.replace(" ", "_"),
        _sentence,
        one_graph=partial(_bent, bent=_bent_how),
    )


@one_graph.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(9, 6), draw.tensor(9)
    xs = [draw.tensor(5, 6) for _ in range(3)]
    with room_for(student, "one_graph") as room:
        _, graphs = room.call("one_graph", xs, w, b, LIMIT)
    return f"{graphs} graph for {len(xs)} calls"
