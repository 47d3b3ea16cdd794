"""The head, cut by its columns or by its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.judge import (
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_tuple,
    within,
)
from autograder.judge.relations import between_kinds, between_tensors

from . import lab

Given = tuple[Tensor, Tensor, Tensor, Tensor]
Pair = tuple[Tensor, str]
Pairs = list[Pair]
NAMES = ("z", "dx", "dw", "db")
KEEP, SUM = "keep", "sum"
FOUR_PAIRS = (
    "Each of the four is a pair: first the tensor of this rank, then what completes it, `keep` or "
    "`sum`."
)
FORMULAS = {
    "z": "z[n, v] adds x[n, d] * w[v, d] over the features d, and contains b[v] once.",
    "dx": "dx[n, d] adds dz[n, v] * w[v, d] over the words v.",
    "dw": "dw[v, d] adds dz[n, v] * x[n, d] over the rows n.",
    "db": "db[v] adds dz[n, v] over the rows n: one number for each word v.",
}
SUMMED_TOO = "This rank holds all of it already, `keep`: added up over ranks it is something else."
UNLIKE = "The parts of a sum have the same shape and dtype on every rank, and these do not."
KEPT_APART = (
    "Each rank holds a part of a sum here, and only the sum over all ranks is right: `sum`."
)
TRANSPOSED = "This is dw transposed: nn.Linear keeps its weight as (out, in), a row for each word."


@lab.question(
    "parallel_head",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "For each of z, dx, dw, db: over which index does the formula add, and is that index cut? "
        "If it is, a rank has one part of the sum.",
        "z[n, v] adds over features, dx[n, d] adds over words, dw and db over n. By columns the "
        "words are cut, so dx is a part of a sum; by rows the features are, so z is.",
        'columns: dx is (dz @ w, "sum"). rows: z is (F.linear(x, w, b if rank == 0 else None), '
        '"sum")',
    ),
)
def parallel_head(student: Student, draw: Draw) -> None:
    """Forward and backward of one rank of a head that is cut by columns, and by rows.

    column_parallel(x, w, b, dz) and row_parallel(x, w, b, dz, rank) -> four pairs for z, dx, dw,
    db: the tensor of this rank, and "keep" or "sum" (over all ranks).
    """
    for world in (3, 1, *(draw.integer(2, 5) for _ in draw.cases(1))):
        _expect_both(student, _drawn(draw), world)
    _expect_both(student, _drawn(draw, (1, 3, 3)), 3)  # one row, and one of each for a rank


def _expect_both(student: Student, given: Given, world: int) -> None:
    truth = _truth(*given)
    _expect_columns(student, given, truth, world)
    _expect_rows(student, given, truth, world)


def _drawn(draw: Draw, sizes: tuple[int, int, int] | None = None) -> Given:
    n, d, v = sizes or (draw.integer(2, 5), draw.integer(6, 11), draw.integer(9, 17))
    return draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v), draw.tensor(n, v)


def _truth(x: Tensor, w: Tensor, b: Tensor, dz: Tensor) -> list[Tensor]:
    """z, dx, dw, db on one rank, by torch's own nodes in float64."""
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    z = torch.nn.functional.linear(*leaves)
    grads = torch.autograd.grad(z, leaves, dz.double())
    return [t.detach().float() for t in (z, *grads)]


def _expect_columns(student: Student, given: Given, truth: list[Tensor], world: int) -> None:
    x, w, b, dz = given
    z, dx, dw, db = truth
    parts = list(zip(w.chunk(world), b.chunk(world), dz.chunk(world, 1), strict=True))

    def ask(rank: int) -> Any:
        return student.call("column_parallel", x, *parts[rank])

    want = [z.chunk(world, 1), [dx] * len(parts), dw.chunk(world), db.chunk(world)]
    _expect(ask, want, "by columns", weights=[wr for wr, _, _ in parts])


def _expect_rows(student: Student, given: Given, truth: list[Tensor], world: int) -> None:
    x, w, b, dz = given
    z, dx, dw, db = truth
    parts = list(zip(x.chunk(world, 1), w.chunk(world, 1), strict=True))

    def ask(rank: int) -> Any:
        return student.call("row_parallel", *parts[rank], b, dz, rank)

    want = [[z] * len(parts), dx.chunk(world, 1), dw.chunk(world, 1), [db] * len(parts)]
    _expect(ask, want, "by rows", weights=[wr for _, wr in parts], bias=b)


