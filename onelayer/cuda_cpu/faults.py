"""What went wrong in a kernel, by name, with the line of the `.cu` file and a sentence about it."""

from dataclasses import dataclass

from onelayer.drawing.words import say

KINDS = (
    "out_of_bounds",
    "misaligned",
    "host_access",
    "unwritten_shared",
    "race",
    "divergent_barrier",
    "divergent_warp",
    "undefined_shuffle",
    "impossible_launch",
    "division_by_zero",
    "assertion",
    "stuck",
    "unwritten_global",
    "invalid_free",
    "missing_return",
    "same_value_race",
    "leak",
)
# Wrong by CUDA's rules, and no result of this call is wrong by it: see `Run.warnings`.
WARNINGS = ("same_value_race", "leak")


class KernelFault(Exception):
    """A call ended with faults; str() is the report."""


@dataclass(frozen=True)
class Fault:
    """One fault: `kind` is one of `KINDS`; `line` 0 means that no line is known.

    other_line: of the access or barrier that it collides with. block, thread: who it was, x first.
    """

    kind: str
    line: int
    sentence: str
    kernel: str = ""
    other_line: int | None = None
    block: tuple[int, int, int] = (0, 0, 0)
    thread: tuple[int, int, int] = (0, 0, 0)
    code: str = ""

    def __str__(self) -> str:
        place = say("line {line}", line=self.line) if self.line else say("some line")
        whose = say(" of {kernel}", kernel=self.kernel) if self.kernel else ""
        head = f"{self.kind}, {place}{whose}"
        shown = f"\n    {self.line:>4} | {self.code}" if self.code else ""
        return f"{head}: {self.sentence}{shown}"
