"""A student's kernel, launched on cases and compared; and what a wrong one is taken for.

A misreading computes what a kernel with one mistake would have stored. A kernel that fails is given
the sentence of the misreading that stores the same in every case, so that no sentence is true of
another mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from autograder.judge import (
    Draw,
    NoAnswer,
    Question,
    Student,
    Wrong,
    expect_close,
    expect_kind,
    is_close,
    text,
    within,
)

from .admitted import Kernel, Refused, admitted
from .memory import Fault
from .programs import Run, launched
from .repairs import MOST, repairs

HOST = "The check reads the kernel and computes what each of its programs does, on the CPU."
TOLERANCE = 4e-5
LAYOUTS = ("contiguous", "transposed", "strided", "offset")
Given = dict[str, Any]
Stored = dict[str, Tensor]
_MISREAD = "misread: "

FAULTS = {
    "out_of_bounds": "A lane that takes part touches memory outside of the tensor. Does the mask "
    "of this line switch off all lanes that hang over the edge of the last tile? And is each index "
    "multiplied by its own stride?",
    "between": "A lane touches memory between the elements of the tensor, which do not lie side by "
    "side: its strides say how far apart they are.",
    "race": "Two programs meet in one element. They run at the same time and in no order: each "
    "element is one program's, or everybody adds to it with tl.atomic_add. Do the mask and the "
    "strides of this line keep each program in its own part?",
    "wrote_input": "This stores to an input. Outputs are the pointers that the page names so.",
    "shapes": "A shape does not fit here. A column of rows[:, None] and a row of words[None, :] "
    "make a tile; a (ROWS,) block beside it needs a [:, None].",
    "not_constexpr": "Blocks have shapes that are known when the kernel is compiled: those of "
    "tl.constexpr parameters. N and V come with each launch.",
    "power_of_two": "The shape of a block is a power of two. What is more than needed is masked.",
    "dtypes": "A dtype does not fit here.",
    "misused": "Triton does not take this expression.",
    "unknown_name": "Nobody has given this name a value. A kernel of this lab knows its "
    "parameters, its own names and tl.",
    "unknown_function": "A kernel calls words of tl, and functions of yours that begin with "
    "@kernel too.",
    "unknown_word": "The kernels of this lab are written in these words of tl: program_id, "
    "arange, load, store, atomic_add, dot, trans, where, sum, max, exp, log and their like.",
    "too_large": "A block or a number is too large.",
    "endless": "The kernel computes far more than it has to. Does every loop move on, and come to "
    "an end?",
}
"""What each fault of a kernel means."""


@dataclass(frozen=True)
class Case:
    """A launch: its grid, what it is given by parameter, and what each output must hold then."""

    grid: tuple[int, ...]
    given: Given
    want: Stored

    @property
    def sizes(self) -> str:
        """In words: the numbers that are not strides, and how x lies in memory."""
        plain = {k: v for k, v in self.given.items() if isinstance(v, int) and "_" not in k}
        said = ", ".join(f"{name} = {value}" for name, value in plain.items())
        first = next(value for value in self.given.values() if isinstance(value, Tensor))
        return f"in a launch with {said}, its first tensor with strides {first.stride()}"


@dataclass(frozen=True)
class Misreading:
    """A mistake: its sentence, and what is stored by whoever makes it. May raise Fault."""

    sentence: str
    stored: Callable[[Given], Stored]


Misreadings = Mapping[str, Misreading]
Launcher = Callable[[Case], Stored]
CasesOf = Callable[[Draw], Iterable[Case]]
Seen = Callable[[Case, Stored], str]


def misread(name: str) -> str:
    """What stands for the kernel of a known mistake, in a wrong answer."""
    return _MISREAD + name


def judge_kernel(
    student: Student,
    name: str,
    draw: Draw,
    cases_of: CasesOf,
    misreadings: Misreadings,
    otherwise: Seen = lambda case, stored: "",
) -> None:
    """Raises Wrong for the first case in which the kernel `name` faults or stores anything else.
    otherwise: what is true of what was stored, where nothing else is known of it."""
    source = expect_kind(student.call("written", name), str, "the text of a kernel")
    cases = _drawn(cases_of, draw)
    known = misreadings.get(source.removeprefix(_MISREAD)) if source.startswith(_MISREAD) else None
    if known is not None:
        with within("", why=known.sentence):
            judged(lambda case: known.stored(case.given), cases)
    else:
        helpers = _helpers(student, source)
        repaired = partial(_repaired, source, helpers)
        judged(launcher(source, helpers), cases, misreadings, repaired, otherwise)


BUILT_IN = frozenset({"float", "range", "min", "max"})


def _helpers(student: Student, source: str) -> dict[str, Kernel]:
    """The student's own functions that a kernel calls, and those that they call. One that is not
    there is left out: whoever calls it is told so. Raises Wrong."""
    found: dict[str, Kernel] = {}
    wanted = list(_parsed(source).called)
    while wanted:
        name = wanted.pop()
        if name in BUILT_IN or name in found:
            continue
        before = len(student.calls)
        try:
            text = student.value_of("written", name)
        except NoAnswer:
            del student.calls[before:]
            continue
        helper = _parsed(text, returns=True) if isinstance(text, str) else None
        if helper is not None and helper.name == name:
            found[name] = helper
            wanted += helper.called
    return found


_kept: dict[CasesOf, tuple[int, int, list[Case]]] = {}


def _drawn(cases_of: CasesOf, draw: Draw) -> list[Case]:
    """The cases of a fresh draw. Those of its last seed are kept: a diagnosis asks for them again,
    once for each known mistake, and no student's code ever holds them."""
    seed, rounds, cases = _kept.get(cases_of, (None, 0, []))
    if (seed, rounds) != (draw.seed, draw.rounds):
        cases = list(cases_of(draw))
        _kept[cases_of] = draw.seed, draw.rounds, cases
    return cases


