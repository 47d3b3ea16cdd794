"""`with answered():` around what a lab does with an answer of the student's.

Where the answer is still blank, or is wrong in a way that stops the cell, one sentence stands there
and not a traceback, and the cells below it run all the same: Run All Cells reaches `progress()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autograder.judge import Cause, say
from autograder.judge.answer import raised_by
from autograder.judge.verdict import one_line

from .card import told


@contextmanager
def answered() -> Iterator[None]:
    """Inside, an exception is told and goes no further; an interrupt does."""
    try:
        yield
    except Exception as error:
        raised = raised_by(error)
        if raised.kind is Cause.BLANK:
            print(say("answer_first", number=raised.stub.removeprefix("Lab ")))
        else:
            print(one_line(say("answer_stopped", error=told(error))))