def _pairs(got: Any) -> Pairs:
    """`got`, if it is four pairs of a tensor and what completes it."""
    why = FOUR_PAIRS if got is not None else ""
    pairs = expect_tuple(got, len(NAMES), "four pairs, for z, dx, dw, db", why=why)
    for name, pair in zip(NAMES, pairs, strict=True):
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], Tensor) or pair[1] not in (KEEP, SUM):
            raise Wrong(
                expected='(a tensor, "keep" or "sum")',
                got=describe(pair),
                where=f"for {name}",
                why=FOUR_PAIRS,
            )
    return [(t, str(how)) for t, how in got]


def _expect(
    ask: Callable[[int], Any],
    want: Sequence[Sequence[Tensor]],
    where: str,
    *,
    weights: Sequence[Tensor],
    bias: Tensor | None = None,
) -> None:
    """Plays the network: what each rank holds when the sums are formed, beside the truth. ask: a
    rank by its number. weights: w of each rank. bias: what one of the ranks adds to z."""
    answers = [_pairs(ask(rank)) for rank in range(len(weights))]
    for k, name in enumerate(NAMES):
        for rank, answer in enumerate(answers):
            mine, how = answer[k]
            shape = tuple(weights[rank].shape)
            place = f"in {name} {where}, on rank {rank} of {len(answers)} with w {shape},"
            if how == SUM:
                whole = all(
                    _is(a[k][0], of_rank) for a, of_rank in zip(answers, want[k], strict=True)
                )
                _expect_alike([a[k][0] for a in answers], name, where, is_whole=whole)
                mine = torch.stack([a[k][0] for a in answers]).sum(dim=0)
                place += " after the sum,"
            why = _misplaced(mine, [of_one[rank] for of_one in want], k)
            why = why or _other_way([a[k] for a in answers], rank, want[k][rank])
            if name == "z" and bias is not None:
                why = why or _too_often(mine, want[k][rank], bias)
            if name in ("dw", "db"):
                why = why or _averaged(mine, want[k][rank], name, len(want[0][rank]))
            try:
                with within(place, why=partial(_or_formula, why, mine, want[k][rank], name)):
                    expect_close(mine, want[k][rank], tolerance=1e-5)
            except Wrong:
                ask(rank)  # of its arguments the verdict speaks
                raise


def _other_way(answers: Sequence[Pair], rank: int, want: Tensor) -> str:
    """A sentence for a tensor that is right where it is completed in the other way."""
    tensor, how = answers[rank]
    if len(answers) == 1:
        return ""
    if how == SUM:
        return SUMMED_TOO if _is(tensor, want) else ""
    alike = len({(t.shape, t.dtype) for t, _ in answers}) == 1
    together = torch.stack([t for t, _ in answers]).sum(dim=0) if alike else tensor
    return KEPT_APART if _is(together, want) and not _is(tensor, want) else ""


def _too_often(got: Tensor, want: Tensor, b: Tensor) -> str:
    """How often b is in z, if that is all that is wrong."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return ""
    more = round(float((got - want).mean(0) @ b / (b @ b)))
    if not more or not _is(got - more * b, want):
        return ""
    return f"z by rows contains b {1 + more} times. One rank adds it, also where there is only one."


def _averaged(got: Tensor, want: Tensor, name: str, n: int) -> str:
    """A sentence for a mean over the n rows in the place of a sum."""
    if n == 1 or not _is(got, want / n):
        return ""
    return (
        f"{name} is N times too small, as where it is a mean over the rows. Each row has its part, "
        "and they add up; the mean belongs to the loss, and dz brings it along."
    )


def _or_formula(why: str, got: Tensor, want: Tensor, name: str) -> str:
    """`why`, or what the values have to do with each other, or else the formula."""
    if why or got.dtype != want.dtype:
        return why
    kinds = between_kinds(got, want, 1e-5) if got.shape != want.shape else ""
    related = (
        between_tensors(got, want, 1e-5 * float(want.abs().max()))
        if got.shape == want.shape
        else kinds
    )
    return "" if related else FORMULAS[name]


def _others_place(place: str, name: str) -> str:
    return f"In the place of {place} stands {name}: the four are z, dx, dw, db, in this order."


def _misplaced(got: Tensor, want: Sequence[Tensor], k: int) -> str:
    """A sentence for a tensor that is right but for its place or its orientation."""
    for name, other in zip(NAMES, want, strict=True):
        if name != NAMES[k] and _is(got, other):
            return _others_place(NAMES[k], name)
    turned = NAMES[k] == "dw" and got.dim() == 2 and _is(got.mT, want[k])
    return TRANSPOSED if turned else ""


def _is(got: Tensor, want: Tensor) -> bool:
    alike = (got.shape, got.dtype) == (want.shape, want.dtype)
    return alike and torch.allclose(got, want, rtol=1e-4, atol=1e-4)


KEEP_EACH = "'keep': each rank's tensor is its own already"


def _expect_alike(tensors: Sequence[Tensor], name: str, where: str, *, is_whole: bool) -> None:
    """is_whole: whether each of them is what its rank must hold."""
    if len({(t.shape, t.dtype) for t in tensors}) > 1:
        raise Wrong(
            expected=KEEP_EACH if is_whole else "tensors of one shape and dtype, to add up",
            got="; ".join(describe(t) for t in tensors),
            where=f"in {name} {where}",
            why=SUMMED_TOO if is_whole else UNLIKE,
        )


def right_columns(x: Tensor, w: Tensor, b: Tensor, dz: Tensor) -> Pairs:
    """One rank's part, cut by columns."""
    return [(x @ w.T + b, KEEP), (dz @ w, SUM), (dz.T @ x, KEEP), (dz.sum(0), KEEP)]


