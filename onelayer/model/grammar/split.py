"""Which sentences training never sees.

Sentences are held out, never words. Whatever a held-out sentence gives to read or asks for, another
one gives or asks for in training: each of the 600 tokens, and each pair of an English and a Spanish
phrase. A row of a matrix that training never touches would be noise.
"""

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache

from .corpus import Sentence, sentences

HELD_OUT_FRACTION = 0.1


@dataclass(frozen=True)
class Split:
    """The sentences for training and those held out, in an order that the seed decides."""

    train: tuple[Sentence, ...]
    held_out: tuple[Sentence, ...]


@cache
def split(seed: int = 0) -> Split:
    """The split that belongs to `seed`; the shipped weights were trained on `split(0).train`.

    Sentences are visited in shuffled order. One is held out if all that it shows is shown by
    another that stays, until a tenth is held out.
    """
    order = list(sentences())
    random.Random(seed).shuffle(order)
    left = Counter(thing for sentence in order for thing in _shown(sentence))
    train: list[Sentence] = []
    held_out: list[Sentence] = []
    for sentence in order:
        shown = _shown(sentence)
        if len(held_out) < HELD_OUT_FRACTION * len(order) and all(
            left[thing] > 1 for thing in shown
        ):
            left.subtract(shown)
            held_out.append(sentence)
        else:
            train.append(sentence)
    return Split(tuple(train), tuple(held_out))


def _shown(sentence: Sentence) -> frozenset[object]:
    """What the sentence teaches: each word that it lets read, each that it asks for, its pairs."""
    read = {("read", word) for word in sentence.prompt}
    asked = {("asked", word) for word in sentence.answer}
    return frozenset(read | asked) | sentence.pairs()
