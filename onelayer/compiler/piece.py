"""One graph of a compiled function as a record: from capture to the generated files."""

from dataclasses import dataclass

from onelayer.compiler.fx_record import FxGraph
from onelayer.compiler.inductor_file import InductorFile
from onelayer.drawing.words import say


@dataclass(frozen=True)
class Kept:
    """A tensor that the compiled forward keeps for its backward.

    kind: "input" if it is one of the function's inputs or parameters, "view of an input", or
    "computed": only the last costs memory of its own.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    nbytes: int
    kind: str

    def __str__(self) -> str:
        return f"{self.nbytes:>14,}  {say(self.kind):<16} {self.name} {self.dtype} {self.shape}"


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo had to stop, and what it says of it: the first line of `reason` is the point."""

    reason: str
    file: str
    line: int
    code: str

    def __str__(self) -> str:
        reason = self.reason.splitlines()[0]
        return say("line {line}, {code!r}: {reason}", line=self.line, code=self.code, reason=reason)


@dataclass(frozen=True)
class Piece:
    """One graph, from capture to generated files.

    Without a gradient to compute there is no joint graph, no backward and nothing saved. With the
    backend "aot_eager" nothing is generated: both files are None, and so are the lowered graphs.
    Those are forward and backward after Inductor's own rewriting, and a kernel's nodes are theirs.
    """

    captured: FxGraph
    joint: FxGraph | None
    forward: FxGraph | None
    backward: FxGraph | None
    saved: tuple[Kept, ...]
    forward_file: InductorFile | None
    backward_file: InductorFile | None
    forward_lowered: FxGraph | None = None
    backward_lowered: FxGraph | None = None

    @property
    def saved_bytes(self) -> int:
        """Bytes that live on for backward alone: what was computed, without inputs and views."""
        return sum(kept.nbytes for kept in self.saved if kept.kind == "computed")
