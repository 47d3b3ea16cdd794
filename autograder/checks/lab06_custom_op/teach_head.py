"""The backward of an operator, and what autocast does to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student, Wrong, expect_close, expect_equal, expect_tuple, within

from . import lab
from .bench import KEPT, explained, room_for_python

Maybe = Tensor | None
Taught = tuple[Tensor, list[Maybe], int]
Needs = tuple[bool, bool, bool]

LEARNING: tuple[Needs, ...] = (
    (True, True, True),
    (False, True, True),
    (True, False, False),
    (False, False, True),
    (True, True, False),
    (False, True, False),
)
ROUNDED = 0.02  # of the largest value: bfloat16 keeps 8 bits, and sums round again
_NONE = (
    "A None is computed with, as b is in a call without a bias, or what was not saved for this "
    "gradient. dx reads w, and dw reads x."
)
_CALLED = "`setup_context` is called as keep(ctx, inputs, output), `backward` as backward(ctx, dy)."
_RAISED = {
    "RuntimeError": "The registration, the call or its backward raised. Is there an answer for "
    "each of x, w and b, None where b is None, and does it have the shape of its tensor?",
    "a gradient different than None": "A gradient was answered where no tensor came in: where b is "
    "None, its answer is None.",
    "returned an invalid gradient": "An answer has not the shape of its tensor: dx is (N, D) as x, "
    "dw (V, D) as w, db (V,) as b.",
    "not enough values to unpack": "More is unpacked than there is, as what was not saved by "
    "ctx.save_for_backward in keep, or a third entry of ctx.needs_input_grad, which is not "
    "there where b was left out.",
    "IndexError": "An entry was asked for that is not there: ctx.needs_input_grad has one for each "
    "input but a b that is None, and there it has two.",
    **dict.fromkeys(
        ("'NoneType' object", "'NoneType' and", "and 'NoneType'", "not NoneType"), _NONE
    ),
    **dict.fromkeys(("positional argument", "keyword argument"), _CALLED),
    "TypeError": "What was handed over is of a kind that is not taken there: the message says "
    "which.",
}


@lab.question(
    "teach_head",
    points=5,
    minutes=12,
    difficulty=3,
    hints=(
        "Which of x, w and b does each of the three gradients read? That is what keep saves.",
        "keep: x, w, _ = inputs; ctx.save_for_backward(x, w). backward: dx = dy @ w, dw = dy.T @ "
        "x, db = dy.sum(0), each only if ctx.needs_input_grad says so. Then two calls of "
        "torch.library.",
        'torch.library.register_autocast(op, "cpu", torch.bfloat16)',
    ),
    function="taught",
    budget_s=60.0,
    host="Its operator has a kernel for the CPU alone.",
)
def teach_head(student: Student, draw: Draw) -> None:
    """Backward and autocast of an operator, by torch.library.

    The name of an operator -> nothing; x (N, D), w (V, D), b (V,) or None, dy (N, V).
    """
    with room_for_python(student, "teach_head") as room:
        for needs, with_bias in [(n, True) for n in LEARNING] + [((True, True, False), False)]:
            _ask(room, draw, needs, with_bias, autocast=False)
        for needs in ((True, True, True), draw.choice(LEARNING[:3])):
            _ask(room, draw, needs, True, autocast=True)
        _ask(room, draw, (True, True, True), True, autocast=False, dtype=torch.float64)
        _ask_written(room, draw)
        _ask_beside(room, draw)


def _ask(
    room: Student,
    draw: Draw,
    needs: Needs,
    with_bias: bool,
    *,
    autocast: bool,
    dtype: torch.dtype = torch.float32,
) -> None:
    n, v, d = draw.integer(2, 9), draw.integer(10, 19), draw.integer(20, 29)
    x = draw.tensor(n, d, dtype=dtype, requires_grad=needs[0])
    w = draw.tensor(v, d, dtype=dtype, requires_grad=needs[1])
    b = draw.tensor(v, dtype=dtype, requires_grad=needs[2]) if with_bias else None
    dy = draw.tensor(n, v, dtype=dtype)
    with explained(_RAISED):
        got = room.call("taught", "teach_head", x, w, b, dy, autocast)
    _expect_taught(got, _torchs(x, w, b, dy, autocast), needs, autocast)


def _ask_written(room: Student, draw: Draw) -> None:
    """A backward after somebody wrote into w, then into x: it raises, or has kept the numbers of
    its forward."""
    n, v, d = draw.integer(2, 9), draw.integer(10, 19), draw.integer(20, 29)
    places = (
        "in dx, where w was written between forward and backward",
        "in dw, where x was written between forward and backward",
    )
    for k, place in enumerate(places):
        x, w = draw.tensor(n, d, requires_grad=not k), draw.tensor(v, d, requires_grad=bool(k))
        dy = draw.tensor(n, v)
        with explained(_RAISED):
            got = room.call("taught", "teach_head", x, w, None, dy, False, True)
        _, gradients, _ = expect_tuple(got, 3, "(y, gradients, products)")
        if gradients:
            mine = expect_tuple(gradients, 3, "three gradients")[k]
            with within(place, why=_UNANSWERED if mine is None else WRITTEN):
                expect_close(mine, (dy @ w, dy.T @ x)[k].detach().contiguous())


def _ask_beside(room: Student, draw: Draw) -> None:
    """A backward after the operator was called once more, without the bias that this call has, or
    with one: what it kept of its own call is on ctx. All else was right before, so whatever is
    wrong here comes of the other call."""
    raised = dict.fromkeys((*_RAISED, "ValueError", "AttributeError"), KEPT)
    places = (
        (True, "where the operator was called without a bias between forward and backward"),
        (False, "where the operator was called with a bias between forward and backward"),
    )
    for with_bias, place in places:
        n, v, d = draw.integer(2, 9), draw.integer(10, 19), draw.integer(20, 29)
        x, w, b = (draw.tensor(*size, requires_grad=True) for size in ((n, d), (v, d), (v,)))
        mine, beside = (b, None) if with_bias else (None, b)
        dy = draw.tensor(n, v)
        with within(place, why=KEPT):
            with explained(raised):
                got = room.call("taught_beside", "teach_head", x, w, mine, dy, beside)
            want = _torchs(x, w, mine, dy, False)
            _expect_taught(got, want, (True, True, with_bias), False)


def _torchs(
    x: Tensor, w: Tensor, b: Maybe, dy: Tensor, autocast: bool, low: torch.dtype = torch.bfloat16
) -> Taught:
    """What torch's own linear answers; of the products, one for each of x and w that learns."""
    inputs = [
        t.detach().requires_grad_(t.requires_grad) if t is not None else None for t in (x, w, b)
    ]
    with torch.autocast("cpu", low, enabled=autocast):
        y = F.linear(*inputs)  # type: ignore[arg-type]
    learning = [t for t in inputs if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(y, learning, dy.to(y.dtype)))
    learn = [t is not None and t.requires_grad for t in inputs]
    grads = [next(found).contiguous() if one else None for one in learn]
    return y.detach(), grads, sum(t.requires_grad for t in (x, w))


