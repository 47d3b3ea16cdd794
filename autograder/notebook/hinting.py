"""`hint("name")`: one more hint with each call, the last one is the worked line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from typing import Any

from autograder.checks import UnknownQuestion, find
from autograder.judge import Lab, Question, content, say

from .card import Shown, calmly, card, fold, prose, quiet, sentence
from .checking import question_name
from .progress_store import MAX_HINTS, Progress, progress_store

KINDS = ("nudge", "idea", "worked_line")


def hint(name: Any = "") -> Shown:
    """Shows one more hint to the question `name`. Hints cost no points; how many were used is
    remembered."""
    name = question_name(name)
    return calmly(lambda: hinted(name), f'hint("{name}")')


def hinted(name: str, labs: Iterable[Lab] | None = None) -> Shown:
    """Like `hint`, with the questions of `labs`."""
    try:
        question = find(name, labs)
    except UnknownQuestion as unknown:
        return sentence(str(unknown))

    def one_more(progress: Progress) -> Progress:
        asked = progress.asked(name)
        return progress.with_question(name, replace(asked, hints=min(asked.hints + 1, MAX_HINTS)))

    kept = progress_store().change(one_more)
    return _shown(question, kept.progress.asked(name).hints, kept.note)


def _shown(question: Question, used: int, note: str) -> Shown:
    """The first `used` hints: the earlier ones closed, the last one open."""
    hints = [inspect.cleandoc(content(text)) for text in question.hints[:used]]
    title = f"{content(question.title)} {question.name}"
    rest = _rest(question, used)
    lines = [f"{title}   {say('hint_of', used=used, hints=len(question.hints))}"]
    folds = ""
    for number, (kind, text) in enumerate(zip(KINDS, hints, strict=False), start=1):
        summary = say("hint_number", number=number, kind=say(f"hint.{kind}"))
        lines += [f"  {summary}", *(f"    {line}" for line in text.splitlines())]
        shown = f"<pre>{escape(text)}</pre>" if kind == KINDS[-1] else f"<p>{prose(text)}</p>"
        folds += fold(summary, shown, is_open=number == used)
    head = f'<div class="ol-head"><code class="ol-name">{escape(question.name)}</code>'
    head += f'<span class="ol-quiet">{escape(content(question.title))}</span></div>'
    text = "\n".join([*lines, f"  {rest}", *([f"  {note}"] if note else [])])
    body = head + folds + quiet(rest) + quiet(note)
    return Shown(text, card(body, label=say("label.hints", question=question.name), role="group"))


def _rest(question: Question, used: int) -> str:
    left = len(question.hints) - used
    if left <= 0:
        return say("last_hint")
    return say("next_hint", question=question.name, kind=say(f"hint.{KINDS[used]}"))
