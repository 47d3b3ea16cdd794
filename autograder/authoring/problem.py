"""What an author is told: one sentence, with the file, the line or the cell."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that stops a build or fails a check. `path` counts from the repository's root."""

    path: str
    says: str
    line: int | None = None
    cell: str | None = None

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        cell = "" if self.cell is None else f" cell {self.cell}:"
        return f"{where}:{cell} {self.says}"


class Refused(Exception):
    """A source cannot become a notebook. `problems` holds everything found, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))
