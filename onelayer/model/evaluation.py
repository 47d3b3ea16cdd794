"""Two numbers that say how well a model knows the grammar, both on sentences of your choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onelayer.drawing.words import say

from .gpt import GPT, complete, padded
from .grammar import Sentence, determined, encode


@dataclass(frozen=True)
class Scores:
    """What the course promises of its model on sentences that training never saw: 0 to 1."""

    next_word: float
    translation: float

    def __str__(self) -> str:
        return say(
            "next word {next_word:.2%}, translation {translation:.2%}",
            next_word=self.next_word,
            translation=self.translation,
        )

    @property
    def good_enough(self) -> bool:
        """Whether the weights may be shipped: 99% of the next words, 95% of the translations."""
        return self.next_word >= 0.99 and self.translation >= 0.95


def scores(model: GPT, sentences: Sequence[Sentence]) -> Scores:
    """Both numbers for `model` on `sentences`."""
    return Scores(next_word_accuracy(model, sentences), exact_translations(model, sentences))


@torch.no_grad()
def next_word_accuracy(model: GPT, sentences: Sequence[Sentence]) -> float:
    """The share of words guessed right, of those that the words before them determine: 0 to 1.

    Raises ValueError if the sentences hold no such word.
    """
    tokens = padded([encode(str(sentence)) for sentence in sentences])  # (B, T)
    right = model(tokens).argmax(dim=-1)[:, :-1] == tokens[:, 1:]  # (B, T, V) -> (B, T-1)
    hits = [
        bool(right[i, t - 1])
        for i, sentence in enumerate(sentences)
        for t, only in enumerate(determined(sentence.words))
        if only
    ]
    return share(hits)


def exact_translations(model: GPT, sentences: Sequence[Sentence]) -> float:
    """The share of translations that come out word for word, `<end>` included: 0 to 1.

    The model sees the prompt alone and continues greedily. Sentences of other templates are left
    out; raises ValueError if none is a translation.
    """
    asked = [sentence for sentence in sentences if sentence.template == "translate"]
    said = complete(model, [" ".join(sentence.prompt) for sentence in asked])
    return share([str(want) == got for want, got in zip(asked, said, strict=True)])


def share(hits: Sequence[bool]) -> float:
    """How many of `hits` are true, 0 to 1. Raises ValueError for none: that would prove nothing."""
    if not hits:
        raise ValueError(say("nothing to measure: these sentences ask for nothing of the kind"))
    return sum(hits) / len(hits)
