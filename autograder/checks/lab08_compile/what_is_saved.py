"""What the partitioner keeps for the backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, describe, expect_equal, expect_tuple

from . import lab
from .programs import Arguments, load, remembered

Saved = list[tuple[str, tuple[int, ...]]]
ALL, FEWEST = "all", "fewest"
# The same numbers in the same memory: torch 2.15 says alias where 2.13 says detach.
VIEWS = frozenset(
    f"aten.{name}.default" for name in ("detach", "alias", "t", "view", "permute", "expand")
)
_RAISED = {
    "AttributeError": "A shape is `tuple(node.meta['val'].shape)`; the output node is the last of "
    "`graph_module.graph.nodes`, and what the forward returns is its `args[0]`.",
    "KeyError": "The output node has no value of its own. Ask the nodes in its `args[0]`.",
}


@lab.question(
    "what_is_saved",
    points=4,
    minutes=11,
    difficulty=3,
    hints=(
        "The backward can only read what the forward returned. What does a forward graph return "
        "besides the result of `step`?",
        "The last node is the output; its args[0] begins with the result, and the rest is saved. "
        "Ask `maker` for the node that made each, take each node once, and name it "
        '"input" if its op is "placeholder", else str(node.target).',
        "_, *kept = list(graph_module.graph.nodes)[-1].args[0]",
    ),
    budget_s=60.0,
)
def what_is_saved(student: Student, draw: Draw) -> None:
    """What the forward graph of a program saves for its backward, under one of two partitioners.

    source (step returns one tensor), args (some require gradients), keep ("all" or "fewest") ->
    list of (operator or "input", shape), one for each node that made saved numbers, in any order.
    """
    source, args = _program(draw, ("sin", "cos", "linear", "tanh"))
    cases = [(source, args, ALL), (source, args, FEWEST)]
    cases.append((*_program(draw, ("sin", "gram", "cos")), ALL))  # keeps two views of one result
    cases.append((*_program(draw, ("tanh", "tanh", "sin")), ALL))  # two nodes, equal as pairs
    cases.append((*_program(draw, ("sin", "rows", "cos")), ALL))  # keeps one of one dimension
    cases.append((*_program(draw, ("mask", "total")), ALL))  # keeps a bool, and one number
    cases.append((*_program(draw, ("tanh", "sin"), square=True), ALL))  # two inputs of one shape
    cases.append((*_program(draw, _chain(draw)), draw.choice((ALL, FEWEST))))
    for source, args, keep in cases:
        with explaining(_RAISED):
            got = student.call("what_is_saved", source, args, keep)
        want = _saved(source, args, keep)
        with saying(_misnamed(got, source, args, keep) or _too_few_or_many(got, want)):
            _expect_saved(got, want)


_OPS = {
    "sin": "torch.sin(y)",
    "cos": "torch.cos(y)",
    "tanh": "torch.tanh(y)",
    "sigmoid": "torch.sigmoid(y)",
    "exp": "torch.exp(-y * y)",
    "relu": "torch.relu(y)",
    "linear": "F.linear(y, w.T)",
}
_OTHERS = {"gram": "y.T @ y", "rows": "y.sum(1)", "total": "y / y.sum()"}
_OTHERS |= {"mask": "torch.where(y > 0, y, 2 * y)"}


def _chain(draw: Draw) -> list[str]:
    """Ends in what keeps its input, so that the result of `step` is not itself among the saved."""
    return ["sin", *draw.shuffled(list(_OPS)[1:])[:2], "cos"]


def _program(draw: Draw, ops: Sequence[str], *, square: bool = False) -> tuple[str, list[Tensor]]:
    """A product, then these operations; the activations need no gradient, w and b do. square: they
    do as well, and have the shape of w."""
    body = "".join(f"    y = {(_OPS | _OTHERS)[op]}\n" for op in ops)
    n, d, v = draw.shuffled((draw.integer(2, 4), draw.integer(5, 7), draw.integer(8, 11)))
    n = v if square else n
    w, b = draw.tensor(v, d, requires_grad=True), draw.tensor(v, requires_grad=True)
    source = f"def step(x, w, b):\n    y = F.linear(x, w, b)\n{body}    return y\n"
    return source, [draw.tensor(n, d, requires_grad=square), w, b]


def _expect_saved(got: Any, want: Saved) -> None:
    expect_tuple(got, None, f"a list of {len(want)} pairs")
    expect_equal(sorted(map(_as_pair, got), key=str), sorted(want, key=str))


def _misnamed(got: Any, source: str, args: Arguments, keep: str) -> str:
    """What is true of the first name that no maker has."""
    nodes = _forward(source, [[*args, keep]]).nodes
    targets = {str(node.target) for node in nodes if node.op == "call_function"}
    inputs = {str(node.target) for node in nodes if node.op == "placeholder"}
    pairs = [_as_pair(entry) for entry in got] if isinstance(got, (list, tuple)) else []
    named = [pair[0] for pair in pairs if isinstance(pair, tuple) and isinstance(pair[0], str)]
    for name in [name for name in named if name != "input"]:
        if name in VIEWS:
            return f"{name} is a view, and made no numbers. The name of its maker is asked."
        if name in inputs:
            return f"{name} is an input of this graph, and no operator: the word is `input`."
        if name not in targets:
            return f"{name} is no operator of this graph: one is named by all of str(node.target)."
    return ""


def _too_few_or_many(got: Any, want: Saved) -> str:
    """What is true of the first pair that comes more often than it should, or else less often."""
    pairs = list(map(_as_pair, got)) if isinstance(got, (list, tuple)) else []
    if not all(isinstance(pair, tuple) and isinstance(pair[0], str) for pair in pairs):
        return ""
    if not all(type(size) is int for _, shape in pairs for size in shape):
        return ""
    shapes: dict[str, list[str]] = {}
    for op, shape in want:
        shapes.setdefault(op, []).append(str(shape))
    for pair in pairs:
        if pairs.count(pair) <= want.count(pair):
            continue
        if pair in want:
            return (
                f"{pair} is here more often than nodes of that operator and shape made what is "
                "kept. One node is taken once, also where its result is kept as several views."
            )
        if pair[0] in shapes:
            return (
                f"{pair} is not kept. What is kept under the name {pair[0]} has these shapes: "
                f"{', '.join(shapes[pair[0]])}. A shape is that of the maker, not of a view."
            )
        return f"{pair} is not kept: it stands for nothing behind the result of `step`."
    missing = [pair for pair in want if pairs.count(pair) < want.count(pair)]
    if not pairs or not missing:
        return ""
    return (
        f"{missing[0]} is missing, or is here too seldom: the forward returns it, or a view of it, "
        "behind the result of `step`."
    )


def _as_pair(entry: Any) -> Any:
    if not isinstance(entry, (list, tuple)) or len(entry) != 2:
        return describe(entry)
    name, shape = entry
    return name, tuple(shape) if isinstance(shape, (list, tuple)) else describe(shape)


@remembered
def _forward(source: str, calls: Sequence[Arguments]) -> fx.Graph:
    """The forward graph that the partitioner cut off; calls holds the arguments and `keep`."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import partitioners
    from torch._functorch._aot_autograd.utils import make_boxed_func

    (*args, keep), graphs = calls[0], []

    def take(graph_module: fx.GraphModule, example_inputs: list[Tensor]) -> Any:
        graphs.append(graph_module.graph)
        return make_boxed_func(graph_module.forward)

    cuts: dict[Any, Callable[..., Any]] = {
        ALL: partitioners.default_partition,
        FEWEST: partitioners.min_cut_rematerialization_partition,
    }
    backend = aot_autograd(fw_compiler=take, partition_fn=cuts[keep])
    torch.compile(load(source), backend=backend)(*args)
    graph: fx.Graph = graphs[0]
    return graph


