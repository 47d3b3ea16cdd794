"""CSV whose cells a spreadsheet shows and never computes."""

import csv
import io
from collections.abc import Iterable, Sequence

from autograder.judge.verdict import one_line

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
"""How a formula, or what a spreadsheet trims before one, can begin."""


def inert(text: str) -> str:
    """`text` as no spreadsheet takes it for a formula; a number stays a number."""
    return f"'{text}" if text.lstrip(" \u00a0\ufeff").startswith(DANGEROUS) else text


def written(rows: Iterable[Sequence[str | float | None]]) -> bytes:
    """`rows` as UTF-8 CSV with Unix line ends; None is an empty cell, a float has two decimals at
    most."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    return inert(one_line(value)) if isinstance(value, str) else plain(value)


def plain(number: float) -> str:
    """`number` as a person writes it: two decimals at most, and no power of ten."""
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
