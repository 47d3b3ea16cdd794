"""`units()`: the thirteen units, each with its chapter and its lab, or the word "planned".

The list says what the course is; which of it exists is seen from the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from . import card
from .shown import Shown, calmly, sentence

UNITS = {
    "00_open_the_hood": "What runs when you call a layer",
    "01_strides": "Storage, strides, views and copies",
    "02_dispatcher": "One name, many implementations",
    "03_autograd": "The graph and the backward pass",
    "04_contracts": "What to save and what to recompute",
    "05_memory_and_time": "The allocator, streams and honest clocks",
    "06_custom_op": "From a C++ function to an operator",
    "07_triton": "Tiles, fusion and memory traffic",
    "08_compile": "Dynamo, AOTAutograd and Inductor",
    "09_profiling": "Reading a trace, then changing it",
    "10_mixed_precision": "bf16, fp16 and autocast",
    "11_distributed": "DDP, FSDP and what they send",
    "12_ship_it": "A kernel becomes software",
}


@dataclass(frozen=True)
class Unit:
    """One unit. `chapter` and `lab` are links seen from `notebooks/`, or "" while they are
    planned."""

    name: str
    title: str
    chapter: str
    lab: str


def course(root: Path) -> tuple[Unit, ...]:
    """The units of the course whose folder is `root`."""
    return tuple(_unit(root, name, title) for name, title in UNITS.items())


def _unit(root: Path, name: str, title: str) -> Unit:
    chapter, lab = f"notebooks/{name}.ipynb", f"labs/{name}/{name}.ipynb"
    return Unit(
        name,
        title,
        f"{name}.ipynb" if (root / chapter).is_file() else "",
        f"../{lab}" if (root / lab).is_file() else "",
    )


def find_root(start: Path) -> Path | None:
    """The course's folder: `start`, one above it, or the one that holds this package."""
    for folder in (start, *start.parents, Path(__file__).parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "labs").is_dir():
            return folder
    return None


def units() -> Shown:
    """Shows every unit with links to its chapter and its lab. The links count from `notebooks/`."""
    return calmly(_units, "units()")


def _units() -> Shown:
    root = find_root(Path.cwd())
    if root is None:
        return sentence("The course's folder is not here: open this notebook where the course is.")
    found = course(root)
    lines = [f"  {u.name:<20} {_words(u):<24} {u.title}" for u in found]
    head = "".join(f'<th scope="col">{name}</th>' for name in ("unit", "about", "read", "solve"))
    table = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, found))}</tbody></table>"
    )
    html = card.card(f'<div class="ol-scroll">{table}</div>', label="the units", role="group")
    return Shown("\n".join(["The units", *lines]), html)


def _words(unit: Unit) -> str:
    ready = [word for word, link in (("chapter", unit.chapter), ("lab", unit.lab)) if link]
    return " and ".join(ready) or "planned"


def _row(unit: Unit) -> str:
    number = escape(unit.name[:2])
    cells = f'<th scope="row">{number}</th><td>{escape(unit.title)}</td>'
    return (
        f"<tr>{cells}{_link('chapter', unit.chapter, number)}{_link('lab', unit.lab, number)}</tr>"
    )


def _link(word: str, href: str, number: str) -> str:
    if not href:
        return '<td class="ol-quiet">planned</td>'
    return f'<td><a href="{escape(href)}">{word} {number}</a></td>'
