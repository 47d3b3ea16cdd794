"""`check("name")`: asks one question about the student's own function, and shows the verdict."""

from __future__ import annotations

import builtins
import io
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from typing import Any

# torch imports this, for a second, at the first use of any dispatch mode. Some checks use one; the
# second belongs to the import of a setup cell, not to the first answer.
import torch._dynamo  # noqa: F401

from autograder.checks import UnknownQuestion, lab_of
from autograder.judge import (
    PUBLIC,
    Cause,
    Lab,
    LocalStudent,
    Numbers,
    Packed,
    Question,
    Reply,
    Said,
    Verdict,
    answer,
    ask,
    content,
    say,
    text,
)
from autograder.judge.torch_settings import as_started, one_thread
from autograder.judge.verdict import NOT_YET, one_line

from .card import Shown, calmly, card, fold, pill, prose, quiet, rows, sentence
from .left_behind import left_behind
from .progress_store import MARKS, Asked, Progress, progress_store
from .scored import scored

SEEDS = 1_000_000
KEPT = 2_000
"""Characters of what a function prints. A check calls it many times, and the last call is the one
that went wrong: so the end of them is shown, behind a fold."""


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """A verdict as shown; `verdict` is the judge's own."""

    verdict: Verdict


def check(name: Any = "", *, seed: int | None = None, **numbers: Any) -> Shown:
    """Asks the question `name` with fresh inputs and shows the verdict.

    A verdict names its seed: `check("name", seed=8841)` asks with the same inputs again. numbers:
    those of the question's text, where a student's notebook has others than the public lab.
    """
    name = name if type(name) is str else question_name(name)
    names = sys._getframe(1).f_globals
    shown = calmly(partial(checked, name, names, seed=seed, numbers=numbers), f'check("{name}")')
    if os.environ.get("NBGRADER_EXECUTION") and isinstance(shown, Checked):
        return scored(shown, shown.verdict)
    return shown


def question_name(name: Any) -> str:
    """The name that somebody meant: `check(my_function)` is as good as `check("my_function")`."""
    return name if type(name) is str else str(getattr(name, "__name__", name))


def checked(
    name: str,
    names: Mapping[str, Any],
    *,
    seed: int | None = None,
    labs: Iterable[Lab] | None = None,
    numbers: Numbers = PUBLIC,
) -> Shown:
    """Like `check`, of the functions in `names`, with the questions of `labs`."""
    try:
        lab = lab_of(name, labs)
    except UnknownQuestion as unknown:
        return sentence(str(unknown))
    question = lab.questions[name]
    if numbers and numbers not in question.variants:
        written = ", ".join(f"{number} = {value!r}"[:60] for number, value in numbers.items())
        return sentence(say("no_such_numbers", name=name, numbers=written))
    drawn = secrets.randbelow(SEEDS) if seed is None else seed
    student, printed = NotebookStudent(names), Printed()
    with redirect_stdout(printed), one_thread(), as_started():
        verdict = ask(question, student, seed=drawn, numbers=numbers)
    if student.replaced or verdict.mark == NOT_YET:
        verdict = _plainly(verdict, question, student)
    notes: list[Said] = [_store(verdict)]
    passed = verdict.cause is Cause.PASSED
    if passed and (missing := left_behind(lab, name, names)):
        notes += [text("left_behind", name=missing[0])]
    return _shown(verdict, printed.text, notes)


@dataclass(eq=False, repr=False)
class NotebookStudent(LocalStudent):
    """The student's functions in a notebook, with Python's own functions put back after each call:
    one that replaces `len` would take the kernel with it. `replaced` names them."""

    replaced: list[str] = field(default_factory=list, init=False)

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        asked = self.namespace.get(function)
        names, replaced = vars(builtins), self.replaced
        before = dict(names)

        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return asked(*args, **kwargs)  # type: ignore[misc]
            finally:  # nothing but methods here: any built-in may be the one that was replaced
                for name in before:
                    if names.get(name) is not before[name]:
                        replaced.append(name)
                names.update(before)

        namespace = {function: guarded} if callable(asked) else {}
        return list(map(partial(answer, namespace, function), requests))


