"""The code blocks of the pages, and the commands in them.

A block that begins with ```sh holds commands, one on a line, `#` begins a comment. What a command
prints stands in a block of its own, ```text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "book/*.md", "docs/*.md")
SILENT = {"text", "python", "toml", "yaml", "{toctree}", "{raw}"}
"""What is no command, by the first word after the fence."""
PROGRAMS = {
    "make", "autograder", "onelayer", "nbgrader", "jupyter", "python", "python3", "pip", "git",
    "conda", "sh", "cd", "export", "mkdir", "chmod", "repo2docker", "lint-imports", "ruff",
}  # fmt: skip
_FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=mark)`*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block. page: its path; line: of its fence, from 1; info: what stands after it."""

    page: str
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split()[0] if self.info else ""

    @property
    def file(self) -> str:
        """The file that a ```python file=NAME block shows; "" for others."""
        return dict(part.split("=", 1) for part in self.info.split()[1:] if "=" in part).get(
            "file", ""
        )

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [path for pattern in PAGES for path in sorted(REPO.glob(pattern))]


def blocks(path: Path) -> Iterator[Block]:
    """Every fenced block of a page, those inside a list too."""
    name = path.relative_to(REPO).as_posix() if path.is_relative_to(REPO) else path.name
    text = path.read_text("utf-8")
    outdented = re.sub(r"^ +(?=```)", "", text, flags=re.M)
    for found in _FENCE.finditer(outdented):
        line = outdented.count("\n", 0, found.start()) + 1
        yield Block(name, line, found["info"].strip(), found["text"])


def faults(block: Block) -> Iterator[str]:
    """Why a block is neither commands nor plainly none."""
    if block.language not in {"sh", *SILENT}:
        yield f"{block.where}: a block of {block.language or 'no language'}; is it sh or text?"
    if block.language == "text":
        for line in block.text.splitlines():
            if line.strip() and line.split()[0] in PROGRAMS:
                yield f"{block.where}: a command in a block of text: {line}"


def commands(block: Block) -> list[str]:
    """The commands of a block, each with its words one space apart and without its comment."""
    if block.language != "sh":
        return []
    joined = block.text.replace("\\\n", " ")
    split = (shlex.split(line, comments=True) for line in joined.splitlines())
    return [" ".join(words) for words in split if words]


def inline(path: Path) -> Iterator[str]:
    """What stands between backticks in a page's text and begins with a program of ours."""
    prose = _FENCE.sub("", path.read_text("utf-8"))
    for found in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose):
        command = found.removeprefix(".venv/bin/")
        if command.split()[:1] and command.split()[0] in {"autograder", "onelayer"}:
            yield command
