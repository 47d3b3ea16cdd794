"""`predict("key")` and `reveal("key", actual)`: a guess before the cell, and beside its result.

Nothing here waits: a notebook that runs from top to bottom without a reader shows the question,
then the answer, and says that there was no guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from autograder.judge import content, say

from . import kernel
from .card import Shown, calmly, card, pill, prose, quiet, sentence
from .guess import Plain, is_right, plain, typed, written
from .guess_lines import lines_for
from .guess_widget import make_widget
from .progress_store import Kept, Prediction, Progress, progress_store

_NO_GUESS: Any = object()
_revealed: dict[str, tuple[Plain, float]] = {}
"""What this kernel has shown, by key, and how far off a guess at it may be: after Run All somebody
clicks on a choice whose answer is there."""


@dataclass(frozen=True, repr=False)
class Prompt(Shown):
    """A question that waits for a guess; `widget` is None where nobody could click."""

    widget: Any = None

    def _repr_mimebundle_(self, **_: Any) -> Any:
        """The widget, with its text and its list beside it for pages that have no kernel."""
        twins = {"text/plain": self.text, "text/html": self.html}
        if self.widget is None:
            return twins, {}
        data, metadata = self.widget._repr_mimebundle_()
        return {**data, **twins}, metadata


def predict(key: str, choices: Sequence[Any] = (), *, guess: Any = _NO_GUESS) -> Shown:
    """Asks for a guess before the next cell runs, and remembers the first one.

    Without `choices` the guess is a number or a word. In Jupyter a click stores it; anywhere else
    `predict("key", choices=[...], guess=153_600)` does.
    """
    return calmly(lambda: _predict(key, list(choices), guess), f'predict("{key}")')


def _predict(key: str, choices: list[Any], guess: Any) -> Shown:
    offered = [plain(choice) for choice in choices]
    if guess is _NO_GUESS:
        kept = progress_store().read()
        return _prompt(key, offered, kept)
    said = plain(guess) if offered or not isinstance(guess, str) else typed(guess)
    if offered and not any(is_right(said, choice) for choice in offered):
        listed = ", ".join(map(_said, offered))
        return sentence(say("no_choice", guess=_said(said), choices=listed))
    return _prompt(key, offered, store(key, said))


def store(key: str, said: Plain) -> Kept:
    """Remembers a guess: the first one for good, the last one beside it."""

    def edit(progress: Progress) -> Progress:
        before = progress.predictions.get(key)
        first = Prediction(said, said, kernel.unit())
        changed = first if before is None else replace(before, last=said)
        return progress.with_prediction(key, changed)

    return progress_store().change(edit)


def said_in_words(prediction: Prediction | None) -> str:
    """What the reader said, and whether they have changed their mind since."""
    if prediction is None:
        return ""
    first, last = _said(prediction.first), _said(prediction.last)
    if first == last:
        return say("said", guess=first)
    return say("said_first", first=first, last=last)


def _said(guess: Plain) -> str:
    """A guess as a reader sees it, a choice in words in the reader's language."""
    return content(written(guess))


def _prompt(key: str, offered: list[Plain], kept: Kept) -> Prompt:
    said = said_in_words(kept.progress.predictions.get(key))
    labels = list(map(_said, offered))
    how = _how(key, offered)
    asked = say("guess")
    lines = [asked, *(f"  ( ) {label}" for label in labels)]
    items = "".join(f"<li>{escape(label)}</li>" for label in labels)
    body = f"<p>{escape(asked)}</p>" + (items and f'<ul class="ol-choices">{items}</ul>')
    body += f"<p>{escape(said)}</p>" if said else quiet(how)
    text = "\n".join([*lines, f"  {said or how}", *([f"  {kept.note}"] if kept.note else [])])
    html = card(body + quiet(kept.note), label=say("label.guess"), role="group")
    return Prompt(text, html, _widget(key, offered, labels, said))


def _how(key: str, offered: list[Plain]) -> str:
    options = ", choices=[...]" if offered else ""
    return say("keep_guess", call=f'predict("{key}"{options}, guess=...)')


def _widget(key: str, offered: list[Plain], labels: list[str], said: str) -> Any:
    if not kernel.listens():
        return None

    def hear(number: int, text: str) -> str:
        if offered and not 0 <= number < len(offered):
            return ""
        kept = store(key, offered[number] if offered else typed(text))
        if key in _revealed:
            _, *said = _compared(key, *_revealed[key])
            return " ".join(filter(None, said))
        return f"{said_in_words(kept.progress.predictions[key])} {kept.note}".strip()

    return make_widget(labels, said, hear)


def reveal(key: str, actual: Any, *, within: float = 0.0) -> Shown:
    """Shows the guess beside the result, and remembers whether the first guess was right.

    `within` is the relative error that a guessed number may have: 0.1 accepts 10% off.
    """
    return calmly(lambda: _reveal(key, plain(actual), within), f'reveal("{key}", ...)')


def _reveal(key: str, actual: Plain, within: float) -> Shown:
    _revealed[key] = actual, within
    if key not in progress_store().read().progress.predictions:
        return _unguessed(actual, lines_for(key))
    return _comparison(*_compared(key, actual, within))


def _compared(key: str, actual: Plain, within: float) -> tuple[str, str, str, str]:
    """The mark of the first guess at `key`, which is remembered; the comparison in words; what is
    behind this guess; and what the store has to say."""
    prediction = progress_store().read().progress.predictions[key]
    right = is_right(prediction.first, actual, within=within)

    def edit(progress: Progress) -> Progress:
        return progress.with_prediction(key, replace(progress.predictions[key], right=right))

    kept = progress_store().change(edit)
    mark = "right" if right else "surprise"
    told = say(f"guessed.{mark}", guess=_said(prediction.first), actual=_said(actual))
    if prediction.last != prediction.first:
        told += " " + say("guessed_later", guess=_said(prediction.last))
    line = "" if right else content(lines_for(key).get(written(prediction.first), ""))
    return mark, told, line, kept.note


def _unguessed(actual: Plain, lines: Mapping[str, str]) -> Shown:
    """The answer alone. The site finds it by its class, and puts beside it what its reader said;
    of the `lines` for wrong guesses, which nobody sees here, it shows the reader's."""
    text = say("no_guess", actual=_said(actual))
    told = f'<p><span class="ol-answer">{prose(text)}</span></p>'
    for guess, line in lines.items():
        if guess != written(actual):
            shown = f'data-guess="{escape(content(guess))}" hidden>{prose(content(line))}'
            told += f'<p class="ol-line" {shown}</p>'
    return Shown(text, card(told, label=say("label.note")))


def _comparison(mark: str, told: str, line: str, note: str) -> Shown:
    head = f'<div class="ol-head">{pill(mark)}<span>{escape(told)}</span></div>'
    why = f"<p>{prose(line)}</p>" if line else ""
    html = card(head + why + quiet(note), label=say("label.guessed"), mark=mark)
    text = "\n  ".join(filter(None, [f"{say(f'mark.{mark}')}   {told}", line, note]))
    return Shown(text, html)
