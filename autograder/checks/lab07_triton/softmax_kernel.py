"""A bias and a softmax, a program for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .kernels import (
    HOST,
    LAYOUTS,
    Case,
    Given,
    Misreading,
    Stored,
    as_if_contiguous,
    far_from_0,
    faulty,
    judge_kernel,
    list_wrong,
    output,
    padded,
    run_of,
)


@lab.question(
    "softmax_kernel",
    points=4,
    minutes=11,
    difficulty=3,
    hints=(
        "Which row is this program's, and which of its BLOCK lanes have a word?",
        "n = tl.program_id(0), v = tl.arange(0, BLOCK). Loads are masked by v < V; lanes beyond "
        "may not win the maximum and may not count in the sum, so their logit is -inf.",
        'z = tl.load(x_ptr + n * x_n + v * x_v, mask=v < V, other=float("-inf"))',
    ),
    function="written",
    host=HOST,
)
def softmax_kernel(student: Student, draw: Draw) -> None:
    """Bias and softmax over the words, a program for each row: any V, any strides, no overflow.

    x (N, V), b (V,) -> y (N, V); grid (N,); BLOCK is the power of two from V on.
    """
    seen = far_from_0(lambda given: given["x_ptr"] + given["b_ptr"])
    judge_kernel(student, "softmax_kernel", draw, _cases, MISREADINGS, seen)


def _cases(draw: Draw) -> Iterator[Case]:
    yield _case(draw, 3, 600)
    yield _case(draw, 4, 33, x="transposed")
    yield _case(draw, 5, 19, y="transposed")
    yield _case(draw, 2, 21, b="strided")
    yield _case(draw, 3, 13, x="strided", b="offset")
    yield _case(draw, 2, 37, shift=-300.0)
    yield _case(draw, 2, 41, shift=300.0)
    yield _case(draw, 2, 23, bias=300.0)
    yield _case(draw, 2, 32, shift=-200.0)  # and no lane beyond V has a part in it
    yield _case(draw, 2, 27, apart=200.0)
    yield _case(draw, 4, 64)
    yield _case(draw, 3, 1)
    yield _case(draw, 2, 29, shift=-10.0, scale=1e17)  # below each -1e9 that is meant as -inf
    yield _case(draw, 3, 18, x="expanded", b="expanded")
    yield _case(draw, 1, 22, x="expanded")  # all logits of the row are one
    for _ in draw.cases(2):
        x, y = draw.choice(LAYOUTS), draw.choice(("contiguous", "transposed"))
        yield _case(draw, draw.integer(2, 5), draw.integer(2, 90), x=x, y=y)


def _case(
    draw: Draw, n: int, v: int, *, x: str = "contiguous", b: str = "contiguous",
    y: str = "contiguous", shift: float = 0.0, bias: float = 0.0,
    scale: float = 1.0, apart: float = 0.0,
) -> Case:  # fmt: skip
    """shift: of all x, bias: of all b: the softmax stays, exp overflows or vanishes;
    scale: of x with its shift; apart: of the first x and the last b, which are of two words."""
    given_x, given_b = draw.tensor(n, v, layout=x), draw.tensor(v, layout=b)
    if x != "expanded":  # whose elements share their memory
        given_x += shift
        given_x *= scale
        given_x[:, 0] += apart
    if b != "expanded":
        given_b += bias
        given_b[-1] += apart
    out = output(draw, n, v, layout=y)
    given = {
        "x_ptr": given_x, "b_ptr": given_b, "y_ptr": out, "V": v,
        "x_n": given_x.stride(0), "x_v": given_x.stride(1), "b_v": given_b.stride(0),
        "y_n": out.stride(0), "y_v": out.stride(1), "BLOCK": padded(v),
    }  # fmt: skip
    return Case((n,), given, {"y_ptr": (given_x.double() + given_b.double()).softmax(1).float()})


def _of(by: Callable[[Tensor, Given], Tensor]) -> Callable[..., Stored]:
    """What `by` makes of the logits, in float32."""
    return lambda given: {"y_ptr": by(given["x_ptr"] + given["b_ptr"], given)}


def _with_padding(z: Tensor, given: Given) -> Tensor:
    """The lanes beyond V have the logit 0."""
    wide = torch.cat([z, z.new_zeros(len(z), given["BLOCK"] - z.shape[1])], 1)
    return wide.softmax(1)[:, : z.shape[1]]


def _top_of_padding(z: Tensor, given: Given) -> Tensor:
    """They count in the maximum alone."""
    top = z.amax(1, keepdim=True)
    e = (z - (top if given["BLOCK"] == z.shape[1] else top.clamp(min=0))).exp()
    return e / e.sum(1, keepdim=True)


def _shares(e: Tensor) -> Stored:
    return {"y_ptr": e / e.sum(1, keepdim=True)}


def _columns_written(y: Tensor, given: Given) -> Tensor:
    """y as it is when its strides were ignored."""
    memory = y.softmax(1).flatten()
    return memory.as_strided(y.shape, given["y_ptr"].stride())


MISREADINGS = {
    "not_masked": faulty("out_of_bounds"),
    "lanes_beyond_count": Misreading(
        "The lanes beyond V count with the logit 0: each adds to the sum. Give them a logit that "
        "adds nothing.",
        _of(_with_padding),
    ),
    "lanes_beyond_win": Misreading(
        "The lanes beyond V are left out of the sum but not of the maximum: where all logits are "
        "far below 0, the 0 of a masked lane wins and every exp vanishes.",
        _of(_top_of_padding),
    ),
    "maximum_from_0": Misreading(
        "The maximum is 0 where all of a row is below. There every exp vanishes, and 0 / 0 is "
        "left: it has to be the largest logit, whatever its sign.",
        _of(lambda z, given: _shares((z - z.amax(1, keepdim=True).clamp(min=0)).exp())["y_ptr"]),
    ),
    "no_maximum": Misreading(
        "Right for small logits: exp of one above 88.72 is inf in float32, and where a whole row "
        "is far below 0 its exps are all 0. Subtract the row's maximum first.",
        _of(lambda z, given: z.exp() / z.exp().sum(1, keepdim=True)),
    ),
    "maximum_without_bias": Misreading(
        "The maximum is that of x, without the bias. Where the bias is large, exp overflows: it "
        "has to be the maximum of what goes into exp.",
        lambda given: _shares(
            (given["x_ptr"] + given["b_ptr"] - given["x_ptr"].amax(1, keepdim=True)).exp()
        ),
    ),
    "maxima_added": Misreading(
        "The maxima of x and of the bias are taken one by one. Where they are of different words "
        "and large, every exp vanishes and 0 / 0 is left: it has to be the maximum of x + b.",
        lambda given: _shares(
            (
                given["x_ptr"]
                + given["b_ptr"]
                - (given["x_ptr"].amax(1, keepdim=True) + given["b_ptr"].amax())
            ).exp()
        ),
    ),
    "no_bias": Misreading(
        "The bias is missing.",
        lambda given: {"y_ptr": given["x_ptr"].softmax(1)},
    ),
    "bias_afterwards": Misreading(
        "The bias is added to the probabilities. It belongs to the logits.",
        lambda given: {"y_ptr": given["x_ptr"].softmax(1) + given["b_ptr"]},
    ),
    "not_divided": Misreading(
        "Each row holds exp(z - max). Divided by their sum they are probabilities.",
        _of(lambda z, given: (z - z.amax(1, keepdim=True)).exp()),
    ),
    "strides_of_x_ignored": Misreading(
        "x is read as if its rows lay one after the other. x_n and x_v say where an element is.",
        lambda given: {
            "y_ptr": (as_if_contiguous(given["x_ptr"]) + given["b_ptr"]).softmax(1),
        },
    ),
    "strides_of_y_ignored": Misreading(
        "y is written as if its rows lay one after the other. y_n and y_v say where an element is.",
        _of(_columns_written),
    ),
    "logarithm": Misreading(
        "These are logarithms of the probabilities.",
        _of(lambda z, given: z.log_softmax(1)),
    ),
}
list_wrong(softmax_kernel, MISREADINGS)


@softmax_kernel.cost
def _(student: Student, draw: Draw) -> str:
    run = run_of(student, "softmax_kernel", _case(draw, 8, 600))
    loaded, stored = sum(run.loaded_bytes.values()), sum(run.stored_bytes.values())
    return (
        f"for each of 8 rows of 600 words {loaded // 8:,} bytes loaded and {stored // 8:,} stored"
    )
