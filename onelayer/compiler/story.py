"""What torch.compile did with one function: bytecode, graphs, guards, breaks, generated files.

    story = compile_story(head_loss, x, W, b, target)
    story.pieces[0].captured              # the graph that Dynamo read out of the bytecode
    story.pieces[0].joint                 # forward and backward in one graph
    story.pieces[0].saved                 # what the partitioner lets the forward keep
    story.pieces[0].forward_file.kernels  # what Inductor wrote, with the bytes of each kernel
    story.breaks, story.guards, story.frames

It compiles through Inductor's own `compile_fx`, with a look at each station.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from onelayer.compiler.bytecode import Frame, instructions
from onelayer.compiler.compile_watch import Backend, Watch
from onelayer.compiler.guards import Guard, guards_of
from onelayer.compiler.piece import GraphBreak, Piece
from onelayer.drawing.words import counted, say


@dataclass(frozen=True)
class CompileStory:
    """What became of a function. lines: its source, number and text of each line."""

    function: str
    lines: tuple[tuple[int, str], ...]
    frames: tuple[Frame, ...]
    pieces: tuple[Piece, ...]
    breaks: tuple[GraphBreak, ...]
    guards: tuple[Guard, ...]
    torch_version: str = torch.__version__

    def __str__(self) -> str:
        counts = (
            counted(len(self.pieces), "{n} graph", "{n} graphs"),
            counted(len(self.breaks), "{n} graph break", "{n} graph breaks"),
            counted(len(self.guards), "{n} guard", "{n} guards"),
        )
        told = [f"{self.function}: {', '.join(counts)}, torch {self.torch_version}"]
        told += [say("  break at {place}", place=found) for found in self.breaks]
        for number, piece in enumerate(self.pieces):
            calls = counted(len(piece.captured.calls), "{n} call captured", "{n} calls captured")
            told.append(say("  graph {number}: {calls}", number=number, calls=calls))
            for side in ("joint", "forward", "backward"):
                if (graph := getattr(piece, side)) is not None:
                    many = counted(len(graph.calls), "{n} operator", "{n} operators")
                    told.append(f"    {side}: {many}")
            told.append(say("    kept for backward: {n:,} bytes of its own", n=piece.saved_bytes))
            for side in ("forward_file", "backward_file"):
                if (file := getattr(piece, side)) is not None:
                    told += [f"    {side}: {line}" for line in str(file).splitlines()]
        return "\n".join(told)


def compile_story(
    function: Callable[..., Any],
    *args: Any,
    backend: Backend = "inductor",
    dynamic: bool | None = None,
    fullgraph: bool = False,
    **kwargs: Any,
) -> CompileStory:
    """What torch.compile makes of `function(*args, **kwargs)`.

    The function is compiled anew and run once, and where its result requires a gradient so is its
    backward, with a seed of ones; no `.grad` is written. Everything that was compiled before is
    forgotten (`torch._dynamo.reset`). backend: "inductor" generates code and takes seconds, with a
    cold C++ cache more; "aot_eager" stops at the graphs and takes a fraction of one.

    Raises what torch raises: `torch._dynamo.exc.Unsupported` for a graph break with fullgraph=True.
    """
    watch = Watch(backend, getattr(function, "__name__", type(function).__name__))
    torch._dynamo.reset()
    with watch.looking():
        compiled = torch.compile(
            function, backend=watch.compile, dynamic=dynamic, fullgraph=fullgraph
        )
        _backward(compiled(*args, **kwargs))
    guards = tuple(guard for before in watch.read for guard in guards_of(before))
    torch._dynamo.reset()
    return CompileStory(
        function=watch.name,
        lines=_source(watch.read),
        frames=tuple(Frame(b.co_name, instructions(b), instructions(a)) for b, a in watch.frames),
        pieces=tuple(piece.record() for piece in watch.pieces),
        breaks=tuple(piece.broke for piece in watch.pieces if piece.broke is not None),
        guards=guards,
    )


def _backward(result: Any) -> None:
    """Runs the backward of what `result` holds, and leaves every `.grad` as it was."""
    learning = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in learning if t.grad_fn is not None]
    leaves = _leaves([t.grad_fn for t in outputs])
    if leaves:
        seeds = [torch.ones_like(t) for t in outputs]
        torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)


def _leaves(nodes: list[Any]) -> list[torch.Tensor]:
    """The leaves that the graph behind `nodes` accumulates into."""
    seen = set(nodes)
    for node in nodes:
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                nodes.append(after)
    return [node.variable for node in nodes if hasattr(node, "variable")]


def _source(read: list[CodeType]) -> tuple[tuple[int, str], ...]:
    """The lines of the function that was read first; none where its source is out of sight."""
    try:
        lines, first = inspect.getsourcelines(read[0])
    except (IndexError, OSError):
        return ()
    return tuple((first + k, line.rstrip("\n")) for k, line in enumerate(lines))
