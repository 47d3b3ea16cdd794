"""What the lab's bench says when it cannot run an answer, in sentences; and what an answer in C++
may consist of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor

from autograder.checks.cpp_admission import expect_admitted
from autograder.judge import (
    Call,
    Cause,
    GraderFault,
    NoAnswer,
    NotAdmitted,
    Raised,
    Rules,
    Student,
    Wrong,
    answer_room,
    clean_room,
    expect_close,
    expect_tuple,
    floor,
    text,
    text_of,
)
from onelayer.custom_op.cpp_compiler import compiler

from . import harness
from .heads import head

BUILD_S = 120.0  # a compiler takes two seconds on a quiet machine; grading machines are not
COMPILING = {
    "CompileError": "The compiler does not take it. The lines it shows are yours.",
    "undefined symbol": "The text compiles, but the function that the page names is not in it: "
    'keep its name and `extern "C"`.',
    "your kernel ended its process": "The kernel ended its process: by memory that is nobody's "
    "where the signal is SIGSEGV, by a whole number divided by 0 where it is SIGFPE. Which "
    "index leaves its tensor? Without rows there is not even a first one.",
    "your kernel runs on": "The kernel does not end: which loop never comes to its end?",
}
CHANGED = (
    "The operator makes another tensor of its argument: `z.data = ...` gives it other memory, and "
    "the views of the old one see nothing; requires_grad_() gives it a gradient. A kernel may "
    "write numbers alone, and only where its schema says so."
)
KEPT = (
    "This backward belongs to the first of two calls, and went on with what the second one kept. "
    "ctx is of one call; whatever stands outside of it is of the last."
)


class ChangedArgument(Exception):
    """What the harness raises by this name, for the models of answers: nothing is imported from
    there."""


_LIBRARIES = re.compile(
    r"\b(?:at|c10|torch|thrust|cub)::|<(?:torch|ATen|c10|thrust|cub)/|\bPy\w+|\bdlopen\b|\bdlsym\b"
    r"|\bcu?blas\w*"
)
_STUB = re.compile(r'#error "(Lab [^"]*)"')
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
        raise Wrong(expected=text("no_error"), got=raised.told, why=why) from None


@contextmanager
def room_for(student: Student, name: str, *, own: bool = True) -> Iterator[Student]:
    """A clean room that holds the text of the answer `name`.

    own: afterwards, the same text must be one that computes by itself: no library does it.
    Raises NoAnswer, Wrong, NotAdmitted.
    """
    source = cpp_of(student, name)
    with clean_room(student, harness) as room:
        room.value_of("take", name, source, student.is_grading)
        yield room
        if own and student.is_grading:
            _expect_nothing_foreign(source, room.value_of("asked_for", name))
    if own:
        _expect_own(source)


def cpp_of(student: Student, name: str) -> str:
    """The admitted text of the answer `name`. A stub in it is no answer yet."""
    source = text_of(student, name)
    if stub := _STUB.search(source):
        blank = Raised(Cause.BLANK, "NotImplementedError", stub[1])
        student.calls.append(Call(name, (), {}, blank))
        raise NoAnswer(blank)
    expect_admitted(student, source)
    return source


def _expect_own(source: str) -> None:
    if used := _LIBRARIES.search(_COMMENTS.sub(" ", source)):
        why = "This kernel is to be yours from the first load to the last store: no library in it."
        raise Wrong(expected="C++ that computes by itself", got=f"it uses {used[0]!r}", why=why)


_ARITHMETIC = re.compile(
    r"(?:a?(?:sin|cos|tan)h?|atan2|sincos|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|i?logb|pow|sqrt|cbrt"
    r"|hypot|fma|fmod|fmin|fmax|fdim|fabs|erfc?|[lt]gamma|l?l?r(?:ound|int)|round(?:even)?|trunc"
    r"|floor|ceil|nearbyint|rint|ldexp|frexp|modf|scalbl?n|copysign|nextafter|remainder|remquo)[fl]?"
    r"|malloc|calloc|aligned_alloc|free|abort|(?:__)?printf(?:_chk)?|puts|putchar"
    r"|mem(?:cpy|move|set|cmp)|_Z(?:N?K?S|[nd]|T|N9__gnu_cxx|N10__cxxabi)\w*|__cxa_\w+|_Unwind_\w+"
    r"|__gxx_personality_v0|__stack_chk_fail|__assert_fail|_ITM_\w+|__gmon_start__|__tls_get_addr"
    r"|_GLOBAL_OFFSET_TABLE_"
)
"""Names that C++ which computes by itself may leave to the libraries of C and C++."""


def _expect_nothing_foreign(source: str, asked: Any) -> None:
    """Raises NotAdmitted where its machine code calls what is not arithmetic: however a text
    declares a function of somebody else's, the linker is told its name."""
    for name in asked if isinstance(asked, (list, tuple)) else ():
        if not _ARITHMETIC.fullmatch(str(name)):
            lines = source.splitlines()
            at = next((k for k, line in enumerate(lines, 1) if str(name) in line), 1)
            raise NotAdmitted(at, lines[at - 1], "it calls what is not arithmetic")


RULES = Rules(
    given=frozenset({"head_kernel", "cap_kernel", "top_kernel"}),
    attributes=frozenset({"ns", "define", "impl"}),
    registers=frozenset(
        f"torch.library.register_{what}" for what in ("autograd", "autocast", "fake", "kernel")
    ),
)
"""Of the answers in Python: an operator is taught through torch.library, and it is their own."""


def room_for_python(student: Student, name: str) -> AbstractContextManager[Student]:
    """A clean room that holds the answer `name`. Raises NoAnswer, NotAdmitted."""
    return answer_room(student, harness, [name], RULES)


WIDEST_LOAD_BYTES = 16
"""Of one thread: a float4."""


def counts_of(counted: Any, x: Tensor, w: Tensor, b: Tensor) -> tuple[int, int]:
    """(loads, stores) of a run whose own y is right. Raises Impossible for fewer than the bytes
    that have to come and go, in the widest loads that there are."""
    loads, stores, _, y = expect_tuple(counted, 4, "loads, stores, where and y")
    expect_close(y, head(x, w, b))
    floor("The number of loads", loads, at_least=_widest(x, w, b))
    floor("The number of stores", stores, at_least=_widest(y))
    return loads, stores


def _widest(*tensors: Tensor) -> int:
    return math.ceil(sum(t.numel() * t.itemsize for t in tensors) / WIDEST_LOAD_BYTES)
