"""`check("name")`: asks one question about the student's own function, and shows the verdict."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from html import escape
from typing import Any

# torch imports this, for a second, at the first use of any dispatch mode. Some checks use one; the
# second belongs to the import of a setup cell, not to the first answer.
import torch._dynamo  # noqa: F401

from autograder.checks import UnknownQuestion, find
from autograder.judge import Lab, Question, Raised, State, Verdict, ask

from . import card, kernel
from .guarded import NotebookStudent
from .printed import Printed
from .progress_record import STATES, Asked, Progress
from .progress_store import progress_store
from .scored import nbgrader_runs, scored
from .shown import Shown, calmly, sentence

SEEDS = 1_000_000


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """A verdict as shown; `verdict` is the judge's own."""

    verdict: Verdict


def check(name: Any = "", *, seed: int | None = None) -> Shown:
    """Asks the question `name` with fresh inputs and shows the verdict.

    A verdict names its seed: `check("name", seed=8841)` asks with the same inputs again.
    """
    name = question_name(name)
    names = kernel.students_names(sys._getframe(1))
    shown = calmly(lambda: checked(name, names, seed=seed), f'check("{name}")')
    if nbgrader_runs() and isinstance(shown, Checked):
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
) -> Shown:
    """Like `check`, of the functions in `names`, with the questions of `labs`."""
    try:
        question = find(name, labs)
    except UnknownQuestion as unknown:
        return sentence(str(unknown))
    student, printed = NotebookStudent(names), Printed()
    fresh = secrets.randbelow(SEEDS) if seed is None else seed
    with redirect_stdout(printed):
        verdict = ask(question, student, seed=fresh)
    verdict = _plainly(verdict, question, student)
    note = _store(verdict) if student.calls and not _outcome(student, "missing") else ""
    return _shown(verdict, question, printed.text, note)


def _plainly(verdict: Verdict, question: Question, student: NotebookStudent) -> Verdict:
    """The verdict in the words that help a student who has no answer yet, or broke Python."""
    if student.replaced:
        why = f"Your function replaced Python's own `{student.replaced[0]}`; it was put back."
        return replace(verdict, state=State.FAIL, points=0.0, sentence=why, cost="")
    if missing := _outcome(student, "missing"):
        why = f"{missing.message[0].upper()}{missing.message[1:]}. {RUN}"
        return _without_answer(verdict, why, "")
    if verdict.blank and _outcome(student, "blank"):
        effort = f"About {question.minutes} minutes, difficulty {question.difficulty} of 5."
        return _without_answer(verdict, f"{verdict.sentence} {effort}", FILL)
    return verdict


RUN = "Run the cell that defines it, then this one again."
FILL = "Fill in the cell above and run both. A nudge, if you want one:"


def _without_answer(verdict: Verdict, why: str, next_step: str) -> Verdict:
    nothing: dict[str, Any] = {"asked": "", "expected": "", "got": "", "where": "", "cost": ""}
    return replace(verdict, **nothing, state=State.FAIL, sentence=why, next_step=next_step)


def _outcome(student: NotebookStudent, kind: str) -> Raised | None:
    """What the last call raised, if it is of this kind."""
    last = student.calls[-1].outcome if student.calls else None
    return last if isinstance(last, Raised) and last.kind == kind else None


def _store(verdict: Verdict) -> str:
    """Remembers the last verdict. Returns the store's note."""
    if verdict.word not in STATES:
        return ""  # a fault of ours leaves what was known

    def edit(progress: Progress) -> Progress:
        before = progress.asked(verdict.question)
        checks = before.checks + (not verdict.blank)
        asked = Asked(verdict.word, verdict.points, checks, before.hints)
        return progress.with_question(verdict.question, asked)

    return progress_store().change(edit).note


def _shown(verdict: Verdict, question: Question, printed: str, note: str) -> Checked:
    text = str(verdict)
    if printed:
        text += "\n  Your function printed:\n" + "".join(
            f"    {line}\n" for line in printed.splitlines()
        ).rstrip("\n")
    text += f"\n  {note}" if note else ""
    label = f"{verdict.question}: {verdict.word}, {verdict.score}"
    body = _html(verdict, question, printed) + card.quiet(note)
    return Checked(text, card.card(body, label=label, word=verdict.word), verdict)


def _html(verdict: Verdict, question: Question, printed: str) -> str:
    head = (
        f'<div class="ol-head">{card.pill(verdict.word)}'
        f'<code class="ol-name">{escape(verdict.question)}</code>'
        f'<span>{verdict.score}</span><span class="ol-quiet ol-far">{escape(verdict.place)}'
        "</span></div>"
    )
    difference = [
        ("asked", verdict.asked),
        ("expected", verdict.expected),
        ("got", verdict.got),
        ("where", verdict.where),
    ]
    said = f'<p class="ol-say">{card.prose(verdict.sentence)}</p>' if verdict.sentence else ""
    body = card.rows(difference) + said + _next(verdict) + card.rows([("cost", verdict.cost)])
    if printed:
        body += card.fold("Your function printed", f"<pre>{escape(printed)}</pre>")
    return head + body


def _next(verdict: Verdict) -> str:
    if not verdict.next_step:
        return ""
    call = f'<code>hint("{escape(verdict.question)}")</code>'
    return f"<dl><dt>next</dt><dd>{card.prose(verdict.next_step)} &ensp;{call}</dd></dl>"
