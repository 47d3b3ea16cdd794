"""What runs in the clean room of lab 08: an admitted cell that calls torch.compile, and a watch on
the graphs that its backend is given.

A graph is read and copied before the answer's backend sees it, and the copy is what runs: what the
backend returns, or does to its own, counts for nothing. A result counts if it came out of a graph.
Only this text travels, so it imports nothing beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from autograder.judge.admission import defined

ANSWERS: dict[str, Any] = {}
Believed = list[tuple[Any, ...]]
Run = tuple[Callable[..., Any], tuple[Any, ...], Any]
"""What ran, what it was given, and what came of that."""


class ComputedOutside(Exception):
    """What a graph returned does not follow from the x that it was given."""


def words_needed(z: Tensor, p: float) -> Tensor:
    """z (N, V) -> (N,) int64: how many words it takes to reach probability p."""
    needed = []
    for row in z.softmax(dim=-1).tolist():
        total, words = 0.0, 0
        for q in sorted(row, reverse=True):
            total, words = total + q, words + 1
            if total >= p:
                break
        needed.append(words)
    return torch.tensor(needed, dtype=torch.int64)


def take_cell(name: str, source: str) -> None:
    """From now on the function that this admitted cell defines is the answer `name`."""
    ANSWERS[name] = defined(source, name, {"words_needed": words_needed})[name]


class Watch:
    """graphs: what backends were given. made: all that came out of a graph, and a copy of each. It
    is kept alive, so that no other tensor gets its place in memory."""

    def __init__(self) -> None:
        self.graphs = 0
        self.believed: Believed = []
        self.made: list[tuple[Tensor, Tensor]] = []
        self.runs: list[Run] = []

    def backend(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        def watching(graph_module: fx.GraphModule, example_inputs: Any) -> Any:
            self.graphs += 1
            self.believed += _of_own_operators(graph_module)
            kept = fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
            run = _Looking(kept, self.believed).run
            theirs(graph_module, example_inputs)
            return self.recording(run)

        return watching

    def recording(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def ran(*args: Any) -> Any:
            results = run(*args)
            self.made += [(t, t.detach().clone()) for t in results if isinstance(t, Tensor)]
            self.runs.append((run, args, results))
            return results

        return ran

    def has_made(self, results: list[Tensor]) -> bool:
        """Whether each of `results` is what a graph returned, and nobody wrote into it since."""
        return all(
            isinstance(t, Tensor) and any(_is(t, *one) for one in self.made) for t in results
        )

    def again(self, made: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """What the graph that returned `made` returns with `other` in the place of x."""
        for run, args, results in self.runs:
            for k, t in enumerate(results):
                if isinstance(t, Tensor) and _is(made, t, t):
                    again: Tensor = run(*(_in_place_of(x, other, one) for one in args))[k]
                    return again
        return made


def _in_place_of(x: Tensor, other: Tensor, given: Any) -> Any:
    """`other`, seen as `given` sees x: a view of x, or a copy; what is neither is left alone."""
    if not isinstance(given, Tensor) or given.dtype != x.dtype or given.numel() != x.numel():
        return given
    if given.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
        return other.as_strided(given.shape, given.stride())
    return other if given.shape == x.shape and torch.equal(given, x) else given


def _is(t: Tensor, made: Tensor, copied: Tensor) -> bool:
    place = Tensor.data_ptr  # of the class: anything may have been hung on a tensor
    same = place(t) == place(made) and (t.shape, t.dtype) == (copied.shape, copied.dtype)
    return same and torch.allclose(t, copied, rtol=0.0, atol=0.0, equal_nan=True)


class _Looking(fx.Interpreter):
    """Runs a graph, and adds to `believed` what an operator that is not torch's gave, where the
    graph expects another dtype or another plain number of rows."""

    def __init__(self, graph_module: fx.GraphModule, believed: Believed) -> None:
        super().__init__(graph_module)
        self.believed = believed
        self.expected = {node: _expected(node) for node in _own(graph_module)}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n in self.expected:
            sizes = zip(n.meta["example_value"].shape, result.shape, strict=False)
            if result.dtype != self.expected[n][0]:
                self.believed.append((result.dtype, result.dim(), "given"))
            elif any(type(expected) is int and expected != size for expected, size in sizes):
                self.believed.append((result.dtype, result.dim(), "rows"))
        return result


_OPERATOR = "lab08.words_needed"


def _own(graph_module: fx.GraphModule) -> list[fx.Node]:
    return [n for n in graph_module.graph.nodes if str(n.target).startswith(_OPERATOR)]


def _expected(node: fx.Node) -> tuple[Any, ...]:
    """The dtype and dims that a graph expects of an operator; and "writes", if it is said to."""
    result = node.meta["example_value"]
    called: Any = node.target
    if not hasattr(called, "_schema"):  # torch.ops.lab08.name, without .default
        called = getattr(called, called.overloads()[0])
    writes = called._schema.is_mutable
    return result.dtype, result.dim(), *(["writes"] if writes else [])


def _of_own_operators(graph_module: fx.GraphModule) -> Believed:
    """What the graph expects of each operator that is not torch's."""
    return list(map(_expected, _own(graph_module)))


