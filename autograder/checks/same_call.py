"""The one known wrong answer that gives the same on the call that failed.

A diagnosis asks that an answer and a known one go on alike, and two answers with one mistake may
part later: one of them has a second mistake, or meets a strange input in another way. What the
failed call shows is true all the same, where a single known sentence fits it and no other does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch

from autograder.judge import KnownAnswer, Question, Said, Student, Wrong


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
            known = _only_sentence(question, question.name, got, args, kwargs)
            wrong.why = known or wrong.why
        raise


def _only_sentence(
    question: Question, function: str, got: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Said:
    fitting: list[Said] = []
    for known in question.wrong_answers:
        if function in known.functions and known.sentence not in fitting:
            given, named = deepcopy(args), deepcopy(dict(kwargs))
            try:
                theirs = known.functions[function](*given, **named)
            except Exception:  # what a known wrong answer cannot answer, it did not give
                continue
            if _alike(theirs, got):
                fitting.append(known.sentence)
    return fitting[0] if len(fitting) == 1 else ""


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and _close(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-6 * abs(a)
    return type(a) is type(b) and bool(a == b)


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Within rounding of the largest value. Many ways lead to a NaN or to infinity: they say
    nothing about which was taken."""
    mine, theirs = a.detach().double(), b.detach().double()
    if not bool(mine.isfinite().all() and theirs.isfinite().all()):
        return False
    eps = torch.finfo(a.dtype).eps if a.is_floating_point() else 0.0
    largest = float(mine.abs().max()) if mine.numel() else 0.0
    return bool(((mine - theirs).abs() <= 64 * eps * largest).all())