def right_rows(x: Tensor, w: Tensor, b: Tensor, dz: Tensor, rank: int) -> Pairs:
    """One rank's part, cut by rows."""
    z = x @ w.T + (b if rank == 0 else 0.0)
    return [(z, SUM), (dz @ w, KEEP), (dz.T @ x, KEEP), (dz.sum(0), KEEP)]


parallel_head.otherwise(column_parallel=right_columns, row_parallel=right_rows)


def _how(pairs: Pairs, **changed: str) -> Pairs:
    """The same tensors, completed in another way."""
    return [(t, changed.get(name, how)) for name, (t, how) in zip(NAMES, pairs, strict=True)]


def _transposed(pairs: Pairs) -> Pairs:
    z, dx, (dw, how), db = pairs
    return [z, dx, (dw.mT.contiguous(), how), db]


parallel_head.wrong(
    "input_gradient_partial",
    "The all-reduce of dx is missing: by columns each rank knows only what its own words say "
    "about x. The head would learn, and all that lies below it would follow one rank's words.",
    column_parallel=lambda x, w, b, dz: _how(right_columns(x, w, b, dz), dx=KEEP),
)
parallel_head.wrong(
    "logits_partial",
    "The all-reduce of z is missing: by rows each rank has added up its own features only.",
    row_parallel=lambda x, w, b, dz, rank: _how(right_rows(x, w, b, dz, rank), z=KEEP),
)


def _with_bias(x: Tensor, w: Tensor, b: Tensor, dz: Tensor, rank: int) -> Pairs:
    return [(x @ w.T + b, SUM), *right_rows(x, w, b, dz, rank)[1:]]


def _without_bias(x: Tensor, w: Tensor, b: Tensor, dz: Tensor, rank: int) -> Pairs:
    return [(x @ w.T, SUM), *right_rows(x, w, b, dz, rank)[1:]]