@contextmanager
def watched() -> Iterator[Watch]:
    """Inside, each backend that torch.compile is given is watched."""
    watch, compile_ = Watch(), torch.compile

    def compiling(model: Any = None, *, backend: Any = "inductor", **options: Any) -> Any:
        theirs = backend if callable(backend) else (lambda graph_module, example_inputs: None)
        return compile_(model, backend=watch.backend(theirs), **options)

    torch.compile = compiling
    try:
        yield watch
    finally:
        torch.compile = compile_


def one_graph(xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> Any:
    """(list of (z, mean), graphs given; 0 where the results came out of none). Raises
    ComputedOutside for right results that a graph only handed on."""
    with watched() as watch:
        found = ANSWERS["one_graph"](xs, w, b, limit)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return found
    results = found[0]
    pairs = all(isinstance(pair, (tuple, list)) for pair in results)
    flat = [t for pair in results for t in pair] if pairs else []
    if not watch.has_made(flat):
        return results, 0
    alike = len(results) == len(xs) and all(map(_are_close, results, _steps(xs, w, b, limit)))
    if alike and watch.graphs == 1:  # more than one is wrong without that
        for x, pair in zip(xs, results, strict=True):
            _expect_to_follow(x, pair, watch, w, b, limit)
    return results, watch.graphs


def _steps(xs: list[Tensor], w: Tensor, b: Tensor, limit: float) -> Iterator[list[Tensor]]:
    """The step as found, of each x."""
    for x in xs:
        z = F.linear(x, w, b)
        z = z * (limit / z.abs().max()).clamp(max=1.0)
        kept = z[z.sum(dim=1) > 0]
        yield [z, kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])]


def _are_close(pair: Any, want: list[Tensor]) -> bool:
    return len(pair) == len(want) and all(
        t.shape == right.shape and torch.allclose(t.to(right.dtype), right, rtol=1e-3, atol=1e-4)
        for t, right in zip(pair, want, strict=True)
    )


def _expect_to_follow(
    x: Tensor, pair: list[Tensor], watch: Watch, w: Tensor, b: Tensor, limit: float
) -> None:
    """The graphs run once more with other numbers in the place of x, quiet ones and loud ones: what
    was computed before a graph, and went in as an argument, stays as it was."""
    for scale in (0.01, 5.0):
        other = _other(x, w, b, scale)
        for k, (mine, right) in enumerate(zip(pair, *_steps([other], w, b, limit), strict=True)):
            if not _are_close([watch.again(mine, x, other)], [right]):
                raise ComputedOutside(("z", "mean")[k])


def _other(x: Tensor, w: Tensor, b: Tensor, scale: float) -> Tensor:
    """Of the shape of x. No sum of a row's logits lies where rounding decides whether it counts."""
    while True:
        other = scale * torch.randn(x.shape)
        if bool((F.linear(other, w, b).sum(dim=1).abs() > 1e-5).all()):
            return other


def opaque_step(xs: list[Tensor], w: Tensor, b: Tensor, p: float) -> Any:
    """(results, what each graph believes of the operator; nothing where they came out of none)."""
    with watched() as watch:
        found = ANSWERS["opaque_step"](xs, w, b, p)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return found
    return found[0], watch.believed if watch.has_made(list(found[0])) else []
