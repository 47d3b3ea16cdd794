"""How far a product of matrices may be off, derived from what is rounded.

Higham, Accuracy and Stability of Numerical Algorithms, chapter 3: after K roundings of relative
size u, a term of a sum is off by at most gamma = K u / (1 - K u).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import LAYOUTS, Draw, Student, Wrong, describe, expect_close

from . import lab

_RAISED = {"ZeroDivisionError": "With K u = 1 there is no bound any more: it is inf."}
SHORT = ("bfloat16", "float16")
ONE_EACH = "Each element of z has a bound of its own: a tensor (N, V) comes back, of inf too."
HALF_OF_EPS = (
    "`eps` is the distance from 1 to the next number. Rounding to nearest is off by at most "
    "half of it."
)
NO_BOUND = (
    "From K u = 1 on nothing is promised, and the bound is inf: 1 - K u is 0 there or below, and a "
    "bound below 0 promises the impossible."
)
STILL_A_BOUND = "From K u = 1 on nothing is promised: the bound of each element is inf."

NOT_NAN = (
    "Where A is 0 this is nan, as inf * 0 and 0 / 0 are, and the bound is still inf. Say so "
    "from K u = 1 on, whatever A is."
)


@lab.question(
    "tolerance",
    points=5,
    minutes=10,
    difficulty=4,
    hints=(
        "Which roundings does a term x_k w_k go through until it is in z? What does each of them "
        "do to it, at most?",
        "With gamma = K u / (1 - K u) and A = the sum of |x_k w_k|, the accumulator is off by at "
        "most gamma A. Then it is rounded to `out`, if that is another dtype: by at most v times "
        "what it holds, and that is at most |z| + gamma A.",
        "A = x.double().abs() @ w.double().abs().T; u = torch.finfo(accumulator).eps / 2",
    ),
)
def tolerance(student: Student, draw: Draw) -> None:
    """How far each element of x @ w.T may be off, computed in `accumulator` and kept in `out`.

    x (N, K), w (V, K), accumulator and out: dtypes -> (N, V) float64.
    """
    cases = [
        (5, 7, 33, "bfloat16", "float32", "bfloat16"),
        (4, 3, 150, "bfloat16", "bfloat16", "bfloat16"),
        (3, 4, 300, "bfloat16", "bfloat16", "bfloat16"),
        (6, 2, 64, "float32", "float32", "float32"),
        (2, 5, 1, "float64", "float64", "float32"),
        (3, 2, 0, "float16", "float32", "float16"),
        (0, 4, 8, "float32", "float32", "float32"),
        (4, 6, 40, "float16", "float16", "float32"),
        (2, 3, 256, "bfloat16", "bfloat16", "float32"),
    ]
    for _ in draw.cases(2):
        n, v, k = draw.integer(1, 9), draw.integer(10, 19), draw.integer(20, 99)
        kept = draw.choice(SHORT)
        cases.append(
            (n, v, k, kept, draw.choice((kept, "float32")), draw.choice((kept, "float32")))
        )
    cases += [
        (3, 5, 300, "float32", "float32", "bfloat16"),
        (4, 3, 40, "float32", "bfloat16", "bfloat16"),
        (3, 4, 20, "float16", "float16", "bfloat16"),  # two names, and as many bytes
        (4, 3, 20, "bfloat16", "bfloat16", "float16"),
        (3, 5, 20, "float64", "float64", "float64"),
        (5, 3, 20, "float32", "float32", "float64"),
        (2, 4, 20, "float32", "float64", "float32"),
        (4, 0, 8, "float32", "float32", "bfloat16"),
    ]
    for n, v, k, given, accumulator, out in cases:
        dtypes = [getattr(torch, name) for name in (given, accumulator, out)]
        x = draw.tensor(n, k, dtype=dtypes[0], layout=draw.choice(LAYOUTS))
        w = draw.tensor(v, k, dtype=dtypes[0], layout=draw.choice(LAYOUTS))
        if k >= 256:  # a word of which A is 0: where nothing is promised its bound is inf too
            w = torch.cat([w[:-1], 0 * w[-1:]])
        with explaining(_RAISED):
            got = student.call("tolerance", x, w, dtypes[1], dtypes[2])
        with known_by_this_call(tolerance, student, got, x, w, *dtypes[1:]):
            size = x.double().abs() @ w.double().abs().T
            why = _of_gamma(got, x, w, *dtypes[1:]) or _of_the_last(got, x, w, *dtypes[1:])
            with saying(why):
                _expect(got, bound(x, w, dtypes[1], dtypes[2]), size)


def _expect(got: Any, want: Tensor, size: Tensor) -> None:
    """Close; an inf is wanted as itself. size: A."""
    if not isinstance(got, Tensor) or got.shape != want.shape:
        raise Wrong(expected=f"{tuple(want.shape)} float64", got=describe(got), why=ONE_EACH)
    if got.dtype == want.dtype and bool(want.isinf().any()):
        return _expect_inf(got, size)
    if not bool(want.isfinite().all()):
        return expect_close(got, want.nan_to_num(posinf=0.0))
    return expect_close(got, want, tolerance=1e-9)


def _expect_inf(got: Tensor, size: Tensor) -> None:
    """Everywhere: K u is the same for all elements."""
    wrong = got != math.inf
    if not bool(wrong.any()):
        return
    place = wrong.nonzero()[0].tolist()
    of_nothing = bool(got[wrong].isnan().all()) and not bool(size[wrong].any())
    why = NO_BOUND if bool((got < 0).any()) else STILL_A_BOUND
    raise Wrong(
        expected="inf",
        got=f"{float(got[tuple(place)]):.6g}",
        where=f"at {place}, one of {int(wrong.sum())} wrong of {got.numel()}",
        why=NOT_NAN if of_nothing else why,
    )


def _of_gamma(got: Any, x: Tensor, w: Tensor, accumulator: torch.dtype, out: torch.dtype) -> str:
    """How many times its gamma is the right one, where one gamma explains all of it; "" else."""
    u, v = (torch.finfo(one).eps / 2 for one in (accumulator, out))
    ku, v = x.shape[1] * u, 0.0 if out == accumulator else v
    size, z = x.double().abs() @ w.double().abs().T, (x.double() @ w.double().T).abs()
    fits = isinstance(got, Tensor) and got.shape == z.shape
    if not fits or not z.numel() or not bool(size.all()) or not 0 < ku < 1:
        return ""
    times = (got.double() - v * z) / (size * (1 + v)) * (1 - ku) / ku
    mean = float(times.mean())
    if not mean > 0 or not bool(((times - mean).abs() < 1e-4 * mean).all()):
        return ""
    return (
        "gamma is K u / (1 - K u), with u = eps / 2 of the accumulator and K the terms of a sum. "
        f"Here it is {mean:.4g} times that."
    )


def _of_the_last(got: Any, x: Tensor, w: Tensor, accumulator: torch.dtype, out: torch.dtype) -> str:
    """What an answer has for the last rounding beside gamma A, where that is no rounding error of
    float64; "" where it is, or nothing is rounded there."""
    want, summed = bound(x, w, accumulator, out), bound(x, w, accumulator, accumulator)
    if not isinstance(got, Tensor) or got.shape != want.shape or not want.numel():
        return ""
    last = want - summed
    if not bool((got.isfinite() & last.isfinite() & (last > 1e-9 * want)).all()):
        return ""
    times = (got.double() - summed) / last
    if got.double().allclose(summed, rtol=1e-12, atol=0.0):
        return (
            f"The last rounding is missing: {accumulator} and {out} are two dtypes, and it is "
            "counted wherever they differ."
        )
    place = divmod(int((times - 1).abs().argmax()), want.shape[1])
    return (
        f"Take gamma * A off this, and {float(times[place]):.4g} times v * (|z| + gamma * A) is "
        f"left at {[*place]}. Look at each of A, z and v: v is eps / 2 of `out`."
    )


def bound(
    x: Tensor,
    w: Tensor,
    accumulator: torch.dtype,
    out: torch.dtype,
    *,
    whole_eps: bool = False,
    one_rounding: bool = False,
    typical: bool = False,
    linear: bool = False,
    of_the_sum: bool = False,
    short: bool = False,
    out_forgotten: bool = False,
    out_always: bool = False,
    out_of_the_exact: bool = False,
    swapped: bool = False,
    negative: bool = False,
) -> Tensor:
    """The bound, and ways to get it wrong."""
    if swapped:
        accumulator, out = out, accumulator
    k = 1.0 if one_rounding else math.sqrt(x.shape[1]) if typical else float(x.shape[1])
    u, v = (torch.finfo(one).eps / (1 if whole_eps else 2) for one in (accumulator, out))
    a, b = (x, w) if short else (x.double(), w.double())
    z = (a @ b.T).double()
    size = z.abs() if of_the_sum else (a.abs() @ b.abs().T).double()
    if k * u == 1 or (k * u > 1 and not negative and not linear):
        return torch.full_like(z, math.inf)
    error = (k * u if linear else k * u / (1 - k * u)) * size
    if (out == accumulator and not out_always) or out_forgotten:
        return error
    return error + v * (z.abs() if out_of_the_exact else z.abs() + error)


def _wrong(name: str, sentence: str, **how: bool) -> None:
    def answer(x: Tensor, w: Tensor, accumulator: torch.dtype, out: torch.dtype) -> Tensor:
        return bound(x, w, accumulator, out, **how)

    tolerance.wrong(name, sentence, tolerance=answer)


_wrong(
    "whole_eps",
    HALF_OF_EPS,
    whole_eps=True,
)
_wrong(
    "one_rounding",
    "K is missing: a term goes through its product's rounding and those of up to K - 1 additions.",
    one_rounding=True,
)
_wrong(
    "square_root",
    "This grows with the root of K, as errors of random signs typically do. A bound holds also "
    "where all of them have one sign.",
    typical=True,
)
_wrong(
    "of_the_sum",
    "This is relative to |z|. Terms that cancel leave a small z, and their errors stay: sum the "
    "|x_k w_k|.",
    of_the_sum=True,
)
_wrong(
    "first_order",
    "K u without the 1 - K u below it: errors of errors are left out. With K = 150 in bfloat16 "
    "that is more than half of the bound.",
    linear=True,
)
_wrong("negative", NO_BOUND, negative=True)
_wrong(
    "in_their_own_dtype",
    "The bound itself was computed in the dtype of x, with its errors. Make x and w float64 first.",
    short=True,
)
_wrong(
    "out_forgotten",
    "The last rounding is missing, from the accumulator to `out`: in bfloat16 it is the largest.",
    out_forgotten=True,
)
_wrong(
    "out_always",
    "A rounding to `out` was counted where `out` is the accumulator's own dtype: nothing is "
    "rounded there.",
    out_always=True,
)
_wrong(
    "out_of_the_exact",
    "The last rounding is v times what the accumulator holds, not v |z|: it may be as large as |z| "
    "plus the bound so far.",
    out_of_the_exact=True,
)
_wrong(
    "dtypes_swapped",
    "The K roundings happen in the accumulator's dtype, and the last one in `out`: here it is the "
    "other way round.",
    swapped=True,
)


def _of_another(x: Tensor, w: Tensor, accumulator: torch.dtype, out: torch.dtype, k: int) -> Tensor:
    """The bound for sums of k terms, where there are x.shape[1]."""
    u, v = (torch.finfo(one).eps / 2 for one in (accumulator, out))
    a, b = x.double(), w.double()
    z, size = (a @ b.T).abs(), a.abs() @ b.abs().T
    if k * u >= 1:
        return torch.full_like(z, math.inf)
    error = k * u / (1 - k * u) * size
    return error if out == accumulator else error + v * (z + error)


tolerance.wrong(
    "one_addition_less",
    "A term goes through its product's rounding and up to K - 1 additions': K in all. Here it is "
    "one less.",
    tolerance=lambda x, w, accumulator, out: _of_another(
        x, w, accumulator, out, max(0, x.shape[1] - 1)
    ),
)
tolerance.wrong(
    "rows_for_terms",
    "K is the number of terms of a sum, x.shape[1]. Here it is the number of rows.",
    tolerance=lambda x, w, accumulator, out: _of_another(x, w, accumulator, out, x.shape[0]),
)
tolerance.wrong(
    "dtype_of_x",
    "The products and additions are rounded to the accumulator's dtype, not to that of x.",
    tolerance=lambda x, w, accumulator, out: (
        bound(x, w, x.dtype, out, out_always=True)
        if out != accumulator
        else bound(x, w, x.dtype, x.dtype)
    ),
)


def _with(
    change: Callable[..., Tensor],
) -> Callable[[Tensor, Tensor, torch.dtype, torch.dtype], Tensor]:
    """An answer from K, z and A, and the two roundings: v is 0 where none is counted."""

    def answer(x: Tensor, w: Tensor, accumulator: torch.dtype, out: torch.dtype) -> Tensor:
        a, b = x.double(), w.double()
        v = 0.0 if out == accumulator else torch.finfo(out).eps / 2
        facts: dict[str, Any] = {"k": x.shape[1], "u": torch.finfo(accumulator).eps / 2, "v": v}
        facts |= {"z": a @ b.T, "size": a.abs() @ b.abs().T}
        return change(**facts)

    return answer


def _summed(*, k: float, u: float, size: Tensor) -> Tensor:
    return k * u / (1 - k * u) * size if k * u < 1 else torch.full_like(size, math.inf)


def _eps_of_the_sum(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=2 * u, size=size)
    return error + v * (z.abs() + error) if v else error


def _eps_of_out(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + 2 * v * (z.abs() + error) if v else error


def _plus_below(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    gamma = k * u / (1 + k * u) if k * u < 1 else math.inf
    error = torch.full_like(size, math.inf) if k * u >= 1 else gamma * size
    return error + v * (z.abs() + error) if v else error


def _power(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = torch.full_like(size, math.inf) if k * u >= 1 else ((1 + u) ** k - 1) * size
    return error + v * (z.abs() + error) if v else error


def _signed_sum(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=z) if k * u < 1 else torch.full_like(z, math.inf)
    return error + v * (z.abs() + error) if v else error


def _signed_z(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + v * (z + error) if v else error


def _out_of_the_terms(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + v * size if v else error


def _out_of_the_terms_and_error(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + v * (size + error) if v else error


def _only_to_a_shorter(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + v * (z.abs() + error) if v > u else error


def _larger_of_both(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return torch.maximum(error, v * (z.abs() + error)) if v else error


def _last_alone(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return v * (z.abs() + error) if v else error


def _inf_by_the_last_rounding(*, k: int, u: float, v: float, z: Tensor, size: Tensor) -> Tensor:
    error = _summed(k=k, u=u, size=size)
    return error + v * (z.abs() + error) if k * v < 1 else torch.full_like(z, math.inf)


tolerance.wrong(
    "twice_the_sum",
    "K u is twice too large. `eps` is twice what rounding to nearest is off by, and a term "
    "goes through K roundings, not 2 K.",
    tolerance=_with(_eps_of_the_sum),
)
tolerance.wrong("eps_of_out", HALF_OF_EPS, tolerance=_with(_eps_of_out))
tolerance.wrong(
    "only_to_a_shorter",
    "A last rounding to a longer dtype was left out. It is counted wherever the names differ.",
    tolerance=_with(_only_to_a_shorter),
)
tolerance.wrong(
    "larger_of_both",
    "The larger of the two errors was taken. Both can happen, and in one direction: they add up.",
    tolerance=_with(_larger_of_both),
)
tolerance.wrong(
    "last_rounding_alone",
    "The roundings of the sum are missing: only the last one, to `out`, is here.",
    tolerance=_with(_last_alone),
)
tolerance.wrong(
    "plus_below",
    "1 + K u stands below K u. Errors of errors make the bound larger: it is 1 - K u.",
    tolerance=_with(_plus_below),
)
tolerance.wrong(
    "power",
    "This is (1 + u)^K - 1. It is less than gamma = K u / (1 - K u), which is asked for.",
    tolerance=_with(_power),
)
tolerance.wrong(
    "signed_sum",
    "A sum of x_k w_k with their signs is z, and may be below 0. A is the sum of their "
    "absolute values.",
    tolerance=_with(_signed_sum),
)
tolerance.wrong(
    "signed_z",
    "Where z is below 0, its rounding was taken off the bound. The rounding is as large as "
    "|z| says.",
    tolerance=_with(_signed_z),
)
tolerance.wrong(
    "out_of_the_terms",
    "The last rounding is of the one number that the accumulator holds, at most |z| + gamma "
    "A. Here it is as large as that of A.",
    tolerance=_with(_out_of_the_terms),
)
tolerance.wrong(
    "inf_by_the_last_rounding",
    "The bound is inf where K u reaches 1, and u is the accumulator's. The last rounding "
    "happens once, not K times.",
    tolerance=_with(_inf_by_the_last_rounding),
)
tolerance.wrong(
    "out_of_the_terms_and_error",
    "The last rounding is of the one number that the accumulator holds, at most |z| + gamma A. "
    "Here A stands where |z| does.",
    tolerance=_with(_out_of_the_terms_and_error),
)
tolerance.wrong(
    "words_for_terms",
    "K is the number of terms of a sum, x.shape[1]. Here it is the number of words.",
    tolerance=lambda x, w, accumulator, out: _of_another(x, w, accumulator, out, w.shape[0]),
)
tolerance.wrong(
    "dtype_of_out",
    "The products and additions are rounded to the accumulator's dtype, not to that of `out`.",
    tolerance=lambda x, w, accumulator, out: (
        bound(x, w, out, out, out_always=True)
        if out != accumulator
        else bound(x, w, accumulator, out)
    ),
)
tolerance.wrong(
    "inputs_rounded",
    "x and w were rounded to the accumulator's dtype. They are taken as they are: products "
    "and additions are rounded.",
    tolerance=lambda x, w, accumulator, out: bound(
        x.to(accumulator), w.to(accumulator), accumulator, out
    ),
)


@tolerance.cost
def _(student: Student, draw: Draw) -> str:
    x, w = (draw.tensor(n, 64, dtype=torch.bfloat16) for n in (32, 600))
    parts = []
    for accumulator in (torch.float32, torch.bfloat16):
        allowed = student.call("tolerance", x, w, accumulator, torch.bfloat16)
        size = (x.double().abs() @ w.double().abs().T).mean()
        parts.append(f"{float(allowed.mean() / size):.2%} in {str(accumulator)[6:]}")
    return "of the sum of |x w|, a bfloat16 product of 64 terms may be off by " + ", ".join(parts)