def _expect_taught(got: Any, want: Taught, needs: Needs, autocast: bool) -> None:
    y, gradients, products = expect_tuple(got, 3, "(y, gradients, products)")
    expect_tuple(gradients, len(want[1]), "three gradients")
    tolerance = ROUNDED if autocast else 1e-5 if want[0].dtype is torch.float32 else 1e-12
    _expect("in y", y, want[0], tolerance)
    for name, mine, torchs in zip(("dx", "dw", "db"), gradients, want[1], strict=True):
        if torchs is not None:
            learning = ", ".join(itertools.compress("xwb", needs))
            place = f"in {name}; what learns: {learning}" if mine is None else f"in {name}"
            _expect(place, mine, torchs, tolerance)
    most = want[2] + needs[2]  # db may be a product too: ones @ dy
    if products > most and not autocast:
        why = (
            "More products were computed than there are gradients of x and w to answer: "
            "ctx.needs_input_grad says who learns, and one product is enough for each."
        )
        learning = ", ".join(itertools.compress("xwb", needs))
        expected, where = f"products in the backward: at most {most}", f"what learns: {learning}"
        raise Wrong(expected=expected, got=str(products), where=where, why=why)


WRITTEN = (
    "Somebody wrote into x or w after the forward, and the backward went on with the new numbers. "
    "ctx.save_for_backward remembers the version that it saved, and raises; an attribute of ctx "
    "does not, nor does it for x.data and w.data."
)
_UNANSWERED = (
    "This tensor learns and got no gradient. ctx.needs_input_grad says who learns, in the order of "
    "the inputs, and backward answers in that order."
)


def _expect(place: str, mine: Any, torchs: Tensor, tolerance: float) -> None:
    with within(place, why=_UNANSWERED if mine is None else ""):
        expect_close(mine, torchs, tolerance=tolerance)


Bend = Callable[[Taught, Sequence[Any]], Taught]


def _bent(bend: Bend) -> Callable[..., Taught]:
    def taught(
        name: str,
        x: Tensor,
        w: Tensor,
        b: Maybe,
        dy: Tensor,
        autocast: bool = False,
        written: bool = False,
    ) -> Taught:
        return bend(_torchs(x, w, b, dy, autocast), (x, w, b, dy, autocast, written))

    return taught


def _uncast(right: Taught, given: Sequence[Any]) -> Taught:
    x, w, b, dy, *_ = given
    return _torchs(x, w, b, dy, False)


def _everybody(right: Taught, given: Sequence[Any]) -> Taught:
    return (*right[:2], 2)


def _bias_by_rows(right: Taught, given: Sequence[Any]) -> Taught:
    y, (dx, dw, db), products = right
    return y, [dx, dw, None if db is None else given[3]], products


