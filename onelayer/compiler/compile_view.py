"""`show_compile`: one function at every station of torch.compile, side by side.

Which entries belong together was read off torch's own notes (`compile_story`); `compile_view.js`
only lights them up, so that the same view runs in a notebook and on a page without a kernel.
"""

from collections.abc import Iterable
from typing import Any

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .fx_record import FxGraph
from .inductor_file import InductorFile
from .piece import Piece
from .story import CompileStory


class CompileView(Played):
    """What `show_compile` shows. `columns` are the stations; an entry's `ops` are the calls of the
    captured graph that it belongs to."""

    name = "compile"

    @property
    def columns(self) -> list[dict[str, Any]]:
        return list(self.view["columns"])

    def __repr__(self) -> str:
        """One block for each captured call: what it is at each station."""
        lines = [self._view["title"]]
        for op in self._view["ops"]:
            lines.append(op)
            for column in self._view["columns"]:
                found = [e["text"].strip() for e in column["entries"] if op in e["ops"]]
                lines.append(f"  {column['name']:<10} {'; '.join(found) or '-'}")
        return "\n".join(lines)


def show_compile(story: CompileStory, *, piece: int = 0) -> CompileView:
    """A story of `onelayer.compile_story`, from Python line to kernel.

        show_compile(onelayer.compile_story(head_loss, x, W, b, target))

    Step through the calls that Dynamo captured, or click any entry: what belongs to the same call
    lights up at every station, and the entry that you clicked is shown in full. piece: which of
    the story's graphs.

    Raises IndexError for a piece that the story does not have.
    """
    return CompileView(_view(story, story.pieces[piece])).show()


def _view(story: CompileStory, piece: Piece) -> dict[str, Any]:
    on_line: dict[int | None, list[str]] = {}
    for node in piece.captured.calls:
        on_line.setdefault(node.line, []).append(node.name)
    before = story.frames[0].before if story.frames else ()
    columns = [
        _column("Python", (_entry(t, on_line.get(n, [])) for n, t in story.lines if t.strip())),
        _column(say("bytecode"), (_entry(str(one), on_line.get(one.line, [])) for one in before)),
        _column(say("captured"), _nodes(piece.captured)),
    ]
    joint = piece.joint or piece.forward
    if joint is not None:
        columns.append(_column(say("joint") if piece.joint else say("forward"), _nodes(joint)))
    if piece.forward_file is not None:
        columns.append(_column(say("kernels"), _kernels(piece)))
    ops = [node.name for node in piece.captured.calls]
    title = say(
        "{function} on torch {version}", function=story.function, version=story.torch_version
    )
    return {"title": title, "ops": ops, "columns": columns, "picked": ops[:1], "entry": None}


def _column(name: str, entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "entries": list(entries)}


def _entry(
    text: str, ops: Iterable[str], *, side: str = "", small: str = "", full: str = ""
) -> dict[str, Any]:
    return {"text": text, "ops": list(ops), "side": side, "small": small, "full": full or text}


def _nodes(graph: FxGraph) -> Iterable[dict[str, Any]]:
    for node in graph.calls:
        shape = "" if node.shape is None else f"{node.dtype} {list(node.shape)}".replace("'", "")
        text = f"{node.name} = {short(node.target)}"
        full = (
            f"{node}\n" + say("{n:,} bytes", n=node.nbytes) + (say(", a view") if node.view else "")
        )
        yield _entry(text, node.origins, side=node.side, small=shape, full=full)


def short(target: str) -> str:
    """An operator's name without its overload: "aten.addmm.default" is "aten.addmm"."""
    return ".".join(target.split(".")[:2]) if target.startswith("aten.") else target


def _kernels(piece: Piece) -> Iterable[dict[str, Any]]:
    for side in ("forward", "backward"):
        file: InductorFile | None = getattr(piece, f"{side}_file")
        graph: FxGraph | None = getattr(piece, f"{side}_lowered")
        for kernel in file.kernels if file and graph else ():
            known = {node.name: node.origins for node in graph.nodes} if graph else {}
            joined = {op for n in kernel.nodes for op in known.get(n, ())}
            ops = [node.name for node in piece.captured.calls if node.name in joined]
            small = say(
                "reads {read:,}\u00a0B, writes {written:,}\u00a0B",
                read=kernel.bytes_read,
                written=kernel.bytes_written,
            )
            computes = say("computes {nodes}", nodes=", ".join(kernel.nodes))
            full = "\n".join([kernel.name, computes, kernel.source])
            text = kernel.name.removeprefix("extern_kernels.")
            yield _entry(text, ops, side=side, small=small, full=full)
