"""Sentences for answers of which nothing else is known: what Python's error means here, or which
rule a wrong value breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor

from autograder.judge import NoAnswer, Wrong, text

MIXED_DTYPES = (
    "RuntimeError: expected m1 and m2 to have the same dtype",
    "RuntimeError: expected scalar type",
    "RuntimeError: addmv input tensors must have the same dtype",
    "RuntimeError: self and mat2 must have the same dtype",
    "RuntimeError: index_add_(): self",
)
"""How torch begins where a product or a sum has two dtypes."""
NOTHING_TO_JOIN = (
    "RuntimeError: stack expects a non-empty",
    "ValueError: torch.cat(): expected a non-empty",
)
"""How it begins where torch.stack or torch.cat has an empty list."""


@contextmanager
def explaining(sentences: Mapping[str, str]) -> Iterator[None]:
    """Inside, an answer that raises an error of `sentences` (by the name of its class, or by that
    and how its message begins) is wrong with that sentence. All others, and a stub that is not
    answered, pass as they are."""
    try:
        yield
    except NoAnswer as none:
        raised = none.raised
        said = f"{raised.error}: {raised.message}"
        fitting = [
            why
            for begins, why in sentences.items()
            if begins == raised.error or (":" in begins and said.startswith(begins))
        ]
        if raised.kind != "raised" or not fitting:
            raise
        where, why = replace(raised, lines=raised.lines[-2:]).where, fitting[0]
        raise Wrong(expected=text("no_error"), got=raised.told, where=where, why=why) from None


@contextmanager
def saying(sentence: str) -> Iterator[None]:
    """Inside, an answer that is wrong without a sentence is wrong with this one."""
    try:
        yield
    except Wrong as wrong:
        wrong.why = wrong.why or sentence
        raise


@contextmanager
def explaining_nan(got: Any, sentence: str) -> Iterator[None]:
    """Inside, an answer of several tensors with nan in one of them is wrong with this sentence, if
    there is one: more than that there is nan in it."""
    try:
        yield
    except Wrong as wrong:
        each = got if isinstance(got, (list, tuple)) else ()
        if any(isinstance(t, Tensor) and bool(t.isnan().any()) for t in each):
            wrong.why = sentence or wrong.why
        raise
