"""The 600 words, families together: row i of the head's weight belongs to the word `TOKENS[i]`.

A word is one token wherever it appears. So `he` is an English pronoun and a Spanish auxiliary
(`yo he comido`), and `come` is what guests do in English and what eaters do in Spanish (`él come`):
one row of the head, two meanings.
"""

import difflib
import unicodedata

from onelayer.drawing.words import say

from .clauses import PERSONS, TENSES
from .verbs import VERBS

END = "<end>"
ENGLISH = "<en>"
SPANISH = "<es>"


def _tokens() -> tuple[str, ...]:
    words = [END, ENGLISH, SPANISH, *(tense.mark for tense in TENSES)]
    words += [person.english for person in PERSONS] + [person.spanish for person in PERSONS]
    for tense in TENSES:
        words += tense.english_auxiliary.split() + tense.spanish_auxiliary.split()
    for verb in VERBS:
        for rows in (verb.english_rows(), verb.spanish_rows()):
            words += [word for row in rows.values() for word in row]
    return tuple(dict.fromkeys(words))  # each word once, in the order of its first appearance


TOKENS = _tokens()
V = len(TOKENS)
if V != 600:
    raise AssertionError(f"the grammar has {V} words; the course is about a head with 600")
INDEX = {word: index for index, word in enumerate(TOKENS)}


class UnknownWordError(ValueError):
    """A word that is not among the 600."""


def encode(text: str) -> list[int]:
    """The token index of each word in `text`; words are split by white space, "" has none.

    Raises UnknownWordError, with the nearest words that exist.
    """
    # A Mac may hand over é as e and an accent; both spellings are the same word.
    return [_index(word) for word in unicodedata.normalize("NFC", text).split()]


def decode(indices: list[int]) -> str:
    """The words at `indices`, joined by spaces: the inverse of `encode`.

    Raises IndexError for an index outside 0..599.
    """
    for index in indices:
        if not 0 <= index < V:
            raise IndexError(
                say("token index {index} is outside 0..{last}", index=index, last=V - 1)
            )
    return " ".join(TOKENS[index] for index in indices)


def _index(word: str) -> int:
    if word in INDEX:
        return INDEX[word]
    same = [token for token in TOKENS if _bare(token) == _bare(word)]
    near = " ".join(list(dict.fromkeys(same + difflib.get_close_matches(word, TOKENS)))[:3])
    raise UnknownWordError(
        say(
            "{word!r} is not one of the {n} words of the grammar. Near it: {near}. "
            "All of them: onelayer.grammar.TOKENS",
            word=word,
            n=V,
            near=near or say("none"),
        )
    )


def _bare(word: str) -> str:
    """The word without capitals and accents: what a hurried hand types."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
