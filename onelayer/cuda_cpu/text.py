"""A `.cu` text with its name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Text:
    """The code, what messages call it, and the folder whose files it may include."""

    code: str
    name: str = "kernels.cu"
    folder: Path | None = None

    def line(self, number: int) -> str:
        """Return the line of that number, from 1, without its indentation; "" for none."""
        lines = self.code.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    @classmethod
    def of(cls, source: str | Path) -> Self:
        """Return a text (a str with a newline) or the contents of a file (a Path, or its name)."""
        if isinstance(source, str) and "\n" in source:
            return cls(source)
        path = Path(source)
        return cls(path.read_text(), path.name, path.resolve().parent)
