"""The clean room: a student's *text* is data, and it is run where no Python of theirs ever ran.

Some questions ask what an answer does, not what it returns: a kernel's loads, what autograd saved,
which collective ran. A process that has run a student's cell can be made to say anything, so its
word is worth nothing. A text can be judged: C++, CUDA, Triton, or Python that `admission` took.

    source = text_of(student, "tiled_head")            # fetched as a value, once
    expect_admitted(source)                            # the check's own rule: what it may say
    with clean_room(student, harness) as room:         # a module of ours: its text goes in
        y = room.call("run_cu", source, x, w, b)       # as student.call: frozen, recorded
        loads = room.call("count", source, x, w, b)
    floor("loads", loads, at_least=x.nbytes // 16)     # fewer: flagged

    with answer_room(student, harness, ["linear_fn"], Rules()) as room:  # Python, by its syntax
        y, saved, answers = room.call("linear_fn", x, w, b, dy)

In grading the room is a fresh process of the jail, with its walls and limits; in a notebook it is a
fresh namespace. `harness` is a module beside the check, or its text: it imports only what a jail
has (torch, numpy, onelayer, the standard library), never a check. The room is a process of one
question and one student, so a harness may keep what it built.

What a harness owes: it hands the text no object of its own, and it names nothing that an admitted
text can name. What the room owes nobody: the text still *runs* beside the harness once it was let
in. Machine code could search the process for a counter; so counts have floors, and a text that
names the machinery is not let in.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from .admission import Rules, line_of, not_admitted, without_trials
from .answer import Raised
from .compare import Wrong
from .flagged import Impossible, NotAdmitted
from .student import Call, NoAnswer, Student, describe
from .verdict import Cause
from .words import text

_STUB = re.compile(r"""raise NotImplementedError\(["'](Lab \d+\.\d+: [^"']*)""")
MAX_TEXT = 50_000
"""Characters of a text."""


def text_of(student: Student, function: str, kind: str = "C++") -> str:
    """The text that the student's `function` returns, which is data from here on: the same one is
    judged, built and run.

    Raises NoAnswer where it does not return, Wrong for what is no text.
    """
    got = student.value_of(function)
    if not isinstance(got, str) or len(got) > MAX_TEXT:
        why = text("returns_text", kind=kind)
        raise Wrong(expected=text("as_text", kind=kind), got=describe(got), why=why)
    return got


@contextmanager
def clean_room(student: Student, harness: ModuleType | str) -> Iterator[Student]:
    """A handle on the functions of `harness`, in a process that has never seen the student's
    Python. What is called there belongs to the student's record of calls."""
    source = harness if isinstance(harness, str) else inspect.getsource(harness)
    with student.clean_room(source) as room:
        yield room


@contextmanager
def answer_room(
    student: Student, harness: ModuleType | str, names: Sequence[str], rules: Rules
) -> Iterator[Student]:
    """A clean room that has been handed the functions `names` of one answer, which is Python.

    In grading their cell goes in as text, by the harness's `take_cell(name, source)`, if `rules`
    admit it. In a notebook the functions themselves are put into the harness's `ANSWERS`, whatever
    they are made of. Raises NoAnswer without one, NotAdmitted.
    """
    with clean_room(student, harness) as room:
        for name in names:
            if student.is_grading:
                room.value_of("take_cell", name, _admitted(student, name, rules))
            else:
                student.hand_over(room, name)
        yield room


def _admitted(student: Student, name: str, rules: Rules) -> str:
    source = without_trials(student.cell_of(name), rules)
    for line, reason in not_admitted(source, rules):
        _expect_no_stub(student, name, source)
        raise NotAdmitted(line, line_of(source, line), reason)
    return source


def _expect_no_stub(student: Student, name: str, source: str) -> None:
    """A stub may use names that only an answer defines: it is blank, not strange."""
    if stub := _STUB.search(source):
        blank = Raised(Cause.BLANK, "NotImplementedError", stub[1])
        student.calls.append(Call(name, (), {}, blank))
        raise NoAnswer(blank)


def floor(what: str, got: int, *, at_least: int) -> None:
    """Raises Impossible for a count that is lower than any machine can reach."""
    if got < at_least:
        raise Impossible(what, got, at_least)
