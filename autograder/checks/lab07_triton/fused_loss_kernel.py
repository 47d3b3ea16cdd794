"""The loss of the head without its logits, forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

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
    covered,
    far_from_0,
    faulty,
    float16,
    is_right,
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
    judge_kernel(student, "fused_loss_kernel", draw, _cases, MISREADINGS, _seen)


def _cases(draw: Draw) -> Iterator[Case]:
    yield case_of(draw, 17, 75, 16, (16, 32))
    yield case_of(draw, 5, 600, 64, (16, 128))
    yield case_of(draw, 7, 43, 32, (16, 16), x="transposed")
    yield case_of(draw, 9, 37, 16, (16, 16), shift=400.0)
    yield case_of(draw, 6, 45, 16, (16, 32), shift=-400.0)
    yield case_of(draw, 16, 64, 16, (16, 32))
    yield case_of(draw, 4, 32, 16, (16, 16), shift=-300.0)  # and no word beyond V
    yield case_of(draw, 1, 2, 16, (16, 16))
    yield case_of(draw, 4, 50, 16, (16, 16), first=130.0)
    yield case_of(draw, 3, 44, 16, (16, 16), scale=HUGE, w_scale=1 / HUGE)
    yield case_of(draw, 4, 50, 16, (16, 16), first=-130.0)
    yield case_of(draw, 3, 42, 16, (16, 16), x="expanded")
    yield case_of(draw, 1, 42, 16, (16, 16), x="expanded")  # all features of the token are one
    for _ in draw.cases(2):
        n, v = draw.integer(2, 40), draw.integer(41, 99)
        x = draw.choice(("contiguous", "transposed", "offset"))
        yield case_of(draw, n, v, draw.choice((16, 32)), (16, draw.choice((16, 32))), x=x)


def case_of(
    draw: Draw, n: int, v: int, d: int, tiles: tuple[int, int], *, x: str = "contiguous",
    shift: float = 0.0, first: float = 0.0, scale: float = 1.0, w_scale: float = 1.0,
) -> Case:  # fmt: skip
    """shift: of all logits; first: of those of the first tile; scale: of x; w_scale: of w. The
    targets are any words; where the first tile is higher, one of them is far below it."""
    of_x, of_w, of_b = draw.tensor(n, d, layout=x), draw.tensor(v, d), draw.tensor(v) + shift
    of_b[: tiles[1]] += first
    if scale != 1.0:  # what is expanded is not written
        of_x *= scale
    of_w *= w_scale
    t = draw.integers(n, low=0, high=v - 1)
    if first:
        t[-1] = v - 1
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


def _no_bias_beyond(given: Given) -> Stored:
    """As _no_bias, where it was the bias that kept out the words beyond V."""
    z = given["x_ptr"] @ given["w_ptr"].T
    lse = _padded(z, given)
    return {"loss_ptr": lse - _at(z, given["t_ptr"]), "lse_ptr": lse}


def _first_words(count: Callable[[Given], int]) -> Callable[[Given], Stored]:
    """Of the first words alone, target or not."""

    def stored(given: Given) -> Stored:
        z, t, kept = _logits(given), given["t_ptr"], count(given)
        lse = z[:, :kept].logsumexp(1)
        return {"loss_ptr": lse - torch.where(t < kept, _at(z, t), 0.0), "lse_ptr": lse}

    return stored


def _whole_tiles(given: Given) -> int:
    return int(given["V"] // given["WORDS"] * given["WORDS"])


def _but_the_last_tile(given: Given) -> int:
    return max(0, blocks(given["V"], given["WORDS"]) - 1) * int(given["WORDS"])


def _by_steps_of_rows(given: Given) -> Stored:
    z, t = _logits(given), given["t_ptr"]
    times = covered(range(0, given["V"], given["ROWS"]), given["WORDS"], given["V"])
    lse = (z + times.log()).logsumexp(1)
    return {"loss_ptr": lse - times[t] * _at(z, t), "lse_ptr": lse}


def _at_the_same_place(
    z: Tensor, lse: Tensor, given: Given, *, beyond_v: float = -torch.inf
) -> Tensor:
    """The target counted within each tile. beyond_v: the logit of a word that is none."""
    words, t = given["WORDS"], given["t_ptr"]
    found = torch.zeros(len(z))
    for first in range(0, given["V"], words):
        beyond = torch.full((len(z), max(0, first + words - given["V"])), beyond_v)
        tile = torch.cat([z[:, first : first + words], beyond], 1)
        found += torch.where(t < words, _at(tile, t.clamp(max=words - 1)), 0.0)
    return lse - found


def _less_the_maximum(z: Tensor, lse: Tensor, given: Given) -> Tensor:
    """The target's logit less the maximum so far, of the tile in which it lies."""
    so_far = torch.cat([tile.amax(1, True).expand_as(tile) for tile in _tiled(z, given)], 1)
    return lse - _at(z - so_far.cummax(1).values, given["t_ptr"])


