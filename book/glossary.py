"""A chapter's first use of a word of docs/glossary.md becomes a link to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from book.unit import ROOT

PAGE = "docs/glossary.md"
# Where no link may go: code, links, pictures, addresses, HTML, and the line of a heading.
KEPT = re.compile(
    r"```.*?```|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|https?://\S+|<[^>]+>|^#.*?$|^\|.*?$",
    re.DOTALL | re.MULTILINE,
)


@cache
def words() -> dict[str, str]:
    """Each word of the page in small letters, and its anchor there."""
    heads = re.findall(r"^## (.+)$", (ROOT / PAGE).read_text("utf-8"), re.MULTILINE)
    return {head.lower(): head.lower().replace(" ", "-") for head in heads}


def linked(texts: Sequence[str], up: str) -> list[str]:
    """`texts`, the prose of one page in its order, with the first use of each word a link. `up`
    leads from the page to the root."""
    open_words, made = dict(words()), []
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
        anchor = open_words.pop(word, None)
        if anchor is None:  # used a second time
            return found.group()
        return f"[{found.group()}]({up}{PAGE}#{anchor})"

    longest_first = sorted(open_words, key=len, reverse=True)
    any_of_them = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest_first)
    pattern = rf"(?<![\w./-])(?P<word>{any_of_them})s?(?![\w/-])"
    return re.sub(pattern, replaced, prose, flags=re.IGNORECASE)
