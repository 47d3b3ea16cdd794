"""The operator around the loops: checks, allocation, dtypes, registration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import (
    LAYOUTS,
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_kind,
    expect_tuple,
    within,
)

from . import lab
from .bench import BUILD_S, explained, needs_compiler, room_for

Maybe = Tensor | None
Answer = tuple[Maybe, str]

_RAISED = {
    "AttributeError": "The source defines no operator `head`: m.def in STABLE_TORCH_LIBRARY.",
    "NotImplementedError": "head has a schema and no kernel for the CPU.",
    "TypeError": "The C++ function takes two tensors and one that may be absent, writes into none "
    "and returns a new one: (Tensor x, Tensor w, Tensor? b=None) -> Tensor. A schema that says "
    "something else makes the dispatcher hand over wrong memory, so it was not called.",
    "b cannot be left out": "Your schema has a `Tensor? b` without a default: b may be None, and "
    "whoever calls has to say so. With b=None, as in 6.2, it can be left out.",
}


class Refused(NamedTuple):
    """Arguments that do not fit, the numbers that the refusal must name, and what goes wrong
    otherwise."""

    x: Tensor
    w: Tensor
    b: Maybe
    numbers: tuple[int, ...]
    key: str


SENTENCES = {
    "features_unchecked": "x and w have different numbers of features, and were not refused: "
    "loops that run all the same go over the end of one of them, if it is the shorter. Check "
    "x.size(1) against w.size(1), and say both.",
    "bias_size_unchecked": "b and w have different numbers of words. Check b->size(0) against "
    "w.size(0), and say both.",
    "x_of_one_dimension": "x has one dimension and was not refused: the strides of a second one do "
    "not exist.",
    "x_of_three_dimensions": "x has three dimensions and was not refused: the loops know of two.",
    "w_of_three_dimensions": "w has three dimensions and was not refused: the loops know of two.",
    "bias_of_two_dimensions": "b has two dimensions and was not refused: the loops know of one.",
    "weight_of_another_dtype": "x and w have two dtypes and were not refused: loops of one "
    "dtype read the bytes of the other as their own, and what comes out of that means nothing.",
    "bias_of_another_dtype": "b has another dtype than w and was not refused: loops of the "
    "dtype of w read its bytes as something else.",
    "complex_has_no_kernel": "complex128 has no kernel here, and was not refused: each of its "
    "elements is two float64, and no loop here reads two.",
    "ints_have_no_kernel": "int64 has no kernel here, and was not refused.",
    "halves_have_no_kernel": "float16 has no kernel here, and was not refused.",
}


@lab.question(
    "head_operator",
    points=5,
    minutes=16,
    difficulty=3,
    hints=(
        "What do the loops take for granted? Each of those facts about x, w and b is one line.",
        "Dimensions first, then sizes, then dtypes; b only if there is one. Allocate with "
        "new_empty of x, so that dtype and device follow. Then one `if` for each dtype, and a "
        "refusal at the end.",
        'STD_TORCH_CHECK(x.size(1) == w.size(1), "x has ", x.size(1), " features, w has ", '
        "w.size(1));",
    ),
    function="run_operator",
    budget_s=BUILD_S,
    host="Its C++ reads the memory of the CPU.",
)
def head_operator(student: Student, draw: Draw) -> None:
    """A C++ operator: checks, allocation, a kernel for each dtype, schema and registration.

    Text that defines head(Tensor x, Tensor w, Tensor? b=None) -> Tensor; (x (N, D), w (V, D), b
    (V,) or None) -> y (N, V), float32 or float64; a RuntimeError for what does not fit.
    """
    needs_compiler()
    with room_for(student, "head_operator", own=False) as room:
        for x, w, b in _welcome(draw):
            _expect_taken(_asked(room, x, w, b), x, w, b)
        for bad in _unwelcome(draw):
            _expect_refused(_asked(room, bad.x, bad.w, bad.b), bad)


def _asked(room: Student, x: Tensor, w: Tensor, b: Maybe) -> tuple[object, str]:
    with explained(_RAISED):
        got = room.call("run_operator", "head_operator", x, w, b)
    y, said = expect_tuple(got, 2, "a result and what was said")
    return y, expect_kind(said, str, "a result and what was said")


def _welcome(draw: Draw) -> Iterator[tuple[Tensor, Tensor, Maybe]]:
    plain = (  # one thing is new in each of these: who refuses it is told which
        (torch.float32, 3, "contiguous", True),
        (torch.float64, 4, "contiguous", True),
        (torch.float32, 2, "contiguous", False),
        (torch.float32, 0, "contiguous", True),
    )
    others = (
        (torch.float32, 5, "transposed", True),
        (torch.float64, 0, "contiguous", True),
        (torch.float32, 7, "strided", True),
        (torch.float64, 4, "expanded", True),
        *((draw.choice((torch.float32, torch.float64)), n, draw.layout(), True) for n in (1, 6)),
    )
    for k, (dtype, n, layout, bias) in enumerate(plain + others):
        v, d = draw.integer(5, 19), draw.integer(3, 17)
        x = draw.tensor(n, d, dtype=dtype, layout=layout)
        # of w and b, so that each comes
        turn = LAYOUTS[max(0, k + 1 - len(plain)) % len(LAYOUTS)]
        w = draw.tensor(v, d, dtype=dtype, layout=turn)
        yield x, w, draw.tensor(v, dtype=dtype, layout=turn) if bias else None


def _unwelcome(draw: Draw) -> Iterator[Refused]:
    """Nothing here makes an operator without checks read or write beyond memory, whichever of its
    kernels it takes: x, w and b are parts of larger ones, and no element of x, from which y is
    allocated, is smaller than one of a kernel that its dtype or that of w could lead to."""
    n, v, d = draw.integer(2, 6), draw.integer(10, 19), draw.integer(20, 29)
    more = draw.integer(1, 9)
    x, w, b = _roomy(draw, n, d), _roomy(draw, v, d), _roomy(draw, v)
    wide, long = _roomy(draw, n, d + more), _roomy(draw, v + more)
    yield Refused(wide, w, b, (d + more, d), "features_unchecked")
    yield Refused(wide, w, None, (d + more, d), "features_unchecked")
    yield Refused(wide[:0], w, b, (d + more, d), "features_unchecked")  # no row, and it fits not
    yield Refused(x, _roomy(draw, v, d + more), b, (d, d + more), "features_unchecked")
    yield Refused(x, w, long, (v + more, v), "bias_size_unchecked")
    yield Refused(x, w, long[:1], (1, v), "bias_size_unchecked")  # and a b of one word is no (V,)
    yield Refused(x, w, long[:0], (0, v), "bias_size_unchecked")  # an empty b is not no b
    yield Refused(x[0], w, b, (), "x_of_one_dimension")
    yield Refused(x, w[:, None, :].expand(v, d, d), b, (), "w_of_three_dimensions")
    yield Refused(x, w, b[None, :].expand(v, v), (), "bias_of_two_dimensions")
    yield Refused(x, w, b[:, None], (), "bias_of_two_dimensions")  # of V elements
    yield Refused(x[:, :, None].expand(n, d, 2), w, b, (), "x_of_three_dimensions")
    deep = w[:, :, None].expand(v, d, 2)  # as many dimensions as x has are not two
    yield Refused(x[:, :, None].expand(n, d, 2), deep, b, (), "x_of_three_dimensions")
    yield Refused(x.double(), w, None, (), "weight_of_another_dtype")
    yield Refused(x[:0], w.double(), None, (), "weight_of_another_dtype")  # no row to be written
    for of_b in (b, b.double()):  # with a bias, whichever of the two it is like
        yield Refused(x[:0], w.double(), of_b, (), "weight_of_another_dtype")
    yield Refused(x.double(), w.double(), b, (), "bias_of_another_dtype")
    yield Refused(x[:0], w, b.double(), (), "bias_of_another_dtype")
    # two dtypes of which neither is float64, or one as wide as float64: two kernels are no two sets
    for other in (torch.int32, torch.bfloat16):
        yield Refused(x[:0], w.to(other), None, (), "weight_of_another_dtype")
        yield Refused(x[:0], w, b.to(other), (), "bias_of_another_dtype")
    yield Refused(x[:0].double(), w.long(), None, (), "weight_of_another_dtype")
    yield Refused(x[:0].double(), w.double(), b.long(), (), "bias_of_another_dtype")
    cx, cw, cb = (t.to(torch.complex128) for t in (x, w, b))
    yield Refused(cx, cw, cb, (), "complex_has_no_kernel")
    yield Refused(x.long(), w.long(), None, (), "ints_have_no_kernel")
    yield Refused(x[:0].half(), w.half(), b.half(), (), "halves_have_no_kernel")  # a float, too


def _roomy(draw: Draw, *shape: int) -> Tensor:
    """A tensor at the beginning of a memory twice as large as anybody could read."""
    return draw.tensor(4 * shape[0], *shape[1:])[: shape[0]]


_OTHER_SHAPE = (
    "y is (N, V): a row for each token, as x has, and a column for each word, of which w has one "
    "in each row."
)


_WRONG_LOOPS = (
    "These numbers come of float64 arguments; those of float32 were right. The loops read the "
    "bytes of one dtype: loops<float> for float32, loops<double> for float64."
)


_TOO_STRICT: dict[str, tuple[str, Callable[[Tensor, Tensor, Maybe], bool]]] = {
    "strides_refused": (
        "Tensors of which not all are contiguous are refused. The loops take any strides.",
        lambda x, w, b: not all(t is None or t.is_contiguous() for t in (x, w, b)),
    ),
    "empty_refused": (
        "N = 0 is refused. An empty batch is a batch: the loops run no turn, and y is (0, V).",
        lambda x, w, b: len(x) == 0,
    ),
    "double_refused": (
        "float64 is refused: one more line picks loops<double>.",
        lambda x, w, b: x.dtype is torch.float64,
    ),
    "bias_demanded": (
        "Without a bias your operator refuses. `Tensor?` says that there may be none.",
        lambda x, w, b: b is None,
    ),
}


def _expect_taken(got: tuple[object, str], x: Tensor, w: Tensor, b: Maybe) -> None:
    want = F.linear(x, w, b)
    y, said = got
    if y is None:
        why = (
            "These arguments fit, and your operator refuses them. Any strides are welcome, and "
            "N = 0, and float64, and no bias."
        )
        why = next((told for told, refused in _TOO_STRICT.values() if refused(x, w, b)), why)
        if "Could not run" in said:
            why = _RAISED["NotImplementedError"]
        raise Wrong(expected=describe(want), got=said, why=why)
    other_shape = isinstance(y, Tensor) and y.shape != want.shape
    double = isinstance(y, Tensor) and y.dtype is want.dtype is torch.float64
    with within("", why=_OTHER_SHAPE if other_shape else ""), saying(_WRONG_LOOPS * double):
        expect_close(y, want)


def _expect_refused(got: tuple[object, str], bad: Refused) -> None:
    y, said = got
    sizes = ", ".join(describe(t) for t in (bad.x, bad.w, bad.b) if t is not None)
    if y is not None:
        why = SENTENCES[bad.key]
        raise Wrong(expected=f"a refusal of {sizes}", got=describe(y), why=why)
    numbers = re.findall(r"\d+", _PLACE.sub(" ", said))
    if missing := [n for n in bad.numbers if str(n) not in numbers]:
        why = (
            f"A refusal that helps says both sizes; {missing[0]} is not in yours. The number of a "
            "line is no size."
        )
        raise Wrong(expected=" and ".join(map(str, bad.numbers)), got=said, why=why)


_PLACE = re.compile(r"\S*\.(?:cpp|cc|h)\b\W*(?:line )?\d*")
"""Where torch says that a refusal happened; its line number is no size."""


def _misfit(x: Tensor, w: Tensor, b: Maybe) -> str:
    """The first of SENTENCES that these arguments call for."""
    found = {
        "x_of_one_dimension": x.dim() < 2,
        "x_of_three_dimensions": x.dim() > 2,
        "w_of_three_dimensions": w.dim() != 2,
        "bias_of_two_dimensions": b is not None and b.dim() != 1,
        "features_unchecked": x.shape[1:2] != w.shape[1:2],
        "bias_size_unchecked": b is not None and len(b) != len(w),
        "weight_of_another_dtype": x.dtype != w.dtype,
        "bias_of_another_dtype": b is not None and b.dtype != w.dtype,
        "complex_has_no_kernel": x.dtype is torch.complex128,
        "ints_have_no_kernel": x.dtype is torch.int64,
        "halves_have_no_kernel": x.dtype is torch.float16,
    }
    return next((key for key, bad in found.items() if bad), "")


def _blind_to(key: str) -> Callable[..., Answer]:
    def run_operator(name: str, x: Tensor, w: Tensor, b: Maybe) -> Answer:
        misfit = _misfit(x, w, b)
        if not misfit:
            return F.linear(x, w, b), ""
        if misfit == key:
            return torch.zeros(len(x), len(w)), ""
        return None, f"head.cpp: {list(x.shape)} {list(w.shape)} {b is not None and list(b.shape)}"

    return run_operator


for _key, _sentence in SENTENCES.items():
    head_operator.wrong(_key, _sentence, run_operator=_blind_to(_key))


def _refusing(doubtful: Callable[[Tensor, Tensor, Maybe], bool]) -> Callable[..., Answer]:
    def run_operator(name: str, x: Tensor, w: Tensor, b: Maybe) -> Answer:
        return (None, "head.cpp: refused") if doubtful(x, w, b) else (F.linear(x, w, b), "")

    return run_operator


for _key, (_sentence, _doubtful) in _TOO_STRICT.items():
    head_operator.wrong(_key, _sentence, run_operator=_refusing(_doubtful))


head_operator.wrong(
    "result_always_float",
    "The result of float64 arguments is float32. Allocate from x, so that its dtype follows.",
    run_operator=lambda name, x, w, b: (F.linear(x, w, b).float(), ""),
)


head_operator.wrong(
    "no_bias",
    "The products are right and the bias is missing.",
    run_operator=lambda name, x, w, b: (F.linear(x, w), ""),
)


@head_operator.wrong(
    "refusal_says_nothing",
    "It refuses, and does not say what it was given. Whoever reads the message wants both sizes.",
)
def _(name: str, x: Tensor, w: Tensor, b: Maybe) -> Answer:
    return (None, "head.cpp: wrong sizes") if _misfit(x, w, b) else (F.linear(x, w, b), "")


@head_operator.cost
def _(student: Student, draw: Draw) -> str:
    with room_for(student, "head_operator", own=False) as room:
        refused = [bad for bad in _unwelcome(draw) if _asked(room, bad.x, bad.w, bad.b)[0] is None]
    return (
        f"{len(refused)} calls with a misfit refused; for those that fit, two kernels and one "
        "allocation are enough, and no copy"
    )
