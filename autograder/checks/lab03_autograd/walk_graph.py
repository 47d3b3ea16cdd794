"""Every node behind a loss, found by walking the real graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple, within

from . import lab

Visit = tuple[str, tuple[int, ...] | None]


@lab.question(
    "walk_graph",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Start at loss.grad_fn. Several ways may lead to one node: how will you know that you have "
        "been there?",
        "`node.next_functions` holds (node, slot) pairs, and the node is None where nobody needs a "
        "gradient. Keep the nodes that you have seen, the objects themselves and not their names, "
        "and do not enter one twice. Only AccumulateGrad nodes have `.variable`.",
        "if node is None or node in seen: continue",
    ),
    by_effect=True,  # any order is the same answer
)
def walk_graph(student: Student, draw: Draw) -> None:
    """Every node of the real graph behind a loss, each once, in any order.

    tokens (N,), w (V, D), b (V,), target (N,); w and b may or may not require a gradient -> a list
    of (name, shape): the leaf's shape for an AccumulateGrad node, None for every other.
    """
    # The third is D: with 1 feature both leaves hold as many numbers.
    always = [(False, False, 3), (True, True, 1), (False, True, 2), (True, False, 3)]
    asked: list[tuple[Tensor, ...]] = []
    for w_learns, b_learns, d in always + [draw.choice(always) for _ in draw.cases(1)]:
        n, v = draw.integer(2, 5), draw.integer(4, 9)
        w = draw.tensor(v, d, requires_grad=w_learns)
        b = draw.tensor(v, requires_grad=b_learns)
        tokens, target = (draw.integers(n, low=0, high=v - 1) for _ in range(2))
        with explaining(_ASKED_OF_NONE):
            got = student.call("walk_graph", tokens, w, b, target)
        want = _torchs_nodes(_tied_loss(tokens, w, b, target))
        expect_tuple(got, None, f"a list of {len(want)} nodes")
        try:
            learning = [name for name, t in zip("wb", (w, b), strict=True) if t.requires_grad]
            with within(f"requires_grad of ({', '.join(learning)}),"):
                _expect_same_nodes(list(map(_as_pair, got)), want)
        except Wrong as wrong:
            wrong.why = (
                _known(got, (tokens, w, b, target), asked)
                or _kept(got, want, asked)
                or _on_one_side(got, want)
            )
            raise
        asked.append((tokens, w, b, target))


KEPT = (
    "The nodes of the calls before are listed too: the list lives on from call to call. Make it "
    "inside the function; a default value, `seen=[]`, is made once for all calls."
)


def _known(
    got: Sequence[Any], arguments: tuple[Tensor, ...], before: Sequence[tuple[Tensor, ...]]
) -> str:
    """The sentence of the known wrong answer that lists the same nodes, and the right ones for what
    was asked before. The judge compares lists in their order; here any order is the same answer."""
    for known in walk_graph.wrong_answers:
        answer = known.functions["walk_graph"]
        try:
            alike = _sorted(answer(*arguments)) == _sorted(got)
            if alike and all(
                _sorted(answer(*given)) == _sorted(_torchs_nodes(_tied_loss(*given)))
                for given in before
            ):
                return known.sentence
        except AttributeError:
            continue
    return ""


def _kept(got: Sequence[Any], want: Sequence[Visit], before: Sequence[tuple[Tensor, ...]]) -> str:
    """A sentence for the right nodes together with those of all calls before; else nothing."""
    earlier = [node for given in before for node in _torchs_nodes(_tied_loss(*given))]
    return KEPT if _sorted(got) == _sorted([*earlier, *want]) else ""


def _sorted(nodes: Sequence[Any]) -> list[str]:
    return sorted(map(str, map(_as_pair, nodes)))


ONE_LEAF = (
    "One leaf is listed, and the other is not: each has an AccumulateGrad of its own. Both have "
    "one name, and one sequence number, the highest there is. Remember the nodes."
)


NO_NODE = (
    "An AccumulateGrad is listed that is not behind the loss: a leaf that requires no gradient has "
    "none there. List what the walk meets, and nothing else."
)


NONE_LISTED = (
    "A None is in the list. In next_functions it stands for an input that needs no gradient: "
    "there is no node to name, so skip it."
)
_NONES = ("None", "(None, None)", "('None', None)")


def _on_one_side(got: Sequence[Any], want: Sequence[Visit]) -> str:
    """A sentence for the right nodes with other shapes, for some of them, or for all of them and
    some again; else nothing."""
    mine, right = Counter(_sorted(got)), Counter(_sorted(want))
    leaves = [str(node) for node in want if node[1] is not None]
    if (
        not mine - right
        and len(leaves) == 2
        and list((right - mine).elements())
        in (
            leaves[:1],
            leaves[1:],
        )
    ):
        return ONE_LEAF
    if not mine:
        return (
            "Nothing is listed. w or b requires a gradient here, so loss.grad_fn is a node, and "
            "the walk begins there."
        )
    if not mine - right:
        return "What is listed is right, and not all that is behind the loss."
    if not right - mine and set(mine) == set(right):
        return "All nodes are listed, some of them more often than they are behind the loss."
    if not right - mine and all(node in _NONES for node in mine - right):
        return NONE_LISTED
    if not right - mine and all("AccumulateGrad" in node for node in mine - right):
        return NO_NODE
    names = [pair[0] for pair in map(_as_pair, got) if isinstance(pair, tuple)]
    if len(names) < len(got) or sorted(map(str, names)) != sorted(name for name, _ in want):
        return ""
    return (
        "The nodes are right, and not their shapes: each AccumulateGrad comes with the shape of "
        "its own leaf, node.variable, and every other node with None."
    )


def _expect_same_nodes(got: list[Any], want: list[Visit]) -> None:
    """Each wanted node once, in any order; says which are missing and which are too many."""
    missing, extra = list(map(str, want)), []
    for node in map(str, got):
        if node in missing:
            missing.remove(node)
        else:
            extra.append(node)
    if missing or extra:
        sides = {"missing": missing, "too many": sorted(extra)}
        where = "; ".join(f"{side}: {', '.join(nodes)}" for side, nodes in sides.items() if nodes)
        raise Wrong(expected=_counted(want), got=_counted(got), where=where)


def _counted(nodes: Sequence[Any]) -> str:
    return "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"


def _tied_loss(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Tensor:
    """One weight as two embeddings and as the head: three ways lead to one leaf, and two nodes
    have the same name."""
    x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)  # (N, D)
    return F.cross_entropy(F.linear(x, w, b), target)


def _as_pair(visit: Any) -> Any:
    """A list and a tuple are the same kind of answer; a tensor is named, not printed."""
    if not isinstance(visit, (list, tuple)) or len(visit) != 2:
        return describe(visit)
    name, shape = visit
    return name, tuple(shape) if isinstance(shape, (list, tuple)) else _named(shape)


def _named(shape: Any) -> Any:
    return f"tensor {describe(shape)}" if isinstance(shape, Tensor) else shape


def _torchs_nodes(loss: Tensor) -> list[Visit]:
    """The slow definition: every path from the loss to its end, then each node once."""
    return [_visit(node) for node in dict.fromkeys(_along_every_path(loss.grad_fn))]


def _along_every_path(node: Any) -> list[Any]:
    if node is None:
        return []
    return [node, *(n for after, _ in node.next_functions for n in _along_every_path(after))]


def _visit(node: Any) -> Visit:
    variable = getattr(node, "variable", None)
    if variable is None:
        return node.name(), None
    return node.name(), tuple(variable.shape)


def _last_come_first(root: Any) -> list[Any]:
    """Each node once, by a stack that knows no None."""
    found, waiting = dict[Any, None](), [root]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting.extend(after for after, _ in node.next_functions)
    return list(found)


@walk_graph.wrong(
    "every_path",
    "A node is listed once for each path that leads to it. The graph is no tree: the weight is "
    "used several times, and all ways end in the same AccumulateGrad.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return list(map(_visit, _along_every_path(_tied_loss(tokens, w, b, target).grad_fn)))


@walk_graph.wrong(
    "first_input_only",
    "You followed the first entry of next_functions only. A node has one entry for each input that "
    "could have a gradient.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found, node = [], _tied_loss(tokens, w, b, target).grad_fn
    while node is not None:
        found.append(_visit(node))
        node = node.next_functions[0][0] if node.next_functions else None
    return found


@walk_graph.wrong(
    "one_per_name",
    "Two different nodes may have one name: each leaf has an AccumulateGrad of its own. Remember "
    "the nodes, not their names.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found: dict[str, Visit] = {}
    for visit in _torchs_nodes(_tied_loss(tokens, w, b, target)):
        found.setdefault(visit[0], visit)
    return list(found.values())


@walk_graph.wrong(
    "one_per_entry",
    "One of the two EmbeddingBackward0 is missing. Each call of F.embedding made a node of its "
    "own: one name and one shape do not make them one, so remember the nodes themselves. And both "
    "entries of an addition lead on.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return list(dict.fromkeys(_torchs_nodes(_tied_loss(tokens, w, b, target))))


@walk_graph.wrong(
    "leaves_left_out",
    "The AccumulateGrad nodes are missing. They are nodes like the others: the ones that write "
    "into .grad.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    nodes = _torchs_nodes(_tied_loss(tokens, w, b, target))
    return [visit for visit in nodes if visit[1] is None]


walk_graph.wrong(
    "root_left_out",
    "The node that made the loss is missing: loss.grad_fn itself is part of the graph.",
    walk_graph=lambda tokens, w, b, target: _torchs_nodes(_tied_loss(tokens, w, b, target))[1:],
)


@walk_graph.wrong(
    "class_name",
    "These are the names of the Python classes. `node.name()` gives the node's own, which for a "
    "leaf begins with torch::autograd.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    nodes = _torchs_nodes(_tied_loss(tokens, w, b, target))
    return [(name.rpartition("::")[2], shape) for name, shape in nodes]


@walk_graph.wrong(
    "names_only",
    "The nodes are right, the form is not: each entry is a pair (name, shape), with None for the "
    "shape where the node is no AccumulateGrad.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[str]:
    return [name for name, _ in _torchs_nodes(_tied_loss(tokens, w, b, target))]


@walk_graph.wrong(
    "leaf_itself",
    "You return the leaf. Its shape was asked for: tuple(node.variable.shape).",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[tuple[str, Any]]:
    nodes = dict.fromkeys(_along_every_path(_tied_loss(tokens, w, b, target).grad_fn))
    return [(node.name(), getattr(node, "variable", None)) for node in nodes]


@walk_graph.wrong(
    "every_node_a_leaf",
    "Only an AccumulateGrad node has `.variable`, because only it writes to a leaf. For all others "
    "the shape is None: getattr(node, 'variable', None) asks without raising.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    nodes = _along_every_path(_tied_loss(tokens, w, b, target).grad_fn)
    return [(node.name(), tuple(node.variable.shape)) for node in nodes]


ENTERED_NONE = (
    "The walk entered a None: that is the entry of an input that needs no gradient, and also "
    "loss.grad_fn where nobody needs one. Skip it."
)

# What a node is asked for; whoever asks None for its shape has no leaf.
_ASKED_OF_NONE = {
    f"AttributeError: 'NoneType' object has no attribute '{name}'": ENTERED_NONE
    for name in ("name", "next_functions", "variable")
}


@walk_graph.wrong(
    "entered_none",
    ENTERED_NONE,
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found: dict[Any, Visit] = {}

    def enter(node: Any) -> None:
        if node not in found:
            found[node] = (node.name(), _visit(node)[1])
            for after, _ in node.next_functions:
                enter(after)

    enter(_tied_loss(tokens, w, b, target).grad_fn)
    return list(found.values())


@walk_graph.wrong(
    "last_input_only",
    "You followed the last entry of next_functions only. A node has one entry for each input that "
    "could have a gradient: follow them all.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found, node = [], _tied_loss(tokens, w, b, target).grad_fn
    while node is not None:
        found.append(_visit(node))
        node = node.next_functions[-1][0] if node.next_functions else None
    return found


@walk_graph.wrong(
    "no_shape_at_all",
    "Every shape is None here. An AccumulateGrad node comes with the shape of the leaf that it "
    "writes to: tuple(node.variable.shape). Its name is torch::autograd::AccumulateGrad, and no "
    "leaf has a .grad before backward.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return [(name, None) for name, _ in _torchs_nodes(_tied_loss(tokens, w, b, target))]


@walk_graph.wrong(
    "leaves_only",
    "Only the leaves are listed. Every node on the way belongs to the graph too, with None for "
    "its shape.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    nodes = _torchs_nodes(_tied_loss(tokens, w, b, target))
    return [visit for visit in nodes if visit[1] is not None]


@walk_graph.wrong(
    "numbers_in_place_of_shapes",
    "For a leaf you return how many numbers it holds. Its shape was asked for: "
    "tuple(node.variable.shape).",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Any]:
    nodes = _torchs_nodes(_tied_loss(tokens, w, b, target))
    return [(name, shape and math.prod(shape)) for name, shape in nodes]


@walk_graph.wrong(
    "none_listed",
    NONE_LISTED,
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return [*_torchs_nodes(_tied_loss(tokens, w, b, target)), ("None", None)]


@walk_graph.wrong(
    "stopped_at_none",
    "The walk ended at the first None that it met. A None ends one way only; go on with the other "
    "nodes that wait: `continue`, not `break`.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found = []
    waiting: list[Any] = [_tied_loss(tokens, w, b, target).grad_fn]
    while waiting and waiting[-1] is not None:
        node = waiting.pop()
        found.append(node)
        waiting.extend(after for after, _ in node.next_functions)
    return [_visit(node) for node in dict.fromkeys(found)]


@walk_graph.wrong(
    "by_name_in_a_dict",
    "This is a dict, and it can hold each name once. Two nodes may have one name: return a list "
    "of pairs.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
    return dict(_torchs_nodes(_tied_loss(tokens, w, b, target)))


@walk_graph.wrong(
    "entered_none_for_its_inputs",
    ENTERED_NONE,
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return list(map(_visit, _last_come_first(_tied_loss(tokens, w, b, target).grad_fn)))


@walk_graph.wrong(
    "no_graph_asked_for_its_name",
    ENTERED_NONE,
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    loss: Any = _tied_loss(tokens, w, b, target)
    return list(map(_visit, _last_come_first(loss.grad_fn))) if loss.grad_fn.name() else []


@walk_graph.wrong(
    "one_per_name_from_the_end",
    "An embedding's node and the leaf of b are missing. Either two nodes with one name were taken "
    "for one: remember the nodes, not their names. Or the walk ended at the first node that it "
    "had met before: `continue`, not `break`.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found: dict[str, Visit] = {}
    waiting: list[Any] = [_tied_loss(tokens, w, b, target).grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node.name() not in found:
            found[node.name()] = _visit(node)
            waiting.extend(after for after, _ in node.next_functions)
    return list(found.values())


@walk_graph.wrong(
    "none_ends_the_node",
    "What stands behind a None in next_functions was left out. A None is one input that needs no "
    "gradient; the entries behind it lead on: `continue`, not `break`.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    found, waiting = dict[Any, None](), [_tied_loss(tokens, w, b, target).grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = None
            waiting += takewhile(bool, (after for after, _ in node.next_functions))
    return list(map(_visit, found))


@walk_graph.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    tokens = draw.integers(32, low=0, high=599)
    nodes = student.call("walk_graph", tokens, w, b, tokens)
    leaves = sum(shape is not None for _, shape in nodes)
    return f"{len(nodes)} nodes, {leaves} of them leaves; the walk read no float and ran no node"
