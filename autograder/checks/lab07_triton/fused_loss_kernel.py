"""The loss of the head without its logits, forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .kernels import (
    HOST,
    HUGE,
    IN_FLOAT16,
    Case,
    Given,
    Misreading,
    Stored,
    as_if_contiguous,
    blocks,
    faulty,
    float16,
    judge_kernel,
    list_wrong,
    output,
    run_of,
    tf32,
)
from .linear_kernel import head

OUTPUTS = ("loss_ptr", "lse_ptr")


@lab.question(
    "fused_loss_kernel",
    points=6,
    minutes=14,
    difficulty=5,
    hints=(
        "What of a row's logits must a program remember when it goes on to the next tile of words?",
        "Three numbers a row: the maximum so far, the sum of exp(z - maximum) so far, scaled when "
        "the maximum grows, and the logit of the target, which lies in one of the tiles. Words "
        "beyond V have the logit -inf.",
        "higher = tl.maximum(top, tl.max(z, 1)); total = total * tl.exp(top - higher) + "
        "tl.sum(tl.exp(z - higher[:, None]), 1); top = higher",
    ),
    function="written",
    host=HOST,
)
def fused_loss_kernel(student: Student, draw: Draw) -> None:
    """Linear and cross-entropy in one kernel, a program for ROWS tokens, no logit in memory.

    x (N, D) of any strides, w (V, D) and b (V,) contiguous, t (N,) int64 -> loss (N,), lse (N,);
    grid (ceil(N / ROWS),); D is a power of two.
    """
    judge_kernel(student, "fused_loss_kernel", draw, _cases, MISREADINGS)


def _cases(draw: Draw) -> Iterator[Case]:
    yield case_of(draw, 17, 75, 16, (16, 32))
    yield case_of(draw, 5, 600, 64, (16, 128))
    yield case_of(draw, 7, 43, 32, (16, 16), x="transposed")
    yield case_of(draw, 9, 37, 16, (16, 16), shift=400.0)
    yield case_of(draw, 6, 45, 16, (16, 32), shift=-400.0)
    yield case_of(draw, 16, 64, 16, (16, 32))
    yield case_of(draw, 1, 2, 16, (16, 16))
    yield case_of(draw, 4, 50, 16, (16, 16), first=130.0)
    yield case_of(draw, 3, 44, 16, (16, 16), scale=HUGE, w_scale=1 / HUGE)
    for _ in draw.cases(2):
        n, v = draw.integer(2, 40), draw.integer(41, 99)
        x = draw.choice(("contiguous", "transposed", "offset"))
        yield case_of(draw, n, v, draw.choice((16, 32)), (16, draw.choice((16, 32))), x=x)


def case_of(
    draw: Draw, n: int, v: int, d: int, tiles: tuple[int, int], *, x: str = "contiguous",
    shift: float = 0.0, first: float = 0.0, scale: float = 1.0, w_scale: float = 1.0,
) -> Case:  # fmt: skip
    """shift: of all logits; first: of those of the first tile; scale: of x; w_scale: of w. The
    targets are any words."""
    of_x, of_w, of_b = draw.tensor(n, d, layout=x), draw.tensor(v, d), draw.tensor(v) + shift
    of_b[: tiles[1]] += first
    of_x *= scale
    of_w *= w_scale
    t = draw.integers(n, low=0, high=v - 1)
    loss, lse = output(draw, n), output(draw, n)
    given = {
        "x_ptr": of_x, "w_ptr": of_w, "b_ptr": of_b, "t_ptr": t, "loss_ptr": loss, "lse_ptr": lse,
        "N": n, "V": v, "x_n": of_x.stride(0), "x_d": of_x.stride(1), "D": d,
        "ROWS": tiles[0], "WORDS": tiles[1],
    }  # fmt: skip
    z = head(of_x.double(), of_w.double(), of_b.double())
    want = {"loss_ptr": loss_of(z, t).float(), "lse_ptr": z.logsumexp(1).float()}
    return Case((blocks(n, tiles[0]),), given, want)


def loss_of(z: Tensor, t: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(z, t, reduction="none")


def _tiled(z: Tensor, given: Given) -> list[Tensor]:
    return list(torch.split(z, given["WORDS"], 1))


def _logits(given: Given) -> Tensor:
    return head(given["x_ptr"], given["w_ptr"], given["b_ptr"])


def _lse(by: Callable[[Tensor, Given], Tensor]) -> Callable[..., Stored]:
    """A log-sum-exp of the logits that is wrong, and the loss that follows from it."""

    def stored(given: Given) -> Stored:
        z = _logits(given)
        lse = by(z, given)
        return {"loss_ptr": lse - _at(z, given["t_ptr"]), "lse_ptr": lse}

    return stored


def _at(z: Tensor, t: Tensor) -> Tensor:
    return z.gather(1, t[:, None])[:, 0]


def _loss(by: Callable[..., Tensor]) -> Callable[..., Stored]:
    """A right log-sum-exp, and a loss that is wrong: of the logits, the lse and all given."""

    def stored(given: Given) -> Stored:
        z = _logits(given)
        return {"loss_ptr": by(z, z.logsumexp(1), given), "lse_ptr": z.logsumexp(1)}

    return stored


def _not_rescaled(z: Tensor, given: Given) -> Tensor:
    """Each tile adds exp(z - the maximum so far); what was there before stays as it was."""
    top, total = torch.full((len(z),), -torch.inf), torch.zeros(len(z))
    for tile in _tiled(z, given):
        top = torch.maximum(top, tile.amax(1))
        total = total + (tile - top[:, None]).exp().sum(1)
    return top + total.log()


def _not_carried(z: Tensor, given: Given) -> Tensor:
    """Each tile takes its own maximum for that of all."""
    top, total = torch.full((len(z),), -torch.inf), torch.zeros(len(z))
    for tile in _tiled(z, given):
        higher = tile.amax(1)
        total = total * (top - higher).exp() + (tile - higher[:, None]).exp().sum(1)
        top = higher
    return top + total.log()


def _padded(z: Tensor, given: Given) -> Tensor:
    """Words beyond V have the logit 0."""
    beyond = blocks(given["V"], given["WORDS"]) * given["WORDS"] - given["V"]
    return torch.cat([z, z.new_zeros(len(z), beyond)], 1).logsumexp(1)


def _last_tiles_target(z: Tensor, lse: Tensor, given: Given) -> Tensor:
    """The logit of the target is that of the last tile, 0 where it is in another."""
    first = (given["V"] - 1) // given["WORDS"] * given["WORDS"]
    t = given["t_ptr"]
    return lse - torch.where(t >= first, _at(z, t), 0.0)


def _rounded(by: Callable[[Tensor], Tensor]) -> Callable[[Given], Stored]:
    def stored(given: Given) -> Stored:
        z = head(by(given["x_ptr"]), by(given["w_ptr"]), given["b_ptr"])
        return {"loss_ptr": loss_of(z, given["t_ptr"]), "lse_ptr": z.logsumexp(1)}

    return stored


def _unstrided(given: Given) -> Stored:
    z = head(as_if_contiguous(given["x_ptr"]), given["w_ptr"], given["b_ptr"])
    return {"loss_ptr": loss_of(z, given["t_ptr"]), "lse_ptr": z.logsumexp(1)}


def _no_bias(given: Given) -> Stored:
    z = given["x_ptr"] @ given["w_ptr"].T
    return {"loss_ptr": loss_of(z, given["t_ptr"]), "lse_ptr": z.logsumexp(1)}


MISREADINGS = {
    "edge_not_masked": faulty("out_of_bounds"),
    "not_rescaled": Misreading(
        "The maximum grows and the sum stays as it was. The sum so far counts in units of exp(the "
        "old maximum): multiply it by exp(old - new).",
        _lse(_not_rescaled),
    ),
    "not_carried": Misreading(
        "Each tile takes its own maximum for that of the row. Where it is far below the one so "
        "far, exp(old - new) overflows: the new maximum is the larger of the two.",
        _lse(_not_carried),
    ),
    "words_beyond_count": Misreading(
        "The words beyond V count with the logit 0. In the last tile they need -inf.",
        _lse(_padded),
    ),
    "no_maximum": Misreading(
        "Right until a logit is above 88: exp of it is inf in float32.",
        _lse(lambda z, given: z.exp().sum(1).log()),
    ),
    "target_of_the_last_tile": Misreading(
        "The target's logit is overwritten by each tile. It lies in one of them: add it up over "
        "the tiles, with 0 from all the others.",
        _loss(_last_tiles_target),
    ),
    "no_target": Misreading(
        "The loss is the log-sum-exp. The logit of the target has to be taken off.",
        _loss(lambda z, lse, given: lse),
    ),
    "gain": Misreading(
        "The sign is turned: a loss is lse - z[target], and falls when the target's logit grows.",
        _loss(lambda z, lse, given: _at(z, given["t_ptr"]) - lse),
    ),
    "no_bias": Misreading("The bias is missing from the logits.", _no_bias),
    "in_tf32": Misreading(
        'tl.dot rounds float32 to tf32, ten bits, unless it is told input_precision="ieee".',
        _rounded(tf32),
    ),
    "in_float16": Misreading(IN_FLOAT16, _rounded(float16)),
    "strides_of_x_ignored": Misreading(
        "x is read as if its rows lay one after the other. x_n and x_d say where an element is.",
        _unstrided,
    ),
}
list_wrong(fused_loss_kernel, MISREADINGS)


@fused_loss_kernel.cost
def _(student: Student, draw: Draw) -> str:
    case = case_of(draw, 32, 600, 64, (16, 128))
    run = run_of(student, "fused_loss_kernel", case)
    stored, logits = sum(run.stored_bytes.values()), 4 * 32 * 600
    return f"{stored:,} bytes stored for 32 tokens; their logits would be {logits:,}"