def _repaired(source: str, helpers: Mapping[str, Kernel], cases: list[Case]) -> str:
    """The sentence of the one change of this kernel with which all cases are right, else ""."""
    for sentence, kernel in islice(repairs(_parsed(source)), MOST):
        try:
            judged(_launcher(kernel, helpers), cases)
        except (Wrong, Refused):
            continue
        return sentence
    return ""


def judged(
    launch: Launcher,
    cases: Iterable[Case],
    misreadings: Misreadings | None = None,
    repaired: Callable[[list[Case]], str] = lambda cases: "",
    otherwise: Seen = lambda case, stored: "",
) -> None:
    """As judge_kernel, of what `launch` stores. repaired: the sentence of a kernel that no
    misreading is like, of the cases, that which failed first."""
    for case in cases:
        stored = _launched(launch, case)
        try:
            with within(f"{case.sizes},"):
                _expect_stored(stored, case)
        except Wrong as wrong:
            why = _sentence(launch, case, cases, misreadings) if misreadings else ""
            why = why or repaired([case, *(one for one in cases if one is not case)])
            why = why or (UNTOUCHED if misreadings and _untouched(launch, case) else "")
            why = why or otherwise(case, stored)
            raise Wrong(
                expected=wrong.expected, got=wrong.got, where=wrong.where, why=why
            ) from None


def run_of(student: Student, name: str, case: Case) -> Run:
    """One launch of a kernel that has passed, for its cost."""
    source = student.call("written", name)
    helpers = _helpers(student, source)
    return launched(admitted(source), case.grid, case.given, tuple(case.want), helpers)


def launcher(source: str, helpers: Mapping[str, Kernel] = MappingProxyType({})) -> Launcher:
    """Launches of the kernel that `source` is, which may call `helpers`. Raises Wrong for a text
    that is none."""
    return _launcher(_parsed(source), helpers)


def _launcher(kernel: Kernel, helpers: Mapping[str, Kernel]) -> Launcher:
    def launch(case: Case) -> Stored:
        try:
            return launched(kernel, case.grid, case.given, tuple(case.want), helpers).tensors
        except Fault as fault:
            fault.args = (f"{fault} ({kernel.at(fault.line)})",)
            raise

    return launch