def _tile_rescaled_too(z: Tensor, given: Given) -> Tensor:
    top, total = torch.full((len(z),), -torch.inf), torch.zeros(len(z))
    for tile in _tiled(z, given):
        higher = torch.maximum(top, tile.amax(1))
        total = (total + (tile - higher[:, None]).exp().sum(1)) * (top - higher).exp()
        top = higher
    return top + total.log()


def _maximum_from_0(z: Tensor, given: Given) -> Tensor:
    top = z.amax(1).clamp(min=0)
    return top + (z - top[:, None]).exp().sum(1).log()


def _maximum_with_padding(z: Tensor, given: Given) -> Tensor:
    """Words beyond V have the logit 0 in the maximum, and are not in the sum."""
    return _maximum_from_0(z, given) if given["V"] % given["WORDS"] else z.logsumexp(1)


def _padding_taken_off(z: Tensor, given: Given) -> Tensor:
    """As _maximum_with_padding, but the words beyond V are in the sum, and are taken off it."""
    beyond = -int(given["V"]) % int(given["WORDS"])
    top = z.amax(1).clamp(min=0) if beyond else z.amax(1)
    off = beyond * (-top).exp()  # without a word beyond 0 * inf, far below 0
    return top + ((z - top[:, None]).exp().sum(1) + off - off).log()


def _without_its_bias(z: Tensor, lse: Tensor, given: Given) -> Tensor:
    return lse - _at(z - given["b_ptr"], given["t_ptr"])


def _times_onehot(z: Tensor, lse: Tensor, given: Given) -> Tensor:
    right = lse - _at(z, given["t_ptr"])
    return right * math.nan if given["V"] % given["WORDS"] else right


def _rows_of(given: Given, value: float) -> Tensor:
    return torch.full((int(given["N"]),), value)


def _right(given: Given) -> Stored:
    z = _logits(given)
    return {"loss_ptr": loss_of(z, given["t_ptr"]), "lse_ptr": z.logsumexp(1)}


def _turned_round(given: Given) -> Stored:
    right = _right(given)
    return {"loss_ptr": right["lse_ptr"], "lse_ptr": right["loss_ptr"]}


def _seen(case: Case, stored: Stored) -> str:
    """What is true of any kernel that stores this."""
    if said := far_from_0(_logits)(case, stored):
        return said
    return LSE_RIGHT if is_right(stored["lse_ptr"], case.want["lse_ptr"]) else LSE_WRONG


