"""Where the grammar leaves no choice: the positions at which a model can be wrong."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from .clauses import Clause
from .corpus import sentences, to_english
from .vocabulary import SPANISH


def following(words: Iterable[str]) -> frozenset[str]:
    """Every word that comes next after `words` in some sentence; empty where none begins so.

    `following(["<en>", "she", "has"])` holds 22 participles. `following(["<es>", "ella", "come"])`
    holds only `<en>`: there the grammar determines the word.
    """
    return _table().get(tuple(words), frozenset())


def determined(words: Clause) -> list[bool]:
    """For each word, whether the words before it allow no other. The first word never is."""
    return [len(following(words[:i])) == 1 for i in range(len(words))]


def readings(words: Iterable[str]) -> frozenset[str]:
    """The English clauses that a question about Spanish may mean; empty where it asks for none.

    `readings("<es> nosotros hablamos <en>".split())` holds `we speak` and `we spoke`. The grammar
    never asks a question with two.
    """
    asked = tuple(words)
    found = to_english().get(asked[1:-1], ()) if asked[:1] == (SPANISH,) else ()
    return frozenset(map(" ".join, found))


@cache
def _table() -> dict[Clause, frozenset[str]]:
    table: dict[Clause, set[str]] = defaultdict(set)
    for sentence in sentences():
        for i, word in enumerate(sentence.words):
            table[sentence.words[:i]].add(word)
    return {prefix: frozenset(words) for prefix, words in table.items()}