def _parsed(source: str, *, returns: bool = False) -> Kernel:
    try:
        return admitted(source, returns=returns)
    except Refused as refused:
        where = f"line {refused.line} of the kernel" if refused.line else ""
        raise Wrong(
            expected="a kernel in Triton", got="another text", where=where, why=str(refused)
        ) from None


def _launched(launch: Launcher, case: Case) -> Stored:
    """What a launch stored. Raises Wrong for a fault."""
    try:
        return launch(case)
    except Refused as refused:
        raise Wrong(expected="a kernel", got="another one", why=str(refused)) from None
    except Fault as fault:
        raise Wrong(
            expected="a launch without a fault",
            got=text("error", error=fault.kind, message=str(fault)),
            where=case.sizes,
            why=FAULTS[fault.kind],
        ) from None


def _expect_stored(stored: Stored, case: Case) -> None:
    for output, want in case.want.items():
        with within(f"{output},"):
            expect_close(stored[output], want, tolerance=_tolerance(want))


def _tolerance(want: Tensor) -> float:
    """Of the largest element, or of 1 where that is larger: what is left when two numbers near 1
    have been subtracted is no better."""
    largest = float(want.abs().max())
    return TOLERANCE * max(1.0, largest) / largest if largest else TOLERANCE


def _sentence(
    launch: Launcher, failed: Case, cases: Iterable[Case], misreadings: Misreadings
) -> str:
    """Of the misreading that stores the same as this kernel in every case, and is off in the same
    way in the one that failed, else ""."""
    seen = [_quietly(launch, case) for case in cases]
    wrong = _quietly(launch, failed)
    for known in misreadings.values():
        theirs = (_quietly(lambda case, m=known: m.stored(case.given), case) for case in cases)
        if all(_alike(a, b) for a, b in zip(seen, theirs, strict=True)):
            like = _quietly(lambda case, m=known: m.stored(case.given), failed)
            if _as_far_off(wrong, like, failed.want):
                return known.sentence
    return ""


def _as_far_off(mine: Stored | str, theirs: Stored | str, want: Stored) -> bool:
    """Whether theirs is nearer to mine than mine is to the truth. Small errors of different causes
    are all near to each other."""
    if isinstance(mine, str) or isinstance(theirs, str):
        return True
    return all(
        _apart(mine[k], theirs[k]) <= _apart(mine[k], want[k]) / 2
        for k in want
        if not is_right(mine[k], want[k])
    )


def _apart(a: Tensor, b: Tensor) -> float:
    """The largest difference of elements that are finite in both; infinite where one alone is."""
    both = a.isfinite() & b.isfinite()
    if not bool((a.isfinite() == b.isfinite()).all()):
        return math.inf
    return float((a - b)[both].abs().max()) if bool(both.any()) else 0.0


def is_right(stored: Tensor, want: Tensor) -> bool:
    """Whether an output is within what is allowed."""
    return is_close(stored, want, tolerance=_tolerance(want))


def _quietly(launch: Callable[..., Stored], case: Case) -> Stored | str:
    try:
        stored = launch(case)
    except Fault as fault:  # which lane is met first, hangs on who asks
        return "out_of_bounds" if fault.kind == "between" else fault.kind
    return {name: stored[name] for name in case.want}


