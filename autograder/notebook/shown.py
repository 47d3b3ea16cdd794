"""What the face gives back: HTML for a notebook, text for a terminal, both saying the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autograder.judge.verdict import one_line

from . import card


@dataclass(frozen=True, repr=False)
class Shown:
    """`text` and `html` say the same thing."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def sentence(text: str) -> Shown:
    """One sentence and nothing else."""
    text = one_line(text)
    return Shown(text, card.card(f"<p>{card.prose(text)}</p>", label="note"))


def calmly(work: Callable[[], Shown], call: str) -> Shown:
    """What `work` shows, or one sentence that says why it cannot: never a traceback of ours.

    `call` is the call as the student wrote it.
    """
    try:
        return work()
    except KeyboardInterrupt:
        return sentence(f"{call} was stopped. Nothing was stored.")
    except BaseException as error:
        reason = f"{type(error).__name__}: {told(error)}".removesuffix(": ")
        return sentence(f"{call} failed on our side, not yours ({reason}). Nothing was counted.")


def told(error: BaseException) -> str:
    """The first line of an error's message; some errors cannot even say what they are."""
    try:
        return (str(error).strip().splitlines() or [""])[0][:400]
    except Exception:
        return ""
