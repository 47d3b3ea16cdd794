"""An operator that opcheck finds no fault with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import (
    Draw,
    Student,
    Wrong,
    WroteInput,
    describe,
    expect_close,
    expect_kind,
    expect_tuple,
    within,
)

from . import lab
from .bench import CHANGED, KEPT, ChangedArgument, explained, room_for_python

Maybe = Tensor | None
Said = dict[str, str]
Answer = tuple[Tensor, Tensor, Maybe, Said]

TESTS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)
ROUNDED = 0.02  # of the largest value: bfloat16 keeps 8 bits
DY = 3
"""The place of dy among the arguments of `tempered`."""
_ABOUT = {
    "test_schema": "The operator does something that its schema does not say: it writes into "
    "z, or returns z itself or a view of it.",
    "test_autograd_registration": "z learns, and the operator has no backward that "
    "autograd would call.",
    "test_faketensor": "The fake kernel says something else than the real one returns: shape, "
    "strides, dtype, or whether it is z itself; or it raises, or there is none.",
    "test_aot_dispatch_dynamic": "The compiled run differs from the eager one, or raises: look "
    "at the fake kernel and the backward.",
}
_RAISED = {
    "ChangedArgument": CHANGED,
    "RuntimeError": "The definition, the operator or its backward raised: the message says what. A "
    "backward answers for z, and with None for t.",
    "unsupported ScalarType": "Something that was called does not know this dtype, as numpy does "
    "not know bfloat16. z / t takes every floating dtype.",
    "AttributeError": "Something was asked for that is not there: the message says what. The "
    "library defines an operator `temper`, and ctx has what `setup_context` gave it.",
}


@lab.question(
    "clean_temper",
    points=4,
    minutes=10,
    difficulty=3,
    hints=(
        "Run opcheck for t = 1 and t = 2, for float64, for a transposed z, and for one that "
        "requires a gradient. Which test fails where?",
        "The kernel writes into z (div_) and returns z itself for t = 1: the schema promises "
        "neither. The fake forgets dtype and strides: empty_like keeps them. And nobody "
        "registered a backward.",
        "torch.library.register_autograd(op, lambda ctx, dy: (dy / ctx.t, None), "
        "setup_context=keep, lib=library)",
    ),
    function="tempered",
    budget_s=60.0,
    host="Its operator has a kernel for the CPU alone.",
)
def clean_temper(student: Student, draw: Draw) -> None:
    """temper(z, t) = z / t, clean under opcheck: schema, fake, backward.

    A torch.library.Library -> nothing; z (N, V), any dtype and layout, t a float -> a new (N, V).
    """
    plans = [
        (2.0, torch.float32, "contiguous", False),
        (1.0, torch.float32, "contiguous", False),
        (3.0, torch.float64, "contiguous", False),
        (3.0, torch.bfloat16, "contiguous", False),  # numpy has none
        (-0.5, torch.float32, "transposed", False),  # the sign of t is one of z / t
        (-2.0, torch.float32, "contiguous", True),
        (1.0, torch.float32, "contiguous", True),
        (1e-9, torch.float32, "strided", False),  # a cold one is a t too: none is lifted
        # never whole, and no float32: what keeps t in one is off in dz
        (draw.integer(1, 4) + 0.1, torch.float64, "transposed", True),
    ]
    with room_for_python(student, "clean_temper") as room:
        for t, dtype, layout, learns in plans:
            z = draw.tensor(draw.integer(2, 5), draw.integer(6, 9), dtype=dtype, layout=layout)
            z[0, 0] = 0.0  # a logit like any other; y / z is not 1 / t there
            dy = draw.tensor(*z.shape, dtype=dtype) if learns else None
            _expect_clean(_tempered(room, z, t, dy), z, t, dy)


_INTO_DY = (
    "The backward wrote into dy, which belongs to autograd: dy / t is a new tensor, dy.div_(t) is "
    "not."
)


def _tempered(room: Student, z: Tensor, t: float, dy: Maybe) -> Any:
    try:
        with explained(_RAISED):
            return room.call("tempered", "clean_temper", z, t, dy)
    except WroteInput as wrote:
        if wrote.argument != DY:
            raise
        raise Wrong(expected="dy as it was", got="dy changed", why=_INTO_DY) from None


_OF_T = "y = z / t, so dz = dy / t, with the t of this forward, whatever number it is."
_NAN = (
    "dz is NaN in some place, and dy / t is in none: it does not read z, in which a logit may be "
    "0, as one is here."
)
_WHOLE = "All numbers of y are whole. A division of logits rounds nothing off: z / t."


def _expect_clean(got: Any, z: Tensor, t: float, dy: Maybe) -> None:
    y, after, dz, said = expect_tuple(got, 4, "(y, z, dz, what opcheck says)")
    said = expect_kind(said, dict, "what opcheck says")
    with saying(_WHOLE * (_is_whole(y) and not _is_whole(z / t))):
        expect_close(y, z / t, tolerance=ROUNDED if z.dtype is torch.bfloat16 else None)
    why = "The operator wrote into z. Whoever passed it in now holds other logits."
    with within("in z afterwards", why=why):
        expect_close(after, z, tolerance=0.0)  # also who puts back what was there, has written
    if dy is not None and dz is not None:  # first: opcheck calls NaN different from NaN
        is_nan = isinstance(dz, Tensor) and bool(dz.isnan().any())
        with within("in dz", why=_NAN * is_nan), saying(_OF_T):
            expect_close(dz, dy / t)
    for test in TESTS:
        if said.get(test) != "SUCCESS":
            about = f"opcheck's {test}, t = {t}, {describe(z)}"
            raise Wrong(expected="SUCCESS", got=str(said.get(test)), where=about, why=_ABOUT[test])
    if dy is not None and dz is None:
        raise Wrong(expected=describe(dy), got="None", where="in dz", why=_ABOUT[TESTS[1]])


def _is_whole(y: Any) -> bool:
    return isinstance(y, Tensor) and y.is_floating_point() and bool((y == y.round()).all())


def _clean(z: Tensor, t: float, dy: Maybe) -> Answer:
    return z / t, z.clone(), None if dy is None else dy / t, dict.fromkeys(TESTS, "SUCCESS")


def _but(answer: Answer, **failed: str) -> Answer:
    """`answer`, with these tests of opcheck failed."""
    said = answer[3] | {f"test_{test}": error for test, error in failed.items()}
    first = next(at for at, test in enumerate(TESTS) if said[test] != "SUCCESS")
    return (*answer[:3], said | dict.fromkeys(TESTS[first + 1 :], "after a fault"))


def _tempering(bend: Callable[[Answer, Tensor, float, Maybe], Answer]) -> Callable[..., Answer]:
    def tempered(name: str, z: Tensor, t: float, dy: Maybe = None) -> Answer:
        return bend(_clean(z, t, dy), z, t, dy)

    return tempered


def _writes(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    y, _, dz, said = right
    return _but((y, z / t, dz, said), schema="RuntimeError")


def _returns_z(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    wrong = {"schema": "RuntimeError", "faketensor": "MetadataMismatchError"}
    return _but(right, **wrong) if t == 1.0 else right


def _fake_in_float(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    alike = z.dtype is torch.float32
    return right if alike else _but(right, faketensor="MetadataMismatchError")


def _fake_contiguous(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    return right if z.is_contiguous() else _but(right, faketensor="MetadataMismatchError")


def _fake_with_gaps(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    dense = z.is_contiguous() or z.T.is_contiguous()
    return right if dense else _but(right, faketensor="MetadataMismatchError")


def _no_fake(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    error = "UnsupportedOperatorException"
    return _but(right, faketensor=error, aot_dispatch_dynamic=error)


def _no_backward(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    """The parts of the kernel are recorded in its place, with a warning, so dz is right."""
    error = "AssertionError"
    wrong = {"autograd_registration": error, "aot_dispatch_dynamic": error}
    return right if dy is None else _but(right, **wrong)


def _grows(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    y, after, _, said = right
    return y, after, None if dy is None else dy * t, said


def _of_the_last_call(right: Answer, z: Tensor, t: float, dy: Maybe) -> Answer:
    y, after, _, said = right
    return y, after, None if dy is None else dy / (t + 1), said


_WRONG = {
    "writes_into_z": (
        "The operator writes into z and its schema promises not to: div_ is div in place, also "
        "on what z.contiguous() gives where z lies so already.",
        _writes,
    ),
    "returns_z_itself": (
        "For t = 1 the operator returns z itself, or a view of it. A result that shares memory "
        "with an argument would have to be declared, and this schema stays: return a new tensor.",
        _returns_z,
    ),
    "fake_in_float32": (
        "For float64 the fake kernel says float32. `torch.empty_like(z)` keeps the dtype.",
        _fake_in_float,
    ),
    "fake_contiguous": (
        "For a transposed z the fake kernel says other strides than the real one returns. z / t "
        "keeps the strides of z, and `torch.empty_like(z)` says so.",
        _fake_contiguous,
    ),
    "fake_with_gaps": (
        "For a z with gaps between its elements the fake kernel says other strides than the real "
        "one returns. z / t is new memory without gaps, and `torch.empty_like(z)` says so.",
        _fake_with_gaps,
    ),
    "no_fake": (
        "There is no fake kernel: whatever runs without data stops at this operator.",
        _no_fake,
    ),
    "no_backward": (
        "No backward is registered. dz is right only because autograd recorded what the kernel "
        "calls inside, with a warning. test_autograd_registration says so, once z requires a "
        "gradient.",
        _no_backward,
    ),
    "backward_multiplies": (
        "dz is dy * t. y = z / t, so dz = dy / t; opcheck compares two runs of your backward, and "
        "cannot know that both are wrong.",
        _grows,
    ),
    "kept_outside_ctx": (KEPT, _of_the_last_call),
}
for _key, (_sentence, _bend) in _WRONG.items():
    clean_temper.wrong(_key, _sentence, tempered=_tempering(_bend))


@clean_temper.wrong("changes_what_z_is", CHANGED)
def _(name: str, z: Tensor, t: float, dy: Maybe = None) -> Answer:
    raise ChangedArgument("z has other memory, another shape or another requires_grad now")


@clean_temper.cost
def _(student: Student, draw: Draw) -> str:
    z = draw.tensor(32, 600)
    with room_for_python(student, "clean_temper") as room:
        y, _, _, said = room.call("tempered", "clean_temper", z, 2.0, draw.tensor(32, 600))
    return f"{len(said)} tests of opcheck passed; {y.nbytes:,} new bytes for each call, z untouched"
