"""The one known wrong answer that gives the same on the call that failed.

A diagnosis asks that an answer and a known one go on alike, and two answers with one mistake may
part later: one of them has a second mistake, or meets a strange input in another way. What the
failed call shows is true all the same, where a single known sentence fits it and no other does,
and no call before it shows that the answer does not make that mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch

from autograder.judge import KnownAnswer, Question, Said, Student, Wrong
from autograder.judge.student import Call

ROUNDING, RIGHT = 64, 4096
"""How far apart two answers are the same, in eps of the largest value: on the call that failed,
and on one that was judged right, where a sum in another order contradicts nobody."""


@contextmanager
def known_by_this_call(
    question: Question, student: Student, got: Any, *args: Any, **kwargs: Any
) -> Iterator[None]:
    """Inside, a comparison that fails says what the only known sentence for such an answer to the
    question's function, called with `args` and `kwargs`, says; with none, what it says itself. A
    known answer has its sentence, and is not asked for another."""
    try:
        yield
    except Wrong as wrong:
        if not isinstance(student, KnownAnswer):
            before = [call for call in student.calls[:-1] if call.function == question.name]
            known = _only_sentence(question, before, Call(question.name, args, kwargs, got))
            wrong.why = known or wrong.why
        raise


def _only_sentence(question: Question, before: list[Call], failed: Call) -> Said:
    if not _is_finite(failed.outcome):  # many ways lead to a NaN or to infinity
        return ""
    fitting: list[Said] = []
    for known in question.wrong_answers:
        answer = known.functions.get(question.name)
        if answer is None or known.sentence in fitting:
            continue
        if _gives(answer, failed, ROUNDING) and all(_gives(answer, one, RIGHT) for one in before):
            fitting.append(known.sentence)
    return fitting[0] if len(fitting) == 1 else ""


def _gives(answer: Callable[..., Any], call: Call, within: float) -> bool:
    try:
        theirs = answer(*deepcopy(call.args), **deepcopy(dict(call.kwargs)))
    except Exception:  # what a known wrong answer cannot answer, it did not give
        return False
    return _alike(theirs, call.outcome, within)


def _alike(a: Any, b: Any, within: float) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and _close(a, b, within)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_alike(*both, within) for both in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-6 * abs(a)
    return type(a) is type(b) and bool(a == b)


def _close(a: torch.Tensor, b: torch.Tensor, within: float) -> bool:
    finite = a.isfinite()
    if not finite.equal(b.isfinite()):
        return False
    mine, theirs = a.detach()[finite].double(), b.detach()[finite].double()
    eps = torch.finfo(a.dtype).eps if a.is_floating_point() else 0.0
    largest = float(mine.abs().max()) if mine.numel() else 0.0
    return bool(((mine - theirs).abs() <= within * eps * largest).all())


def _is_finite(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, torch.Tensor) or bool(value.isfinite().all())
