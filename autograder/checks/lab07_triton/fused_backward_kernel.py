"""The backward of the fused loss: the logits are computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .fused_loss_kernel import case_of as forward_case
from .fused_loss_kernel import loss_of
from .kernels import (
    HOST,
    IN_FLOAT16,
    TINY,
    Case,
    Given,
    Misreading,
    Stored,
    as_if_contiguous,
    blocks,
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


@lab.question(
    "fused_backward_kernel",
    points=7,
    minutes=17,
    difficulty=5,
    hints=(
        "What is dz of one tile, if z of that tile and the row's lse are known?",
        "dz = (softmax - onehot) * dloss, 0 for tokens beyond N. Then dx adds up dz w over the "
        "tiles of words, dw gets dz^T x and db the sums of dz over the tokens. Several programs "
        "add to dw and db.",
        "p = tl.exp(z - lse[:, None]); dz = (p - hit) * dloss[:, None]; "
        'tl.atomic_add(dw_ptr + ..., tl.dot(tl.trans(dz), x, input_precision="ieee"), mask=...)',
    ),
    function="written",
    host=HOST,
)
def fused_backward_kernel(student: Student, draw: Draw) -> None:
    """The gradients of the fused loss, dz computed again tile by tile, no logit in memory.

    As in fused_loss_kernel, with lse (N,) and the cotangent dloss (N,) -> dx (N, D), dw (V, D), db
    (V,), all contiguous; dw and db are 0 before the launch; grid (ceil(N / ROWS),).
    """
    judge_kernel(student, "fused_backward_kernel", draw, _cases, MISREADINGS, _seen)
    judge_kernel(student, "fused_backward_kernel", draw, _beyond, MISREADINGS, _seen)


_ALONE = {
    "dx_ptr": "dw and db are right, and dx is not: dx[n] adds up dz[n, v] * w[v] over all words.",
    "dw_ptr": "dx and db are right, and dw is not: dw[v] adds up dz[n, v] * x[n] over all tokens.",
    "db_ptr": "dx and dw are right, and db is not: db[v] adds up dz[n, v] over all tokens, "
    "whichever program has them.",
}
_DZ = (
    "dz[n, v] is softmax - onehot, times dloss[n]: the 1 is taken off at the target, whichever "
    "word that is, and dloss may be below 0."
)


def _seen(case: Case, stored: Stored) -> str:
    off = [name for name, want in case.want.items() if not is_right(stored[name], want)]
    return _ALONE[off[0]] if len(off) == 1 else _DZ


def _cases(draw: Draw) -> Iterator[Case]:
    yield _case(draw, 19, 45, 16, (16, 32))
    yield _case(draw, 37, 75, 32, (16, 32))
    yield _case(draw, 7, 43, 32, (16, 16), x="transposed")
    yield _case(draw, 16, 64, 16, (16, 16), shift=300.0)
    yield _case(draw, 1, 2, 16, (16, 16), scale=0.1)  # so near that softmax - onehot keeps digits
    yield _case(draw, 3, 44, 16, (16, 16), scale=TINY)
    yield _case(draw, 3, 42, 16, (16, 16), x="expanded")
    for _ in draw.cases(2):
        n, v = draw.integer(2, 40), draw.integer(41, 99)
        x = draw.choice(("contiguous", "transposed", "offset"))
        yield _case(draw, n, v, draw.choice((16, 32)), (16, draw.choice((16, 32))), x=x)


def _beyond(draw: Draw) -> Iterator[Case]:
    """Tokens beyond N and words beyond V, where exp of the bias, or of -lse, is inf. Apart from the
    others: there every mistake of a kernel that loads their lse as 0 would look like this one."""
    yield _case(draw, 5, 40, 16, (16, 16), shift=200.0)
    yield _case(draw, 5, 40, 16, (16, 16), shift=-200.0)


def _case(
    draw: Draw, n: int, v: int, d: int, tiles: tuple[int, int], *, x: str = "contiguous",
    shift: float = 0.0, scale: float = 1.0,
) -> Case:  # fmt: skip
    forward = forward_case(draw, n, v, d, tiles, x=x, shift=shift, scale=scale)
    inputs = {k: value for k, value in forward.given.items() if k != "loss_ptr"}
    inputs |= {"lse_ptr": forward.want["lse_ptr"], "dloss_ptr": draw.tensor(n)}
    outputs = {
        "dx_ptr": output(draw, n, d), "dw_ptr": torch.zeros(v, d), "db_ptr": torch.zeros(v)
    }  # fmt: skip
    given = inputs | outputs
    return replace(forward, given=given, want=_gradients(given))


def _gradients(given: Given) -> Stored:
    """By autograd, in float64."""
    leaves = [given[name].double().requires_grad_() for name in ("x_ptr", "w_ptr", "b_ptr")]
    loss = loss_of(head(*leaves), given["t_ptr"])
    found = torch.autograd.grad(loss, leaves, given["dloss_ptr"].double())
    return {k: g.float() for k, g in zip(("dx_ptr", "dw_ptr", "db_ptr"), found, strict=True)}


def _softmax(given: Given, x: Tensor) -> Tensor:
    lse: Tensor = given["lse_ptr"]
    return (head(x, given["w_ptr"], given["b_ptr"]) - lse[:, None]).exp()


def _hit(given: Given) -> Tensor:
    return torch.nn.functional.one_hot(given["t_ptr"], given["V"])


def _times_cotangent(dz: Tensor, given: Given) -> Tensor:
    dloss: Tensor = given["dloss_ptr"]
    return dz * dloss[:, None]


def _dz(given: Given, x: Tensor) -> Tensor:
    return _times_cotangent(_softmax(given, x) - _hit(given), given)


def _from(dz: Tensor, x: Tensor, w: Tensor) -> Stored:
    return {"dx_ptr": dz @ w, "dw_ptr": dz.T @ x, "db_ptr": dz.sum(0)}


def _by(dz_of: Callable[[Given, Tensor], Tensor]) -> Callable[..., Stored]:
    """The gradients that follow from a wrong dz."""
    return lambda given: _from(dz_of(given, given["x_ptr"]), given["x_ptr"], given["w_ptr"])


def _but(**wrong: Callable[[Given, Stored], Tensor]) -> Callable[..., Stored]:
    """The gradients, but for some."""

    def stored(given: Given) -> Stored:
        right = _from(_dz(given, given["x_ptr"]), given["x_ptr"], given["w_ptr"])
        return {**right, **{f"{name}_ptr": of(given, right) for name, of in wrong.items()}}

    return stored


def _dx_of_the_last_tile(given: Given, right: Stored) -> Tensor:
    first = (given["V"] - 1) // given["WORDS"] * given["WORDS"]
    w: Tensor = given["w_ptr"]
    return _dz(given, given["x_ptr"])[:, first:] @ w[first:]


def _db_with_rows_beyond(given: Given, right: Stored) -> Tensor:
    """Tokens beyond N have x = 0, target 0, lse = 0, and the cotangent 1, so that dz is not 0."""
    beyond = -int(given["N"]) % int(given["ROWS"])
    b: Tensor = given["b_ptr"]
    dz = b.exp()
    dz[0] -= 1
    return right["db_ptr"] + (beyond * dz if beyond else 0)  # no row beyond, no 0 * inf


def _inf_times_0(given: Given) -> Stored:
    """The gradients, with the dz of rows beyond N: their x, lse and cotangent are 0."""
    found = _by(_dz)(given)
    if given["N"] % given["ROWS"]:
        dz = _row_beyond(given) * 0
        found["db_ptr"] = found["db_ptr"] + dz
        found["dw_ptr"] = found["dw_ptr"] + dz[:, None]
    return found


def _inf_times_0_in_dx(given: Given, right: Stored) -> Tensor:
    """dx, with the dz of words beyond V: their w and bias are 0."""
    lse: Tensor = given["lse_ptr"]
    beyond = given["V"] % given["WORDS"] != 0
    return right["dx_ptr"] + (0 * (-lse).exp()[:, None] if beyond else 0)


def _read_again(of: Callable[[Tensor, int], Tensor]) -> Callable[[Given], Stored]:
    """The gradients, where rows beyond N are those of other tokens and add to dw and db too."""

    def stored(given: Given) -> Stored:
        n, x = int(given["N"]), given["x_ptr"]
        rows = of(torch.arange(blocks(n, given["ROWS"]) * given["ROWS"]), n)
        dz = _dz(given, x)
        return _from(dz[rows], x[rows], given["w_ptr"]) | {"dx_ptr": dz @ given["w_ptr"]}

    return stored


def _normalized_by_tile(given: Given, x: Tensor) -> Tensor:
    z = head(x, given["w_ptr"], given["b_ptr"])
    p = torch.cat([tile.softmax(1) for tile in torch.split(z, given["WORDS"], 1)], 1)
    return _times_cotangent(p - _hit(given), given)


def _unstrided(given: Given) -> Stored:
    x = as_if_contiguous(given["x_ptr"])
    return _from(_dz(given, x), x, given["w_ptr"])


def _rounded(by: Callable[[Tensor], Tensor]) -> Callable[[Given], Stored]:
    def stored(given: Given) -> Stored:
        x, w = by(given["x_ptr"]), by(given["w_ptr"])
        dz = _dz(given | {"w_ptr": w}, x)
        return _from(by(dz), x, w) | {"db_ptr": dz.sum(0)}

    return stored


def _with_rows_beyond(
    dz_of: Callable[[Given], Tensor], of_a_row: Callable[[Given], Tensor]
) -> Callable[[Given], Stored]:
    """The gradients that follow from a wrong dz, with that of each row beyond N: its x, target and
    lse are 0."""

    def stored(given: Given) -> Stored:
        beyond = -int(given["N"]) % int(given["ROWS"])
        found = _from(dz_of(given), given["x_ptr"], given["w_ptr"])
        if beyond:
            found["db_ptr"] = found["db_ptr"] + beyond * of_a_row(given)
        return found

    return stored


def _row_beyond(given: Given) -> Tensor:
    dz: Tensor = given["b_ptr"].exp()
    dz[0] -= 1
    return dz


def _uncast_dz(given: Given) -> Tensor:
    return _softmax(given, given["x_ptr"]) - _hit(given)


def _hits_not_weighted(given: Given) -> Tensor:
    return _times_cotangent(_softmax(given, given["x_ptr"]), given) - _hit(given)


def _first_word_hit(given: Given) -> Tensor:
    return -torch.eye(1, int(given["V"]))[0]


def _nothing(given: Given) -> Tensor:
    return torch.zeros(int(given["V"]))


def _db_by(dz_of: Callable[[Given], Tensor], of_a_row: Callable[[Given], Tensor]) -> Any:
    """db alone by a wrong dz, with that of the rows beyond N."""

    def db(given: Given, right: Stored) -> Tensor:
        beyond = -int(given["N"]) % int(given["ROWS"])
        found = dz_of(given).sum(0)
        return found + beyond * of_a_row(given) if beyond else found

    return _but(db=db)


def _hit_in_each_tile(given: Given, x: Tensor) -> Tensor:
    place = torch.arange(given["V"]) % given["WORDS"]
    hits = (place == given["t_ptr"][:, None]).float()
    return _times_cotangent(_softmax(given, x) - hits, given)


def _whole_tiles(given: Given, x: Tensor) -> Tensor:
    whole = given["V"] // given["WORDS"] * given["WORDS"]
    return torch.where(torch.arange(given["V"]) < whole, _dz(given, x), 0.0)


def _without_bias(given: Given, x: Tensor) -> Tensor:
    return _dz(given | {"b_ptr": torch.zeros(int(given["V"]))}, x)


def _without_lse(given: Given, x: Tensor) -> Tensor:
    z = head(x, given["w_ptr"], given["b_ptr"])
    return _times_cotangent(z.exp() - _hit(given), given)


def _by_jacobian(given: Given, x: Tensor) -> Tensor:
    p = _softmax(given, x)
    return _times_cotangent(p * (1 - p), given)


def _times_p(given: Given, x: Tensor) -> Tensor:
    p = _softmax(given, x)
    return _times_cotangent(p * (p - _hit(given)), given)


def _logits_in_float16(given: Given) -> Stored:
    x, w = float16(given["x_ptr"]), float16(given["w_ptr"])
    return _from(_dz(given | {"w_ptr": w}, x), given["x_ptr"], given["w_ptr"])


def _by_the_strides_of_x(given: Given, right: Stored) -> Tensor:
    dx = right["dx_ptr"]
    return dx.T.reshape(dx.shape) if given["x_n"] == 1 < given["x_d"] else dx


_BESIDE = {"": _row_beyond, "_beside_inf": _first_word_hit, "_masked": _nothing}
"""What a row beyond N adds to db without its cotangent: with an lse of 0, of inf, or masked."""
AGAIN = (
    "Rows beyond N are read as other tokens, by % or by a minimum, and what those add to dw and db "
    "is added again. Let the dz of such a row be 0."
)

MISREADINGS = {
    "edge_not_masked": faulty("out_of_bounds"),
    "stored_instead_of_added": Misreading(
        faulty("race").sentence,
        lambda given: _but()(given) if given["N"] <= given["ROWS"] else faulty("race").stored({}),
    ),
    "no_target": Misreading(
        "dz is the softmax. At the target it is less by 1: the loss falls when that logit grows.",
        _by(lambda given, x: _times_cotangent(_softmax(given, x), given)),
    ),
    "no_cotangent": Misreading(
        "dloss is missing. Each row of dz is multiplied by the cotangent of that row's loss.",
        _by(
            lambda given, x: (
                _softmax(given, x) - torch.nn.functional.one_hot(given["t_ptr"], given["V"])
            )
        ),
    ),
    "sign_turned": Misreading(
        "All gradients have the wrong sign: dz is softmax - onehot.",
        _by(lambda given, x: -_dz(given, x)),
    ),
    "softmax_of_the_tile": Misreading(
        "The softmax is that of each tile alone. The row's lse, which the forward kept, makes it "
        "that of all words.",
        _by(_normalized_by_tile),
    ),
    "dx_of_the_last_tile": Misreading(
        "dx holds what the last tile of words adds. It grows over all tiles.",
        _but(dx=_dx_of_the_last_tile),
    ),
    "bias_forgotten": Misreading(
        "db is still 0: it is the sum of dz over the tokens.",
        _but(db=lambda given, right: given["db_ptr"]),
    ),
    "rows_beyond_count": Misreading(
        "The tokens beyond N count in db. Their x is 0 and so is what they add to dw, but their "
        "exp(z - lse) is not 0: mask dz, or load their cotangent as 0.",
        _but(db=_db_with_rows_beyond),
    ),
    "inf_times_0": Misreading(
        "The tokens beyond N are multiplied with 0, as by a cotangent of 0, and with an lse of 0 "
        "the softmax of theirs is inf where the bias is large: inf * 0 is NaN, in db and dw. Load "
        "their lse as inf, or take 0 for their dz by tl.where.",
        _inf_times_0,
    ),
    "no_cotangent_beyond": Misreading(
        "dloss is missing, and with it what keeps the tokens beyond N out of db.",
        _with_rows_beyond(_uncast_dz, _row_beyond),
    ),
    "no_cotangent_beside_inf": Misreading(
        "dloss is missing, and with it what keeps the tokens beyond N out of db.",
        _with_rows_beyond(_uncast_dz, _first_word_hit),
    ),
    "inf_times_0_in_dx": Misreading(
        "The words beyond V have a row of w that is 0, and with a bias of 0 the softmax of theirs "
        "is inf where lse is far below 0: inf * 0 is NaN, in dx. Load their bias as -inf, or take "
        "0 for their dz by tl.where.",
        _but(dx=_inf_times_0_in_dx),
    ),
    "last_token_again": Misreading(AGAIN, _read_again(lambda rows, n: rows.clamp(max=n - 1))),
    "first_tokens_again": Misreading(AGAIN, _read_again(lambda rows, n: rows % n)),
    **{
        f"hits_not_weighted{beside}": Misreading(
            "The 1 at the target was taken off after the product with dloss. Both are multiplied: "
            "(softmax - onehot) * dloss.",
            _with_rows_beyond(_hits_not_weighted, of_a_row),
        )
        for beside, of_a_row in (("", _first_word_hit), ("_masked", _nothing))
    },
    "dx_without_cotangent": Misreading(
        "dx follows from softmax - onehot without dloss. It is dz w, and dloss is a factor of dz.",
        _but(dx=lambda given, right: _uncast_dz(given) @ given["w_ptr"]),
    ),
    "dw_without_cotangent": Misreading(
        "dw follows from softmax - onehot without dloss. It is dz^T x, and dloss is a factor of "
        "dz.",
        _but(dw=lambda given, right: _uncast_dz(given).T @ given["x_ptr"]),
    ),
    "averaged": Misreading(
        "The gradients are divided by N. dloss is the cotangent of each token's loss, and whoever "
        "averages has divided it.",
        _by(lambda given, x: _dz(given, x) / given["N"]),
    ),
    "lse_left_out": Misreading(
        "The softmax is exp(z - lse), and lse was not taken off.", _by(_without_lse)
    ),
    "no_bias": Misreading(
        "The bias is missing from the logits that are computed again.", _by(_without_bias)
    ),
    "dw_missing": Misreading(
        "dw is still 0: nobody adds to it.", _but(dw=lambda given, right: given["dw_ptr"])
    ),
    "dx_missing": Misreading(
        "dx is not a number, as it was before the launch: nobody stores there, or what was there "
        "is added to. Only dw and db begin at 0.",
        _but(dx=lambda given, right: torch.full_like(right["dx_ptr"], torch.nan)),
    ),
    "db_of_the_softmax": Misreading(
        "db adds up the softmax. It is the sum of dz over the tokens.",
        _db_by(lambda given: _softmax(given, given["x_ptr"]), lambda given: given["b_ptr"].exp()),
    ),
    **{
        f"db_without_cotangent{beside}": Misreading(
            "db adds up softmax - onehot without dloss. It is the sum of dz over the tokens.",
            _db_by(_uncast_dz, of_a_row),
        )
        for beside, of_a_row in _BESIDE.items()
    },
    "db_averaged": Misreading(
        "db is divided by ROWS. Paths add up: it is the sum of dz over the tokens.",
        _but(db=lambda given, right: right["db_ptr"] / given["ROWS"]),
    ),
    "dw_transposed": Misreading(
        "dw was written as (D, V). It is (V, D), as w: the element [v, d] is at v * D + d.",
        _but(dw=lambda given, right: right["dw_ptr"].T.reshape(right["dw_ptr"].shape)),
    ),
    "dx_by_the_strides_of_x": Misreading(
        "dx was written with the strides of x. It is contiguous, whatever x is.",
        _but(dx=_by_the_strides_of_x),
    ),
    "target_within_the_tile": Misreading(
        "The target is looked for at the same place of each tile. It is a word of all V: compare "
        "it with v.",
        _by(_hit_in_each_tile),
    ),
    "last_words_dropped": Misreading(
        "The last words are missing: V is no multiple of WORDS, and the tile that hangs over its "
        "end counts too.",
        _by(_whole_tiles),
    ),
    "jacobian_s_diagonal": Misreading(
        "dz is p (1 - p): that is the diagonal of the softmax's Jacobian. Through the logarithm of "
        "the loss all of it comes to softmax - onehot.",
        _by(_by_jacobian),
    ),
    "softmax_twice": Misreading(
        "dz was multiplied by the softmax once more. It is softmax - onehot, times dloss.",
        _by(_times_p),
    ),
    "logits_in_float16": Misreading(
        "The logits are computed again with factors of ten bits, which the forward did not do: "
        'rounded to tf32, as by tl.dot without input_precision="ieee", or to float16.',
        _logits_in_float16,
    ),
    "in_tf32": Misreading(
        'tl.dot rounds float32 to tf32, ten bits, unless it is told input_precision="ieee": in '
        "each of the three products.",
        _rounded(tf32),
    ),
    "in_float16": Misreading(IN_FLOAT16, _rounded(float16)),
    "strides_of_x_ignored": Misreading(
        "x is read as if its rows lay one after the other. x_n and x_d say where an element is.",
        _unstrided,
    ),
}
list_wrong(fused_backward_kernel, MISREADINGS)


@fused_backward_kernel.cost
def _(student: Student, draw: Draw) -> str:
    run = run_of(student, "fused_backward_kernel", _case(draw, 32, 600, 64, (16, 64)))
    loaded, stored = sum(run.loaded_bytes.values()), sum(run.stored_bytes.values())
    return f"32 tokens: {loaded:,} bytes loaded, {stored:,} stored or added; dz would be 76,800"