def _alike(a: Stored | str, b: Stored | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return all(_near(a[k], b[k]) for k in a)


NOT_FINITE = (
    "Not all of it is finite, and in truth all is: exp is inf from 89 on in float32, and where all "
    "of a row is far below 0 each of its exps is 0. What is taken off before exp is the row's own "
    "largest logit."
)


def far_from_0(logits: Callable[[Given], Tensor]) -> Seen:
    """NOT_FINITE, where something stored is not and an exp of these logits may be the cause."""

    def seen(case: Case, stored: Stored) -> str:
        finite = all(bool(stored[name].isfinite().all()) for name in case.want)
        return "" if finite or bool((logits(case.given).abs() < 80).all()) else NOT_FINITE

    return seen


UNTOUCHED = (
    "Some elements of an output are as they were before the launch: no program stores there. Each "
    "of them is one program's, which stores it whatever its value is."
)
_MARK = 7.25


def _untouched(launch: Launcher, case: Case) -> bool:
    """Whether an output that held NaN still holds, somewhere, what it held before: launched once
    more, with a number in it that nobody computes."""
    given = dict(case.given)
    fresh = [name for name in case.want if bool(given[name].isnan().all())]
    for name in fresh:
        given[name] = given[name].clone().fill_(_MARK)
    stored = _quietly(launch, replace(case, given=given))
    return not isinstance(stored, str) and any(bool((stored[k] == _MARK).any()) for k in fresh)


def _near(a: Tensor, b: Tensor) -> bool:
    """Two orders of summation apart, and not two formulas."""
    finite = b[b.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)


def output(draw: Draw, *shape: int, layout: str = "contiguous") -> Tensor:
    """Memory for an output, full of NaN."""
    fresh = torch.full(shape[::-1] if layout == "transposed" else shape, float("nan"))
    return fresh.T if layout == "transposed" else fresh


def blocks(n: int, size: int) -> int:
    return -(-n // size)


def padded(n: int) -> int:
    """The next power of two."""
    return 1 << max(0, (n - 1).bit_length())


def as_if_contiguous(t: Tensor) -> Tensor:
    """t as somebody reads it who ignores its strides. Raises Fault where that leaves its memory."""
    return _read(t, tuple(torch.empty(t.shape).stride()))


def as_if_exchanged(t: Tensor) -> Tensor:
    """t (rows, columns) as somebody reads it who exchanges its strides. Raises Fault likewise."""
    return _read(t, t.stride()[::-1])


def _read(t: Tensor, strides: tuple[int, ...]) -> Tensor:
    memory = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())[int(t.storage_offset()) :]
    mine = torch.zeros(len(memory), dtype=torch.bool)
    mine[torch.arange(len(memory)).as_strided(t.shape, t.stride())] = True  # a stride may be 0
    last = sum((n - 1) * stride for n, stride in zip(t.shape, strides, strict=True))
    if last >= len(memory) or not bool(mine.as_strided(t.shape, strides).all()):
        raise Fault("out_of_bounds", "strides ignored")
    return memory.as_strided(t.shape, strides, int(t.storage_offset()))


def covered(starts: Iterable[int], width: int, size: int) -> Tensor:
    """How often each of `size` places lies in a tile of this width that begins at one of these
    starts."""
    times = torch.zeros(size)
    for first in starts:
        times[first : first + width] += 1
    return times


def faulty(kind: str) -> Misreading:
    """A mistake that is a fault of the kernel, in every case."""

    def stored(given: Given) -> Stored:
        raise Fault(kind, "a known mistake")

    return Misreading(FAULTS[kind], stored)


def list_wrong(question: Question, misreadings: Misreadings) -> None:
    """Lists each misreading as a known wrong answer."""
    for key, known in misreadings.items():
        question.wrong(key, known.sentence, written=lambda name, key=key: misread(key))


def float16(t: Tensor) -> Tensor:
    """t (float32) rounded to float16: ten bits, as tf32, and few exponents, so that small numbers
    lose more of them."""
    return t.half().float()


TINY, HUGE = 2.0**-20, 2.0**17
"""Numbers of these sizes have four bits in float16 and none, and ten in tf32."""
IN_FLOAT16 = (
    "A float16 holds what was a float32: ten bits behind the point at most, and nothing of a "
    "number below 2.9e-8. Leave the factors as they were loaded."
)


def tf32(t: Tensor) -> Tensor:
    """t (float32) rounded to ten bits behind the point, as a product without "ieee" does it."""
    bits = t.contiguous().view(torch.int32)
    return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32).view(t.shape)
