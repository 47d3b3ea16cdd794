"""Which answers are alike beyond what the release and the class explain.

Winnowing, as in S. Schleimer, D. Wilkerson and A. Aiken, "Winnowing: Local Algorithms for Document
Fingerprinting" (SIGMOD 2003): of every few neighbouring sequences of K tokens one is kept, so that
each run of K + WINDOW - 1 common tokens is found wherever it stands. Names of an answer count as
one name, and comments as nothing, so renaming hides nothing. In free text the tokens are words.

What the release gives out explains itself, and what many have (there are few ways to write three
lines) is explained by the class. What is left is a reason to look, and never a verdict.

copydetect, the kept library for this, compares whole files and takes one template away; it knows no
class, which for answers of five lines explains nearly all.
"""

import builtins
import io
import keyword
import re
import tokenize
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

K, WINDOW = 8, 4
MANY = 0.02
FEW = 4
"""What more than this share of the class has, and more than so many, is the class's."""
LEAST = 4
"""So many fingerprints that nearly nobody else has, before two answers are worth a look."""
KEPT = frozenset([*keyword.kwlist, *dir(builtins), "torch", "F", "self"])
"""Names that say what an answer does; all others are the author's choice."""
SKIPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Token:
    """text: as it is compared. line: from 0."""

    text: str
    line: int


@dataclass(frozen=True)
class Alike:
    """Two students' answers to one question. shared: fingerprints that nearly nobody else has;
    share: of all that the smaller answer has. lines: of each, those that the two have in common."""

    question: str
    one: str
    other: str
    shared: int
    share: float
    lines: tuple[frozenset[int], frozenset[int]]


def code_tokens(source: str) -> list[Token]:
    """The tokens of Python; up to where it is none, and then its words."""
    found: list[Token] = []
    try:
        before = ""
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in SKIPPED:
                plain = token.type == tokenize.NAME and before != "." and token.string not in KEPT
                found.append(Token("name" if plain else token.string, token.start[0] - 1))
                before = token.string
    except (tokenize.TokenError, SyntaxError):
        reached = found[-1].line + 1 if found else 0
        rest = "\n".join(source.splitlines()[reached:])
        found += [Token(token.text, token.line + reached) for token in words(rest)]
    return found


def words(text: str) -> list[Token]:
    """The words of free text, in small letters."""
    lines = enumerate(text.splitlines())
    return [Token(word.casefold(), i) for i, line in lines for word in _WORD.findall(line)]


def fingerprints(tokens: Sequence[Token]) -> dict[int, frozenset[int]]:
    """The winnowed hashes, and the lines on which each of them stands."""
    texts = [token.text for token in tokens]
    hashes = [
        zlib.crc32("\0".join(texts[i : i + K]).encode(errors="replace"))
        for i in range(len(texts) - K + 1)
    ]
    found: dict[int, set[int]] = {}
    for i in sorted(_chosen(hashes)):
        found.setdefault(hashes[i], set()).update(token.line for token in tokens[i : i + K])
    return {print_: frozenset(lines) for print_, lines in found.items()}


def _chosen(hashes: Sequence[int]) -> Iterator[int]:
    """In each window the place of the least, of equal ones the last."""
    for start in range(max(1, len(hashes) - WINDOW + 1) if hashes else 0):
        window = range(start, min(start + WINDOW, len(hashes)))
        yield min(window, key=lambda i: (hashes[i], -i))


def alike(
    question: str, answers: Mapping[str, str], given: Sequence[str], *, is_code: bool
) -> Iterator[Alike]:
    """The pairs worth a look at, the most striking first. answers: by student; given:
    texts that explain what stands in them too."""
    read = code_tokens if is_code else words
    explained = {print_ for text in given for print_ in fingerprints(read(text))}
    prints = {student: fingerprints(read(text)) for student, text in answers.items()}
    prints = {who: {p: at for p, at in own.items() if p not in explained}
              for who, own in prints.items()}  # fmt: skip
    holders = Counter(p for own in prints.values() for p in own)
    most = max(FEW, MANY * len(answers))
    owners: dict[int, list[str]] = {}
    for student, own in prints.items():
        for print_ in own:
            if holders[print_] <= most:
                owners.setdefault(print_, []).append(student)
    shared: dict[tuple[str, str], list[int]] = {}
    for print_, students in owners.items():
        for pair in combinations(sorted(students), 2):
            shared.setdefault(pair, []).append(print_)
    found = [
        _pair(question, pair, them, prints) for pair, them in shared.items() if len(them) >= LEAST
    ]
    yield from sorted(found, key=lambda one: (-one.shared * one.share, one.one, one.other))


def _pair(
    question: str,
    pair: tuple[str, str],
    shared: Sequence[int],
    prints: Mapping[str, Mapping[int, frozenset[int]]],
) -> Alike:
    one, other = (prints[student] for student in pair)
    lines = tuple(frozenset().union(*(own[p] for p in shared)) for own in (one, other))
    share = len(shared) / min(len(one), len(other))
    return Alike(question, *pair, len(shared), share, (lines[0], lines[1]))
