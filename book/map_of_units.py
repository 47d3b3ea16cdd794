"""The page `units`: every unit, what it asks, its chapter and its lab; and the margin's list."""

from __future__ import annotations

import json
import re
from pathlib import Path

from autograder.authoring.plan import Plan
from book.pages import HOME, ROOT, write_if_new

HEAD = """# The units

Each unit is a chapter to read and a lab to solve. All of them look at the same layer.
"""


def write(plan: Plan, folder: Path) -> None:
    """Writes `units.md` into `folder`. Raises ValueError where there is no unit to list."""
    chapters = [c.notebook for c in plan.chapters if c.notebook != HOME]
    if not chapters:
        raise ValueError("there is no chapter, so there is no book")
    labs = {lab.student for lab in plan.labs}
    parts = [HEAD]
    for chapter in chapters:
        name = Path(chapter).stem
        lab = f"labs/{name}/{name}.ipynb"
        parts.append(_entry(chapter, lab if lab in labs else None))
    parts.append(_contents(chapters, sorted(labs)))
    write_if_new(folder / "units.md", "\n".join(parts))


def _entry(chapter: str, lab: str | None) -> str:
    title, opening = _first_words(ROOT / chapter)
    links = f"[Read the chapter]({chapter})"
    if lab:
        links += f" · [Solve the lab]({lab})"
    return f"## {title}\n\n{opening}\n\n{links}\n"


def _first_words(path: Path) -> tuple[str, str]:
    """A chapter's title, and the paragraph that says what its reader could not explain before."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "".join(cells[0]["source"])
    title, _, rest = text.partition("\n")
    parts = [part.strip() for part in re.split(r"\n\s*\n", rest)]
    opening = next(part for part in parts if part and not part.startswith("["))  # links come first
    return title.removeprefix("# ").strip(), " ".join(opening.split())


def _contents(chapters: list[str], labs: list[str]) -> str:
    def tree(caption: str, pages: list[str]) -> str:
        listed = "\n".join(page.removesuffix(".ipynb") for page in pages)
        return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n{listed}\n```\n"

    return tree("Chapters", chapters) + "\n" + tree("Labs", labs)
