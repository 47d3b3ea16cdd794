"""What the lab's bench says when it cannot run an answer, in sentences; and what an answer in C++
may consist of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from autograder.judge import GraderFault, NoAnswer, Student, Wrong, expect_kind
from onelayer.custom_op.cpp_compiler import compiler

BUILD_S = 120.0  # a compiler takes two seconds on a quiet machine; grading machines are not
COMPILING = {
    "CompileError": "The compiler does not take it. The lines it shows are yours.",
    "undefined symbol": "The text compiles, but the function that the page names is not in it: "
    'keep its name and `extern "C"`.',
    "and not text": "The function of this cell returns the C++, as text. Is there a `return`?",
}
_LIBRARIES = re.compile(
    r"\b(?:at|c10|torch|thrust|cub)::|<(?:torch|ATen|c10|thrust|cub)/|\bPy\w+|\bdlopen\b|\bdlsym\b"
    r"|\bcu?blas\w*"
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)


def needs_compiler() -> None:
    """Raises GraderFault where this machine has no C++ compiler: that is no fault of an answer."""
    try:
        compiler()
    except RuntimeError as missing:
        raise GraderFault(str(missing)) from None


@contextmanager
def explained(sentences: Mapping[str, str]) -> Iterator[None]:
    """Inside, an answer that raises is wrong with the sentence of its error: of some words of its
    message, of the word with which it begins ("race: line 14 ..."), or of the error's class. Others
    pass as they are."""
    try:
        yield
    except NoAnswer as none:
        raised, known = none.raised, {**COMPILING, **sentences}
        word = raised.message.partition(":")[0]
        part = next((said for said in known if " " in said and said in raised.message), "")
        why = known.get(part) or known.get(word) or known.get(raised.error)
        if raised.kind != "raised" or why is None:
            raise
        raise Wrong(expected="a value", got=str(raised), why=why) from None


def expect_own_text(student: Student, name: str) -> None:
    """The answer `name` must be text that computes by itself: no library does it."""
    text = expect_kind(student.call(name), str, "C++ as text")
    if used := _LIBRARIES.search(_COMMENTS.sub(" ", text)):
        why = "This kernel is to be yours from the first load to the last store: no library in it."
        raise Wrong(expected="C++ that computes by itself", got=f"it uses {used[0]!r}", why=why)
