"""The bytecode of a function, and what Dynamo put in its place."""

import dis
from dataclasses import dataclass
from types import CodeType

from onelayer.drawing.words import say


@dataclass(frozen=True)
class Instruction:
    """One instruction: its offset, its name, its argument as `dis` writes it, its source line."""

    offset: int
    name: str
    argument: str
    line: int | None

    def __str__(self) -> str:
        return f"{self.name} {self.argument}".rstrip()


@dataclass(frozen=True)
class Frame:
    """A function that Dynamo read. `after` is what runs instead; for the part behind a graph break
    Dynamo writes a function of its own, whose name begins with `torch_dynamo_resume_in_`."""

    name: str
    before: tuple[Instruction, ...]
    after: tuple[Instruction, ...]

    def __str__(self) -> str:
        return say(
            "{name}: {before} instructions read, {after} written",
            name=self.name,
            before=len(self.before),
            after=len(self.after),
        )


def instructions(code: CodeType) -> tuple[Instruction, ...]:
    """What `dis` says of `code`, caches and extended arguments left out."""
    found, line = [], None
    for one in dis.get_instructions(code):
        line = (one.positions.lineno if one.positions else None) or line
        if one.opname not in {"CACHE", "EXTENDED_ARG"}:
            found.append(Instruction(one.offset, one.opname, one.argrepr, line))
    return tuple(found)
