"""A chapter's first use of a word of docs/glossary.md, or of its twin, becomes a link to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from autograder.authoring.language import ENGLISH, Language
from book.unit import ROOT

PAGE = "docs/glossary.md"
# Where no link may go: code, links, pictures, addresses, HTML, and the line of a heading.
KEPT = re.compile(
    r"```.*?```|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|https?://\S+|<[^>]+>|^#.*?$|^\|.*?$",
    re.DOTALL | re.MULTILINE,
)


@cache
def words(language: Language = ENGLISH) -> dict[str, str]:
    """Each word of the page in small letters, and its anchor there. In every language an entry is
    headed by the English word; what the chapters say for it is bold in a twin."""
    text = (ROOT / language.prefix / PAGE).read_text("utf-8")
    entries = re.findall(r"^## (.+)\n\n(.+)$", text, re.MULTILINE)
    return {
        word.lower(): head.lower().replace(" ", "-")
        for head, entry in entries
        for word in ([head] if language == ENGLISH else re.findall(r"\*\*(.+?)\*\*", entry))
    }


def linked(texts: Sequence[str], up: str, language: Language = ENGLISH) -> list[str]:
    """`texts`, the prose of one page in its order, with the first use of each word a link. `up`
    leads from the page to the root."""
    open_words, made = dict(words(language)), []
    for text in texts:
        parts = list(_parts(text))
        made.append("".join(_first_uses(p, open_words, up) if free else p for p, free in parts))
    return made


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """`text` in pieces, each with whether a link may go into it."""
    end = 0
    for kept in KEPT.finditer(text):
        yield text[end : kept.start()], True
        yield kept.group(), False
        end = kept.end()
    yield text[end:], True


def _first_uses(prose: str, open_words: dict[str, str], up: str) -> str:
    """`prose` with links for the words that are still open, which it closes."""
    if not open_words:
        return prose

    def replaced(found: re.Match[str]) -> str:
        word = re.sub(r"\s+", " ", found["word"]).lower()
        anchor = open_words.get(word)
        if anchor is None:  # used a second time
            return found.group()
        for other in [one for one, its in open_words.items() if its == anchor]:
            del open_words[other]
        return f"[{found.group()}]({up}{PAGE}#{anchor})"

    longest_first = sorted(open_words, key=len, reverse=True)
    any_of_them = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest_first)
    pattern = rf"(?<![\w./-])(?P<word>{any_of_them})(?:e?s)?(?![\w/-])"
    return re.sub(pattern, replaced, prose, flags=re.IGNORECASE)
