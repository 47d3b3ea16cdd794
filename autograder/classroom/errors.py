"""What the person at the keyboard can put right: one line, and no traceback."""

import difflib
from collections.abc import Sequence

MOST_NAMES = 12


class UserError(Exception):
    """The command cannot go on, and its message says what is missing and what to do about it."""


def the_one(asked: str, known: Sequence[str], kind: str, location: str = "") -> str:
    """The name among `known` that is meant by `asked`: itself, or the only one that differs in
    capitals; of a lab also its number. Raises UserError with the names that come close."""
    alike = [name for name in known if name.casefold() == asked.casefold()]
    if kind == "lab" and asked.isdecimal():
        alike = [name for name in known if name.partition("_")[0] == asked.zfill(2)]
    if asked in known or len(alike) == 1:
        return asked if asked in known else alike[0]
    close = [name for name in known if asked and asked.casefold() in name.casefold()][:3]
    close = close or difflib.get_close_matches(asked, known, n=3, cutoff=0.5)
    if close:
        advice = f"Did you mean {' or '.join(close)}?"
    elif known:
        more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
        advice = f"There is: {', '.join(known[:MOST_NAMES])}{more}."
    else:
        advice = "There is none at all."
    raise UserError(f"There is no {kind} {asked!r}{location}. {advice}")
