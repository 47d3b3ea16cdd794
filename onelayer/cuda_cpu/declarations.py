"""One declaration of C++, taken apart: the type that its declarators share, and each of them."""

import re
from dataclasses import dataclass

_ALIGNMENT = re.compile(r"(__align__|alignas)\s*\([^)]*\)|\b(static|extern|__shared__)\b")
_DECLARATOR = re.compile(
    r"(?P<stars>[\s*]*)(?P<name>[A-Za-z_]\w*)\s*(?P<suffix>(\[.*\])?)\s*$", re.S
)


@dataclass(frozen=True)
class Declarator:
    """`float *a[4]` is of base `float *`, name `a` and suffix `[4]`."""

    base: str
    name: str
    suffix: str


def declarators(text: str) -> list[Declarator] | None:
    """Return the variables that a declaration without initialisers makes, or None where it is of a
    form that is not taken apart here."""
    first, *rest = _split(" ".join(_ALIGNMENT.sub(" ", text).split()))
    match = re.match(
        r"(?P<base>.*?[\s>*])(?P<declarator>[A-Za-z_]\w*\s*(\[.*\])?\s*)$", first, re.S
    )
    if match is None or re.search(r"[={}()]", match["base"]):
        return None
    base = match["base"].rstrip(" *")
    stars = match["base"][len(base) :]
    found = []
    for declarator in [f"{stars}{match['declarator']}", *rest]:
        one = _DECLARATOR.match(declarator)
        if one is None:
            return None
        found.append(Declarator(base + one["stars"].strip(), one["name"], one["suffix"]))
    return found


def _split(text: str) -> list[str]:
    """The text at its commas, but for those inside brackets of any kind."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