parallel_head.wrong(
    "bias_on_every_rank",
    "By rows every rank added b, and the sum contains it once for each of them. One rank adds it.",
    row_parallel=_with_bias,
)
parallel_head.wrong("bias_nowhere", "By rows nobody added b.", row_parallel=_without_bias)
parallel_head.wrong(
    "bias_gradient_summed",
    "db by rows came out once for each rank: dz is whole on all of them, so each has all of db "
    "already.",
    row_parallel=lambda x, w, b, dz, rank: _how(right_rows(x, w, b, dz, rank), db=SUM),
)
parallel_head.wrong(
    "bias_gradient_on_one_rank",
    "db by rows is zero on all ranks but one. b is whole on every rank, so each keeps all of db, "
    "or the copies of b part at the first step.",
    row_parallel=lambda x, w, b, dz, rank: [
        *right_rows(x, w, b, dz, rank)[:3],
        (dz.sum(0) * (rank == 0), KEEP),
    ],
)
parallel_head.wrong(
    "other_places",
    _others_place("dx", "dw"),
    column_parallel=lambda x, w, b, dz: [right_columns(x, w, b, dz)[k] for k in (0, 2, 3, 1)],
    row_parallel=lambda x, w, b, dz, rank: [right_rows(x, w, b, dz, rank)[k] for k in (0, 2, 3, 1)],
)
parallel_head.wrong(
    "weight_gradient_transposed",
    TRANSPOSED,
    column_parallel=lambda x, w, b, dz: _transposed(right_columns(x, w, b, dz)),
    row_parallel=lambda x, w, b, dz, rank: _transposed(right_rows(x, w, b, dz, rank)),
)
parallel_head.wrong(
    "weight_gradient_summed",
    "dw was added up over ranks, as in DDP. Here all ranks see the same words, and each row of w "
    "lives on one rank: its gradient is whole there.",
    column_parallel=lambda x, w, b, dz: _how(right_columns(x, w, b, dz), dw=SUM),
)
parallel_head.wrong(
    "parameter_gradients_summed",
    "dw and db were added up over ranks, as in DDP. Here all ranks see the same words, and each "
    "row of w lives on one rank: its gradients are whole there.",
    column_parallel=lambda x, w, b, dz: _how(right_columns(x, w, b, dz), dw=SUM, db=SUM),
)
parallel_head.wrong(
    "input_gradient_of_rows_summed",
    "dx by rows was added up. Each rank's dx belongs to its own features; other ranks hold others.",
    row_parallel=lambda x, w, b, dz, rank: _how(right_rows(x, w, b, dz, rank), dx=SUM),
)
parallel_head.wrong(
    "everything_summed",
    "By columns all four are `sum`. What is whole on a rank stays, `keep`: adding it up mixes "
    "what belongs to other words, or counts it W times.",
    column_parallel=lambda x, w, b, dz: [(t, SUM) for t, _ in right_columns(x, w, b, dz)],
    row_parallel=lambda x, w, b, dz, rank: [(t, SUM) for t, _ in right_rows(x, w, b, dz, rank)],
)
parallel_head.wrong(
    "the_other_way_around",
    "`sum` and `keep` are exchanged: by columns z is whole and dx a part, by rows it is the other "
    "way around.",
    column_parallel=lambda x, w, b, dz: _how(right_columns(x, w, b, dz), z=SUM, dx=KEEP),
    row_parallel=lambda x, w, b, dz, rank: _how(right_rows(x, w, b, dz, rank), z=KEEP, dx=SUM),
)


parallel_head.wrong(
    "bias_on_rank_1",
    "By rows rank 1 added b. Alone there is no rank 1, and b is lost: let rank 0 add it.",
    row_parallel=lambda x, w, b, dz, rank: [
        (x @ w.T + (b if rank == 1 else 0.0), SUM),
        *right_rows(x, w, b, dz, rank)[1:],
    ],
)
parallel_head.wrong(
    "bias_of_columns_nowhere",
    "By columns nobody added b. Each rank holds the bias of its own words.",
    column_parallel=lambda x, w, b, dz: [(x @ w.T, KEEP), *right_columns(x, w, b, dz)[1:]],
)


def _bias_by(pairs: Pairs, db: Tensor) -> Pairs:
    return [*pairs[:3], (db, KEEP)]


parallel_head.wrong(
    "bias_gradient_averaged",
    "db is a mean over the words. Each word read the bias, and paths add up; the mean belongs to "
    "the loss, and dz brings it along.",
    column_parallel=lambda x, w, b, dz: _bias_by(right_columns(x, w, b, dz), dz.mean(0)),
    row_parallel=lambda x, w, b, dz, rank: _bias_by(right_rows(x, w, b, dz, rank), dz.mean(0)),
)
parallel_head.wrong(
    "bias_gradient_of_one_word",
    "db is the first row of dz. Each word read the bias, and paths add up: sum over the rows.",
    column_parallel=lambda x, w, b, dz: _bias_by(right_columns(x, w, b, dz), dz[0]),
    row_parallel=lambda x, w, b, dz, rank: _bias_by(right_rows(x, w, b, dz, rank), dz[0]),
)


@parallel_head.cost
def _(student: Student, draw: Draw) -> str:
    x, w, b, dz = draw.tensor(32, 64), draw.tensor(150, 64), draw.tensor(150), draw.tensor(32, 150)
    whole = {
        name: 2 * 3 * sum(t.nbytes for t, how in pairs if how == SUM) // 4
        for name, pairs in (
            ("columns", student.call("column_parallel", x, w, b, dz)),
            (
                "rows",
                student.call(
                    "row_parallel",
                    x[:, :16],
                    draw.tensor(600, 16),
                    draw.tensor(600),
                    draw.tensor(32, 600),
                    0,
                ),
            ),
        )
    }
    return (
        f"the head on 4 ranks, 32 words, bytes per rank and step: {whole['columns']:,} by "
        f"columns, {whole['rows']:,} by rows"
    )