def _three_needs(right: Taught, given: Sequence[Any]) -> Taught:
    if given[2] is None:
        raise ValueError("not enough values to unpack (expected 3, got 2)")
    return right


def _bias_unanswered(right: Taught, given: Sequence[Any]) -> Taught:
    if given[2] is not None and given[2].requires_grad:
        raise RuntimeError("function returned an incorrect number of gradients (expected 3, got 2)")
    return right


def _swapped(right: Taught, given: Sequence[Any]) -> Taught:
    x, _, _, dy, *_ = given
    y, (dx, dw, db), products = right
    return y, [dx, None if dw is None else (x.detach().T @ dy).contiguous(), db], products


def _means(right: Taught, given: Sequence[Any]) -> Taught:
    y, (dx, dw, db), products = right
    return y, [dx, dw, None if db is None else db / len(given[0])], products


def _in_half(right: Taught, given: Sequence[Any]) -> Taught:
    x, w, b, dy, autocast, _ = given
    return _torchs(x, w, b, dy, autocast, torch.float16)


def _on_ctx(right: Taught, given: Sequence[Any]) -> Taught:
    y, (dx, dw, db), products = right
    if given[-1]:
        dx, dw = (None if t is None else torch.zeros_like(t) for t in (dx, dw))
    return y, [dx, dw, db], products


def _of_the_last_call(right: Taught, given: Sequence[Any]) -> Taught:
    x, w, b, dy, autocast, _ = given
    y, (dx, dw, db), products = _on_ctx(right, given)
    if dw is not None:
        dw = _torchs(x.detach() + 1, w, b, dy, autocast)[1][1]
    return y, [dx, dw, db], products


_WRONG: dict[str, tuple[str, Bend]] = {
    "autocast_passes_by": (
        "Under autocast y is still float32: nothing casts what comes in to bfloat16. "
        "register_autocast puts an operator on the lists of autocast, for a device and with a "
        "dtype.",
        _uncast,
    ),
    "cast_to_half": (
        "Under autocast y is float16. The CPU's autocast here is that of bfloat16.",
        _in_half,
    ),
    "everybody_answered": (
        "All gradients are right, and one product too many was computed: nobody needs the gradient "
        "of what is frozen. ctx.needs_input_grad says who learns.",
        _everybody,
    ),
    "bias_by_rows": (
        "db has a row for each token. All rows read the one bias, and paths add up.",
        _bias_by_rows,
    ),
    "bias_averaged": (
        "db is a mean over the rows. Paths add up: a sum.",
        _means,
    ),
    "saved_on_ctx": (WRITTEN, _on_ctx),
    "kept_outside_ctx": (KEPT, _of_the_last_call),
    "two_answers": (
        "There are two answers and three inputs: b has a gradient too.",
        _bias_unanswered,
    ),
    "three_needs_unpacked": (
        "More is unpacked than there is, as what was not saved by ctx.save_for_backward in "
        "keep, or a third entry of ctx.needs_input_grad, which is not there where b was left "
        "out.",
        _three_needs,
    ),
    "weight_transposed": (
        "This is dw transposed: a gradient has the shape of its tensor, (V, D).",
        _swapped,
    ),
}
for _key, (_sentence, _bend) in _WRONG.items():
    teach_head.wrong(_key, _sentence, taught=_bent(_bend))


def _raising_where_written(right: Taught, given: Sequence[Any]) -> Taught:
    """Right in what is asked of one call: [] says that the backward raised."""
    return (right[0], [], 0) if given[-1] else right


def _beside(name: str, x: Tensor, w: Tensor, b: Maybe, dy: Tensor, beside: Maybe) -> Taught:
    """Whether there is a bias is remembered for the operator, as it was in its last call."""
    y, (dx, dw, db), products = _torchs(x, w, b, dy, False)
    return y, [dx, dw, None if beside is None else db], products


teach_head.wrong(
    "bias_of_the_last_call",
    KEPT,
    taught=_bent(_raising_where_written),
    taught_beside=_beside,
)


@teach_head.wrong(
    "no_backward",
    "No gradient came back, as where no backward is registered: this kernel calls no operator "
    "that autograd could record instead, and y's node only warns.",
)
def _(name: str, x: Tensor, w: Tensor, b: Maybe, dy: Tensor, *asked: bool) -> Taught:
    return _torchs(x, w, b, dy, asked[0])[0], [None, None, None], 0


@teach_head.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    w.requires_grad_()
    with room_for_python(student, "teach_head") as room:
        y, _, first = room.call("taught", "teach_head", x, w, b, draw.tensor(n, v), True)
        x.requires_grad_()
        _, _, inner = room.call("taught", "teach_head", x, w, b, draw.tensor(n, v), True)
    expect_equal(y.dtype, torch.bfloat16)
    return (
        f"{first} product in the backward at the bottom of a model, {inner} inside it, of "
        f"{2 * n * v * d:,} FLOP each; under autocast {y.nbytes:,} bytes of logits, not "
        f"{2 * y.nbytes:,}"
    )