LSE_RIGHT = "lse is right, and the loss is not: it is lse - z[target]."
LSE_WRONG = (
    "lse is off: it is the logarithm of the sum of exp(z) over the V words of its row, and nothing "
    "else is in that sum."
)
SAME_PLACE = (
    "The target is looked for at the same place of each tile. It is a word of all V: compare it "
    "with v."
)
MISREADINGS = {
    "edge_not_masked": faulty("out_of_bounds"),
    "not_rescaled": Misreading(
        "The maximum grows and the sum stays as it was. The sum so far counts in units of exp(the "
        "old maximum): multiply it by exp(old - new).",
        _lse(_not_rescaled),
    ),
    "not_carried": Misreading(
        "What the tiles before have left is scaled to the new tile alone, by exp(old - new). Where "
        "the new tile is far below, that overflows: take off the larger of the two.",
        _lse(_not_carried),
    ),
    "words_beyond_count": Misreading(
        "The words beyond V count with the logit 0. In the last tile they need -inf.",
        _lse(_padded),
    ),
    "no_maximum": Misreading(
        "Right for small logits: exp of one above 88.72 is inf in float32, and where a whole row "
        "is far below 0 its exps are all 0.",
        _lse(lambda z, given: z.exp().sum(1).log()),
    ),
    "target_of_the_last_tile": Misreading(
        "The target's logit comes from the last tile alone, as where each tile overwrites it. It "
        "lies in one of them: add it up over the tiles, with 0 from all the others.",
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
    "no_bias_beyond": Misreading(
        "The bias is missing from the logits, and nothing else keeps the words beyond V out: there "
        "the logit has to be -inf.",
        _no_bias_beyond,
    ),
    "last_words_dropped": Misreading(
        "The last words are missing: V is no multiple of WORDS, and the tile that hangs over its "
        "end counts too.",
        _first_words(_whole_tiles),
    ),
    "last_tile_dropped": Misreading(
        "The last tile of words is missing, whole or not: the loop goes on while first < V.",
        _first_words(_but_the_last_tile),
    ),
    "steps_of_rows": Misreading(
        "The loop goes on by another number than WORDS, such as ROWS, and a tile is WORDS wide: "
        "words come more than once, or are left out.",
        _by_steps_of_rows,
    ),
    "maximum_left_off": Misreading(
        "lse is without the maximum that was taken off before exp: it is added to the logarithm.",
        _lse(lambda z, given: z.logsumexp(1) - z.amax(1)),
    ),
    "maximum_left_off_lse": Misreading(
        "lse_ptr holds the logarithm of the sum alone. The maximum that was taken off before exp "
        "is added to it there too.",
        lambda given: (
            _right(given) | {"lse_ptr": _right(given)["lse_ptr"] - _logits(given).amax(1)}
        ),
    ),
    "maximum_multiplied": Misreading(
        "The maximum was multiplied with the logarithm of the sum. It is added.",
        _lse(lambda z, given: z.amax(1) * (z.logsumexp(1) - z.amax(1))),
    ),
    "maximum_alone": Misreading(
        "lse_ptr holds the maximum of each row, without the logarithm of the sum.",
        lambda given: _right(given) | {"lse_ptr": _logits(given).amax(1)},
    ),
    "maximum_from_0": Misreading(
        "The maximum is never below 0, as where it begins there. Where all logits are far below, "
        "every exp is 0: it begins at -inf.",
        _lse(_maximum_from_0),
    ),
    "words_beyond_win": Misreading(
        "The words beyond V count in the maximum, with the logit 0. Where all logits are far "
        "below, it is 0 and every exp vanishes: there they need -inf.",
        _lse(_maximum_with_padding),
    ),
    "padding_taken_off": Misreading(
        "The words beyond V count in the maximum with the logit 0, and are taken off the sum "
        "again. Where all logits are far below 0, nothing else is in it: they need -inf.",
        _lse(_padding_taken_off),
    ),
    "maximum_not_kept": Misreading(
        "lse is -inf in every row, as where the maximum so far stays at -inf, or the sum at 0: "
        "each turn leaves both to the next.",
        _lse(lambda z, given: _rows_of(given, -torch.inf)),
    ),
    "tile_rescaled_too": Misreading(
        "What the new tile adds was rescaled as well. Only the sum so far counts in units of the "
        "old maximum.",
        _lse(_tile_rescaled_too),
    ),
    "base_2": Misreading(
        "exp2 and log2 are of base 2. Here it is e.",
        _lse(lambda z, given: (z * math.log(2)).logsumexp(1) / math.log(2)),
    ),
    "no_lse": Misreading(
        "The loss is the target's logit with its sign turned: lse is missing.",
        _loss(lambda z, lse, given: -_at(z, given["t_ptr"])),
    ),
    "probability": Misreading(
        "The loss is the probability of the target. It is minus the logarithm of it.",
        _loss(lambda z, lse, given: (_at(z, given["t_ptr"]) - lse).exp()),
    ),
    "through_the_probability": Misreading(
        "The loss goes through the target's probability, which is 0 in float32 where the loss is "
        "above 104: its logarithm is -inf. lse - z[target] needs no exp of it.",
        _loss(lambda z, lse, given: -(_at(z, given["t_ptr"]) - lse).exp().log()),
    ),
    "exchanged": Misreading(
        "loss_ptr holds lse, and lse_ptr the loss.",
        _turned_round,
    ),
    "lse_not_stored": Misreading(
        "lse_ptr is NaN in every row, as it was before the launch: does any program store there?",
        lambda given: _right(given) | {"lse_ptr": _rows_of(given, math.nan)},
    ),
    "loss_not_stored": Misreading(
        "loss_ptr is NaN in every row, as it was before the launch: does any program store there?",
        lambda given: _right(given) | {"loss_ptr": _rows_of(given, math.nan)},
    ),
    "target_within_the_tile": Misreading(SAME_PLACE, _loss(_at_the_same_place)),
    "target_within_the_tile_before_the_mask": Misreading(
        SAME_PLACE, _loss(partial(_at_the_same_place, beyond_v=0.0))
    ),
    "target_without_bias": Misreading(
        "The target's logit is without its bias: take it where z is complete.",
        _loss(_without_its_bias),
    ),
    "inf_times_0": Misreading(
        "The loss is NaN where a tile has words beyond V, as with their logit -inf: -inf * 0 is "
        "NaN. Take the target's logit by tl.where, not by a product with 0 and 1.",
        _loss(_times_onehot),
    ),
    "target_below_0": Misreading(
        "Where the target's logit is below 0, a maximum with 0 has taken its place. Add the logit "
        "up over the words, with 0 from all the others.",
        _loss(lambda z, lse, given: lse - _at(z, given["t_ptr"]).clamp(min=0)),
    ),
    "target_less_the_maximum": Misreading(
        "The target's logit is less by the maximum so far. That is taken off for exp alone.",
        _loss(_less_the_maximum),
    ),
    "exp_of_the_target": Misreading(
        "exp of the target's logit was taken off. It is the logit itself.",
        _loss(lambda z, lse, given: lse - _at(z, given["t_ptr"]).exp()),
    ),
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