class Printed(io.TextIOBase):
    """A stand-in for stdout that remembers its last KEPT characters and counts the rest."""

    tail = ""
    length = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.length += len(text)
        self.tail = (self.tail + text[-KEPT:])[-KEPT:]
        return len(text)

    def close(self) -> None:
        """A student's function may close stdout; the next call prints all the same."""

    @property
    def text(self) -> str:
        if not self.tail.strip():
            return ""
        left_out = self.length - len(self.tail)
        head = f"{say('left_out', characters=left_out)}\n" if left_out else ""
        return head + "\n".join(map(one_line, self.tail.splitlines()))


def _plainly(verdict: Verdict, question: Question, student: NotebookStudent) -> Verdict:
    """The verdict in the words that help a student who has no answer yet, or broke Python."""
    if student.replaced:
        why = text("replaced", name=student.replaced[0])
        return replace(verdict, cause=Cause.REPLACED, points=0.0, sentence=why, cost="")
    if verdict.cause is Cause.MISSING:
        verdict = replace(verdict, asked="", expected="", got="", where="", next_step="")
        return replace(verdict, sentence=text("run_it", function=question.name))
    effort = text("effort", minutes=question.minutes, difficulty=question.difficulty)
    return replace(verdict, remarks=(effort,), next_step=text("fill_in"))


def _store(verdict: Verdict) -> str:
    """Remembers the last verdict; returns the store's note. A fault of ours leaves what was known,
    and so does a cell that has not run."""
    if verdict.mark not in MARKS or verdict.cause is Cause.MISSING:
        return ""

    def edit(progress: Progress) -> Progress:
        before = progress.asked(verdict.question)
        checks = before.checks + (verdict.cause is not Cause.BLANK)
        asked = Asked(verdict.mark, verdict.points, checks, before.hints)
        return progress.with_question(verdict.question, asked)

    return progress_store().change(edit).note


def _shown(verdict: Verdict, printed: str, notes: Iterable[Said]) -> Checked:
    text, head = str(verdict), say("printed")
    if printed:
        lines = "\n".join(f"    {line}" for line in printed.splitlines())
        text += f"\n  {head}:\n{lines}"
    said = [*map(str, filter(None, notes))]
    text = "\n  ".join([text, *said])
    label = f"{verdict.question}: {say(f'mark.{verdict.mark}')}, {verdict.score}"
    body = _html(verdict) + (fold(head, f"<pre>{escape(printed)}</pre>") if printed else "")
    body += "".join(map(quiet, said))
    return Checked(text, card(body, label=label, mark=verdict.mark), verdict)


def _html(verdict: Verdict) -> str:
    head = (
        f'<div class="ol-head">{pill(verdict.mark)}'
        f'<code class="ol-name">{escape(verdict.question)}</code>'
        f'<span>{verdict.score}</span><span class="ol-quiet ol-far">{escape(verdict.place)}'
        "</span></div>"
    )
    if verdict.cause is Cause.PASSED:
        return head + rows([("cost", verdict.cost)])
    difference = {name: getattr(verdict, name) for name in ("asked", "expected", "got", "where")}
    why = verdict.explanation
    said = f'<p class="ol-say">{prose(why)}</p>' if why else ""
    likely = _step("why", f'<span class="ol-say">{prose(content(verdict.likely))}</span>')
    return head + rows(difference.items()) + likely * bool(verdict.likely) + said + _next(verdict)


def _next(verdict: Verdict) -> str:
    if not verdict.next_step:
        return ""
    call = f'<code>hint("{escape(verdict.question)}")</code>'
    step = prose(content(verdict.next_step))
    return _step("next", f"{step} &ensp;{call}")


def _step(name: str, html: str) -> str:
    return f"<dl><dt>{say(f'row.{name}')}</dt><dd>{html}</dd></dl>"
