"""The head in tiles: a program for each tile of y, all three sizes masked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .kernels import (
    HOST,
    IN_FLOAT16,
    LAYOUTS,
    TINY,
    Case,
    Given,
    Misreading,
    Stored,
    as_if_contiguous,
    as_if_exchanged,
    blocks,
    covered,
    faulty,
    float16,
    judge_kernel,
    list_wrong,
    output,
    run_of,
    tf32,
)


@lab.question(
    "linear_kernel",
    points=5,
    minutes=13,
    difficulty=4,
    hints=(
        "Which tile of y is this program's, and which tiles of x and w does it walk over?",
        "rows and words are fixed for a program, features go on by FEATURES in a loop. A lane of "
        "the tile of x takes part where its row is below N and its feature below D; of w likewise. "
        "What is masked counts as 0.",
        "for first in range(0, D, FEATURES): d = first + tl.arange(0, FEATURES); ...; "
        'z += tl.dot(x, tl.trans(w), input_precision="ieee")',
    ),
    function="written",
    host=HOST,
)
def linear_kernel(student: Student, draw: Draw) -> None:
    """The head y = x w^T + b, a program for each tile of y: any N, V, D and strides, exact float32.

    x (N, D), w (V, D), b (V,) -> y (N, V); grid (ceil(N / ROWS), ceil(V / WORDS)).
    """
    judge_kernel(student, "linear_kernel", draw, _cases, MISREADINGS, lambda case, stored: _RULE)


_RULE = (
    "y[n, v] is b[v] and the D products x[n, d] * w[v, d], each of them once, whatever N, V, D and "
    "the tiles are."
)


def _cases(draw: Draw) -> Iterator[Case]:
    yield _case(draw, (19, 41, 32), (16, 16, 16))
    yield _case(draw, (16, 32, 39), (16, 32, 16))
    yield _case(draw, (18, 35, 21), (16, 32, 16), x="transposed")
    yield _case(draw, (9, 50, 37), (16, 16, 32), w="transposed")
    yield _case(draw, (5, 23, 19), (16, 16, 16), y="transposed")
    yield _case(draw, (3, 21, 17), (16, 32, 16), b="strided")
    yield _case(draw, (1, 1, 1), (16, 16, 16))
    yield _case(draw, (33, 70, 48), (32, 16, 16), x="offset", w="strided")
    yield _case(draw, (4, 25, 18), (16, 32, 16), scale=TINY)
    yield _case(draw, (5, 22, 19), (16, 32, 16), x="expanded", b="expanded")
    yield _case(draw, (1, 20, 18), (16, 32, 16), x="expanded", w="expanded")
    for _ in draw.cases(2):
        sizes = draw.integer(2, 40), draw.integer(41, 80), draw.integer(17, 39)
        tiles = tuple(draw.choice((16, 32)) for _ in range(3))
        layouts: dict[str, Any] = {name: draw.choice(LAYOUTS) for name in ("x", "w", "b")}
        yield _case(draw, sizes, tiles, **layouts)


def _case(
    draw: Draw, sizes: tuple[int, int, int], tiles: tuple[int, ...], *, x: str = "contiguous",
    w: str = "contiguous", b: str = "contiguous", y: str = "contiguous", scale: float = 1.0,
) -> Case:  # fmt: skip
    """sizes: N, V, D. tiles: ROWS, WORDS, FEATURES. scale: of x, b and y."""
    (n, v, d), (rows, words, features) = sizes, tiles
    of_x, of_w = draw.tensor(n, d, layout=x), draw.tensor(v, d, layout=w)
    of_b, of_y = draw.tensor(v, layout=b), output(draw, n, v, layout=y)
    if scale != 1.0:  # what is expanded is not written
        of_x *= scale
        of_b *= scale
    given = {
        "x_ptr": of_x, "w_ptr": of_w, "b_ptr": of_b, "y_ptr": of_y, "N": n, "V": v, "D": d,
        "x_n": of_x.stride(0), "x_d": of_x.stride(1), "w_v": of_w.stride(0),
        "w_d": of_w.stride(1), "b_v": of_b.stride(0), "y_n": of_y.stride(0),
        "y_v": of_y.stride(1), "ROWS": rows, "WORDS": words, "FEATURES": features,
    }  # fmt: skip
    grid = blocks(n, rows), blocks(v, words)
    return Case(grid, given, {"y_ptr": head(of_x.double(), of_w.double(), of_b.double()).float()})


def head(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x @ w.T + b


def _of(by: Callable[..., Tensor]) -> Callable[..., Stored]:
    """What `by` makes of x, w, b and all that is given."""
    return lambda given: {
        "y_ptr": by(given["x_ptr"], given["w_ptr"], given["b_ptr"], given),
    }


def _whole_tiles(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    whole = given["D"] // given["FEATURES"] * given["FEATURES"]
    return head(x[:, :whole], w[:, :whole], b)


def _last_tile(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    first = (given["D"] - 1) // given["FEATURES"] * given["FEATURES"]
    return head(x[:, first:], w[:, first:], b)


def _first_tile(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    return head(x[:, : given["FEATURES"]], w[:, : given["FEATURES"]], b)


def _axes_exchanged(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    """Rows by program_id(1), words by program_id(0): what lies beyond nobody writes."""
    rows = blocks(given["V"], given["WORDS"]) * given["ROWS"]
    words = blocks(given["N"], given["ROWS"]) * given["WORDS"]
    y = torch.full((len(x), len(w)), float("nan"))
    y[:rows, :words] = head(x, w, b)[:rows, :words]
    return y


def _columns_written(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    y: Tensor = given["y_ptr"]
    return head(x, w, b).flatten().as_strided(y.shape, y.stride())


def _but_the_last_tile(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    kept = max(0, blocks(given["D"], given["FEATURES"]) - 1) * given["FEATURES"]
    return head(x[:, :kept], w[:, :kept], b)


def _first_tile_again(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    size = given["FEATURES"]
    return head(blocks(given["D"], size) * x[:, :size], w[:, :size], b)


def _read_again(of: Callable[[Tensor, int], Tensor]) -> Callable[..., Stored]:
    """y, where features beyond D are those of other places and count again."""

    def by(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
        size = int(given["FEATURES"])
        places = of(torch.arange(blocks(given["D"], size) * size), int(given["D"]))
        return head(x[:, places], w[:, places], b)

    return _of(by)


def _by_steps_of_rows(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    starts = range(0, given["D"], given["ROWS"])
    return head(x * covered(starts, given["FEATURES"], given["D"]), w, b)


def _doubled(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    """Each turn adds the sum so far once more."""
    y = torch.zeros(len(x), len(w))
    tiles = (torch.split(t, given["FEATURES"], 1) for t in (x, w))
    for of_x, of_w in zip(*tiles, strict=True):
        y = 2 * y + of_x @ of_w.T
    return y + b


def _bias_of_rows(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    of_rows = torch.nn.functional.pad(b[: len(x)], (0, max(0, len(x) - len(b))))
    return x @ w.T + of_rows[:, None]


def _bias_below_n(x: Tensor, w: Tensor, b: Tensor, given: Given) -> Tensor:
    return head(x, w, torch.where(torch.arange(len(b)) < len(x), b, 0.0))


AGAIN = (
    "Features beyond D are read as other features, by % or by a minimum, and their products are "
    "added again. Let x or w be 0 there."
)

MISREADINGS = {
    "edge_not_masked": faulty("out_of_bounds"),
    "last_features_dropped": Misreading(
        "The last features are missing: D is no multiple of FEATURES, and the tile that hangs over "
        "its end counts too, with zeros beyond.",
        _of(_whole_tiles),
    ),
    "sum_started_anew": Misreading(
        "Only the last tile of features is left: the sum begins before the loop and grows in it.",
        _of(_last_tile),
    ),
    "one_tile": Misreading(
        "Only the first tile of features is there: a program walks over all of D.",
        _of(_first_tile),
    ),
    "axes_exchanged": Misreading(
        "The two numbers of a program are exchanged: axis 0 of the grid goes over rows, axis 1 "
        "over words. With as many tiles one way as the other nobody would notice.",
        _of(_axes_exchanged),
    ),
    "last_tile_dropped": Misreading(
        "The last tile of features is missing, whole or not: the loop goes on while first < D.",
        _of(_but_the_last_tile),
    ),
    "first_tile_again": Misreading(
        "Every turn of the loop brings the first tile of features: d is first + tl.arange(...).",
        _of(_first_tile_again),
    ),
    "first_features_again": Misreading(AGAIN, _read_again(lambda places, d: places % d)),
    "last_feature_again": Misreading(AGAIN, _read_again(lambda places, d: places.clamp(max=d - 1))),
    "steps_of_rows": Misreading(
        "The loop goes on by ROWS, and a tile is FEATURES wide: features are left out, or come "
        "more than once.",
        _of(_by_steps_of_rows),
    ),
    "sum_passed_and_added": Misreading(
        "Each turn adds what was there before once more: tl.dot(x, w, z) is z + x w already.",
        _of(_doubled),
    ),
    "bias_of_rows": Misreading(
        "The bias was taken by the rows. It belongs to the words, and is a row beside the tile.",
        _of(_bias_of_rows),
    ),
    "bias_below_n": Misreading(
        "From word N on the bias is missing, as with a mask that compares with N. The bias has an "
        "element for each of V words.",
        _of(_bias_below_n),
    ),
    "negative_cut": Misreading(
        "What is below 0 became 0. The head has no such rule.",
        _of(lambda x, w, b, given: head(x, w, b).clamp(min=0)),
    ),
    "strides_of_x_exchanged": Misreading(
        "x is read with its two strides exchanged: x_n is a step to the next row.",
        _of(lambda x, w, b, given: head(as_if_exchanged(x), w, b)),
    ),
    "strides_of_w_exchanged": Misreading(
        "w is read with its two strides exchanged: w_v is a step to the next word.",
        _of(lambda x, w, b, given: head(x, as_if_exchanged(w), b)),
    ),
    "no_bias": Misreading(
        "The bias is missing.", _of(lambda x, w, b, given: x @ w.T)
    ),
    "bias_for_each_tile": Misreading(
        "The bias was added once for each tile of features. It is added once: behind the loop, or "
        "before it.",
        _of(lambda x, w, b, given: head(x, w, b * blocks(given["D"], given["FEATURES"]))),
    ),
    "in_tf32": Misreading(
        'tl.dot rounds float32 to tf32, ten bits, unless it is told input_precision="ieee". Three '
        "digits are left of seven.",
        _of(lambda x, w, b, given: head(tf32(x), tf32(w), b)),
    ),
    "in_float16": Misreading(
        IN_FLOAT16, _of(lambda x, w, b, given: head(float16(x), float16(w), b))
    ),
    "strides_of_x_ignored": Misreading(
        "x is read as if its rows lay one after the other. x_n and x_d say where an element is.",
        _of(lambda x, w, b, given: head(as_if_contiguous(x), w, b)),
    ),
    "strides_of_w_ignored": Misreading(
        "w is read as if its rows lay one after the other. w_v and w_d say where an element is.",
        _of(lambda x, w, b, given: head(x, as_if_contiguous(w), b)),
    ),
    "strides_of_y_ignored": Misreading(
        "y is written as if its rows lay one after the other. y_n and y_v say where an element is.",
        _of(_columns_written),
    ),
}  # fmt: skip
list_wrong(linear_kernel, MISREADINGS)


@linear_kernel.cost
def _(student: Student, draw: Draw) -> str:
    case = _case(draw, (32, 600, 64), (16, 64, 32))
    run = run_of(student, "linear_kernel", case)
    x, w = (case.given[name] for name in ("x_ptr", "w_ptr"))
    times = [run.loaded_bytes[name] / t.nbytes for name, t in (("x_ptr", x), ("w_ptr", w))]
    return f"{case.grid[0]} x {case.grid[1]} programs load x {times[0]:.0f} times, w {times[1]:.0f}"