def _returned(source: str, args: Arguments, keep: str) -> list[fx.Node]:
    """The result of `step`, and what is saved besides."""
    *_, output = _forward(source, [[*args, keep]]).nodes
    returned: list[fx.Node] = list(output.args[0])
    return returned


def _maker(node: fx.Node) -> fx.Node:
    while str(node.target) in VIEWS:
        (node,) = node.all_input_nodes
    return node


def _named(nodes: Sequence[fx.Node]) -> Saved:
    return [
        ("input" if n.op == "placeholder" else str(n.target), tuple(n.meta["val"].shape))
        for n in nodes
    ]


def _saved(source: str, args: Arguments, keep: str) -> Saved:
    return _named(list(dict.fromkeys(map(_maker, _returned(source, args, keep)[1:]))))


@what_is_saved.wrong(
    "result_too",
    "The first result of the forward graph is the result of `step`. It is handed to the caller; "
    "saved are those behind it.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named([_maker(n) for n in _returned(source, args, keep)])


@what_is_saved.wrong(
    "result_once",
    "The result of `step` is listed, and it is not among what is saved here. Saved is what stands "
    "behind the first one that the forward returns.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named(list(dict.fromkeys(map(_maker, _returned(source, args, keep)))))


@what_is_saved.wrong(
    "inputs_left_out",
    "The inputs are missing. The product's backward reads x, so the forward returns it, although "
    "it made no copy: besides the gradient that comes in, the backward gets only what the forward "
    "returns.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return [entry for entry in _saved(source, args, keep) if entry[0] != "input"]


@what_is_saved.wrong(
    "inputs_only",
    "These are the inputs of the forward graph. Saved is what it returns behind its result.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named([n for n in _forward(source, [[*args, keep]]).nodes if n.op == "placeholder"])


@what_is_saved.wrong(
    "everything_made",
    "All that the forward makes is listed. Saved is only what it returns behind its result.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named([n for n in _forward(source, [[*args, keep]]).nodes if n.op != "output"])


what_is_saved.wrong(
    "one_partitioner",
    "This is what the other partitioner saves. `keep` decides: the one that saves fewest runs "
    "cheap operations again in the backward.",
    what_is_saved=lambda source, args, keep: _saved(source, args, ALL),
)
what_is_saved.wrong(
    "views_named",
    "A view stands here in place of what made its numbers, or twice. Ask `maker` first, then take "
    "each node once.",
    what_is_saved=lambda source, args, keep: _named(_returned(source, args, keep)[1:]),
)


@what_is_saved.wrong(
    "made_twice",
    "One result is kept twice, as itself or as views, so its maker stands here twice. Its numbers "
    "lie in memory "
    "once: take each maker once.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named(list(map(_maker, _returned(source, args, keep)[1:])))


@what_is_saved.wrong(
    "node_names",
    "These are the nodes' names. The operator was asked for: str(node.target).",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    nodes = dict.fromkeys(map(_maker, _returned(source, args, keep)[1:]))
    return [(n.name, tuple(n.meta["val"].shape)) for n in nodes]


@what_is_saved.wrong(
    "equal_pairs_once",
    "Two nodes gave the same pair, and one of them is missing: each made numbers of its own. "
    "Remember the nodes, not what you wrote down about them.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return list(dict.fromkeys(_saved(source, args, keep)))


@what_is_saved.wrong(
    "floats_only",
    "Only floats are here. A mask that the backward reads, of bools, is kept as well.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    nodes = dict.fromkeys(map(_maker, _returned(source, args, keep)[1:]))
    return _named([node for node in nodes if node.meta["val"].is_floating_point()])


@what_is_saved.wrong(
    "shape_of_the_view",
    "The operator is the maker's, and the shape that of the view. Both belong to the node that "
    "made the numbers.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    makers: dict[fx.Node, fx.Node] = {}
    for node in _returned(source, args, keep)[1:]:
        makers.setdefault(_maker(node), node)
    shapes = [shape for _, shape in _named(list(makers.values()))]
    return [(op, shape) for (op, _), shape in zip(_named(list(makers)), shapes, strict=True)]


@what_is_saved.wrong(
    "inputs_by_name",
    "An input was named after its node. It is no operator: the word is `input`.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    nodes = dict.fromkeys(map(_maker, _returned(source, args, keep)[1:]))
    return [(str(n.target), tuple(n.meta["val"].shape)) for n in nodes]


what_is_saved.wrong(
    "first_one_missing",
    "The first of what is kept is missing. Only one result stands before it, that of `step`.",
    what_is_saved=lambda source, args, keep: _named(
        list(dict.fromkeys(map(_maker, _returned(source, args, keep)[2:])))
    ),
)
what_is_saved.wrong(
    "always_fewest",
    "This is what the partitioner saves that saves fewest. `keep` decides which of the two cuts.",
    what_is_saved=lambda source, args, keep: _saved(source, args, FEWEST),
)


SHORT = "These are short names. An operator's name is all of str(node.target): `aten.tanh.default`."


@what_is_saved.wrong("nodes_of_operators", SHORT)
def _(source: str, args: Arguments, keep: str) -> Saved:
    nodes = list(dict.fromkeys(map(_maker, _returned(source, args, keep)[1:])))
    names = ["input" if n.op == "placeholder" else n.name for n in nodes]
    return [(name, shape) for name, (_, shape) in zip(names, _named(nodes), strict=True)]


@what_is_saved.wrong(
    "makers_of_everything",
    "All that the forward makes is listed. Saved is only what it returns behind its result.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    *nodes, _ = _forward(source, [[*args, keep]]).nodes
    return _named(list(dict.fromkeys(map(_maker, nodes))))


@what_is_saved.wrong(
    "every_input",
    "Each input is listed. Only those are kept that the backward reads.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    inputs = [n for n in _forward(source, [[*args, keep]]).nodes if n.op == "placeholder"]
    kept = map(_maker, _returned(source, args, keep)[1:])
    return _named(list(dict.fromkeys([*inputs, *kept])))


@what_is_saved.wrong(
    "views_left_out",
    "What is kept through a view is missing. A view makes no numbers, and its maker does: ask "
    "`maker`.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named([n for n in _returned(source, args, keep)[1:] if _maker(n) is n])


@what_is_saved.wrong(
    "result_never",
    "The result of `step` is missing where it is kept as well. tanh reads its own result again.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    result, *kept = map(_maker, _returned(source, args, keep))
    return _named(list(dict.fromkeys(n for n in kept if n is not result)))


@what_is_saved.wrong(
    "each_operator_once",
    "Each name is here once. Two nodes can have one name, as two inputs do, and each is kept.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for entry in _saved(source, args, keep):
        found.setdefault(entry[0], entry)
    return list(found.values())


@what_is_saved.wrong(
    "result_last",
    "The last of what is kept is missing. The result of `step` stands first, and all the rest is "
    "kept.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    return _named(list(dict.fromkeys(map(_maker, _returned(source, args, keep)[:-1]))))


@what_is_saved.wrong(
    "one_view_back",
    "A view of a view was not followed to its end. `maker` goes on until it meets what made the "
    "numbers.",
)
def _(source: str, args: Arguments, keep: str) -> Saved:
    kept = _returned(source, args, keep)[1:]
    back = [n.all_input_nodes[0] if _maker(n) is not n else n for n in kept]
    return _named(list(dict.fromkeys(back)))


what_is_saved.wrong(
    "inputs_of_them",
    "The inputs are the only ones here. An operator's result is kept as well, where backward reads "
    "it.",
    what_is_saved=lambda source, args, keep: [
        entry for entry in _saved(source, args, keep) if entry[0] == "input"
    ],
)


def _written(name: str, sentence: str, write: Callable[[str, tuple[int, ...]], Any]) -> None:
    what_is_saved.wrong(
        name,
        sentence,
        what_is_saved=lambda source, args, keep: [
            write(*entry) for entry in _saved(source, args, keep)
        ],
    )


_written(
    "short_names",
    SHORT,
    lambda op, shape: (op.split(".")[1] if "." in op else op, shape),
)
_written(
    "numbers_of_elements",
    "The second of each pair is how many elements there are. The shape is asked.",
    lambda op, shape: (op, torch.Size(shape).numel()),
)
_written("names_alone", "Only names came. Each has its shape beside it.", lambda op, shape: op)
_written(
    "shape_first",
    "The pairs are the wrong way round: the name, then the shape.",
    lambda op, shape: (shape, op),
)


@what_is_saved.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    source, _ = _program(draw, ("sin", "cos", "tanh"))
    kept = [
        sum(
            4 * torch.Size(shape).numel()
            for _, shape in student.call("what_is_saved", source, [draw.tensor(32, 64), w, b], keep)
        )
        for keep in (ALL, FEWEST)
    ]
    return f"N = 32 at the head: {kept[0]:,} bytes kept, or {kept[1]:,} and the cheap part again"
