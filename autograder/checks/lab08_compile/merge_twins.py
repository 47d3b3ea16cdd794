"""Detective case: a pass that merges equal nodes, and loses writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, Wrong
from onelayer.compiler.listing import graph_of, listing_of

from . import lab
from .listings import Inputs, Rows, expect_same, named, operators, read

INPUTS = (
    "An input that nobody reads is gone. It is no operator, and the caller still hands it over."
)
_OTHER_GRAPH = (
    "Run, the graph that came back does something else. Twins have the same operator, the same "
    "arguments and the same keywords, and no write between them or into one of them later; writes "
    "and draws stay."
)
_SOMETHING_LEFT = (
    "Something is left that could go: a twin, also of what became one when others were merged, or "
    "a node that nobody reads and that neither writes nor draws."
)
_RAISED = {
    "AttributeError: 'str' object": "`_schema` belongs to the operator of a call_function node. "
    "Inputs and the output have no operator: skip them first.",
    "RuntimeError": "torch.fx erases a node only when nobody reads it any more.",
}


@lab.question(
    "merge_twins",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Run the pass on the graph of the page and look at what is gone. Which operators do "
        "something even if nobody reads their result?",
        "`node.target._schema.is_mutable` says that an operator writes into an argument, and "
        "`torch.Tag.nondeterministic_seeded in node.target.tags` that it draws random numbers. "
        "Such a node is neither merged nor swept away; what was read before a write is no twin of "
        "what is read after it; and a twin that is written later needs memory of its own.",
        "for node in reversed(graph.nodes), if it writes, or is itself in `written` and a view "
        "(`node.target._schema.returns[0].alias_info`): written.add(node.args[0])",
    ),
    by_effect=True,
)
def merge_twins(student: Student, draw: Draw) -> None:
    """Detective case: the pass as found merges equal nodes and sweeps away what nobody reads, and
    loses writes. Make it right.

    rows -> rows after the pass: same results and same inputs afterwards; no twins with no write
    between them or into them later; nothing unread that neither writes nor draws.
    """
    cases: list[Sequence[str]] = [
        ("twins", "dead", "alphas"),
        ("write unread", "twins"),
        ("write twice", "twins"),
        ("write between", "twins"),
        ("write into what was made", "twins"),
        ("write through a view", "dead"),
        ("twin written", "twins"),
        ("twin written through a view", "dead"),
        ("drawn twice", "twins"),
        ("drawn unread", "dead"),
        ("twin views", "alphas"),
        ("twin viewed", "twins"),
        ("twins under a written one", "dead"),
        ("twins around a draw", "turned"),
        ("twins of the written", "dead"),
        ("written again by its name", "twins"),
        ("twins of twins", "numbers", "three"),
        ("added", "scaled", "read by a write"),
        ("dead", "dead view", "write unread", "result"),
        ("twins of a draw", "result"),
        ("twin written through two views", "twins"),
        ("read through a view", "twins"),
        ("signed zeros", "twins"),
        ("equal numbers", "dead"),
        *([draw.choice(list(_PARTS)) for _ in range(4)] for _ in draw.cases(2)),
    ]
    seen: list[tuple[Rows, Rows, Inputs]] = []
    for parts in cases:
        rows, inputs = _drawn(draw, parts)
        with explaining(_RAISED):
            got = read(student.call("merge_twins", rows))
        seen.append((got, rows, inputs))
        with named(merge_twins, seen):
            with saying(_OTHER_GRAPH):
                expect_same(got, rows, inputs)
            given, kept = ([name for name, op, _, _ in r if op == "input"] for r in (rows, got))
            if sorted(kept) != sorted(given):
                asked = f"inputs {', '.join(given)}"
                raise Wrong(expected=asked, got=f"inputs {', '.join(kept)}", why=INPUTS)
            want, left = len(operators(_merged(rows))), len(operators(got))
            if left > want:
                raise Wrong(
                    expected=f"{want} operators", got=f"{left} operators", why=_SOMETHING_LEFT
                )


# Each part reads h (N, N), leaves the next h under the name h{k}, and may write into `state`.
_PARTS: dict[str, Callable[[str, int, float], Rows]] = {
    "twins": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"h{k}", "aten.add.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "dead": lambda h, k, a: [
        (f"d{k}", "aten.exp.default", [h], {}),
        (f"e{k}", "aten.relu.default", [f"d{k}"], {}),
        (f"h{k}", "aten.neg.default", [h], {}),
    ],
    "alphas": lambda h, k, a: [
        (f"p{k}", "aten.add.Tensor", [h, "x"], {}),
        (f"q{k}", "aten.add.Tensor", [h, "x"], {"alpha": a}),
        (f"h{k}", "aten.mul.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "write unread": lambda h, k, a: [
        (f"w{k}", "aten.add_.Tensor", ["state", a], {}),
        (f"h{k}", "aten.abs.default", [h], {}),
    ],
    "write twice": lambda h, k, a: [
        (f"v{k}", "aten.mul_.Tensor", ["state", a], {}),
        (f"w{k}", "aten.mul_.Tensor", ["state", a], {}),
        (f"h{k}", "aten.add.Tensor", [h, f"w{k}"], {}),
    ],
    "write between": lambda h, k, a: [
        (f"p{k}", "aten.mul.Tensor", ["state", 2], {}),
        (f"w{k}", "aten.add_.Tensor", ["state", "x"], {}),
        (f"q{k}", "aten.mul.Tensor", ["state", 2], {}),
        (f"s{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", h], {}),
    ],
    "write into what was made": lambda h, k, a: [
        (f"m{k}", "aten.tanh.default", [h], {}),
        (f"p{k}", "aten.neg.default", [f"m{k}"], {}),
        (f"w{k}", "aten.add_.Tensor", [f"m{k}", "state"], {}),
        (f"q{k}", "aten.neg.default", [f"m{k}"], {}),
        (f"s{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", h], {}),
    ],
    "write through a view": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", ["state"], {}),
        (f"t{k}", "aten.t.default", ["state"], {}),
        (f"w{k}", "aten.add_.Tensor", [f"t{k}", "x"], {}),
        (f"q{k}", "aten.tanh.default", ["state"], {}),
        (f"s{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", h], {}),
    ],
}


_PARTS |= {
    "twin written": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"w{k}", "aten.add_.Tensor", [f"q{k}", a], {}),
        (f"h{k}", "aten.sub.Tensor", [f"w{k}", f"p{k}"], {}),
    ],
    "twin written through a view": lambda h, k, a: [
        (f"p{k}", "aten.neg.default", [h], {}),
        (f"q{k}", "aten.neg.default", [h], {}),
        (f"t{k}", "aten.t.default", [f"p{k}"], {}),
        (f"w{k}", "aten.mul_.Tensor", [f"t{k}", a], {}),
        (f"h{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
    ],
    "drawn twice": lambda h, k, a: [
        (f"p{k}", "aten.rand_like.default", [h], {}),
        (f"q{k}", "aten.rand_like.default", [h], {}),
        (f"h{k}", "aten.sub.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "drawn unread": lambda h, k, a: [
        (f"p{k}", "aten.rand_like.default", [h], {}),
        (f"q{k}", "aten.rand_like.default", [h], {}),
        (f"h{k}", "aten.add.Tensor", [h, f"q{k}"], {}),
    ],
    "twin views": lambda h, k, a: [
        (f"p{k}", "aten.t.default", [h], {}),
        (f"q{k}", "aten.t.default", [h], {}),
        (f"h{k}", "aten.add.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "twins around a draw": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"r{k}", "aten.rand_like.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"s{k}", "aten.mul.Tensor", [f"p{k}", f"r{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", f"q{k}"], {}),
    ],
    "turned": lambda h, k, a: [
        (f"p{k}", "aten.sub.Tensor", [h, "state"], {}),
        (f"q{k}", "aten.sub.Tensor", ["state", h], {}),
        (f"h{k}", "aten.mul.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "twins of the written": lambda h, k, a: [
        (f"p{k}", "aten.mul.Tensor", ["state", a], {}),
        (f"q{k}", "aten.mul.Tensor", ["state", a], {}),
        (f"w{k}", "aten.add_.Tensor", ["state", "x"], {}),
        (f"s{k}", "aten.sub.Tensor", [f"p{k}", f"w{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", f"q{k}"], {}),
    ],
    "written again by its name": lambda h, k, a: [  # v returns `state`, which w writes into
        (f"v{k}", "aten.add_.Tensor", ["state", "x"], {}),
        (f"p{k}", "aten.tanh.default", [f"v{k}"], {}),
        (f"w{k}", "aten.mul_.Tensor", ["state", a], {}),
        (f"q{k}", "aten.tanh.default", [f"v{k}"], {}),
        (f"s{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", h], {}),
    ],
    "twin viewed": lambda h, k, a: [  # and not written into
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"t{k}", "aten.t.default", [f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"t{k}", f"q{k}"], {}),
    ],
    "twins of twins": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"r{k}", "aten.neg.default", [f"p{k}"], {}),
        (f"s{k}", "aten.neg.default", [f"q{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"r{k}", f"s{k}"], {}),
    ],
    "three": lambda h, k, a: [
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"r{k}", "aten.tanh.default", [h], {}),
        (f"s{k}", "aten.add.Tensor", [f"p{k}", f"q{k}"], {}),
        (f"h{k}", "aten.mul.Tensor", [f"s{k}", f"r{k}"], {}),
    ],
    "numbers": lambda h, k, a: [  # no twins: another number
        (f"p{k}", "aten.mul.Tensor", [h, a], {}),
        (f"q{k}", "aten.mul.Tensor", [h, a + 1], {}),
        (f"h{k}", "aten.add.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "added": lambda h, k, a: [  # another second argument
        (f"p{k}", "aten.add.Tensor", [h, "x"], {}),
        (f"q{k}", "aten.add.Tensor", [h, "state"], {}),
        (f"h{k}", "aten.mul.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "scaled": lambda h, k, a: [  # another value of the same keyword
        (f"p{k}", "aten.add.Tensor", [h, "x"], {"alpha": a}),
        (f"q{k}", "aten.add.Tensor", [h, "x"], {"alpha": a + 1}),
        (f"h{k}", "aten.mul.Tensor", [f"p{k}", f"q{k}"], {}),
    ],
    "read by a write": lambda h, k, a: [  # and not written into
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"w{k}", "aten.add_.Tensor", ["state", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"w{k}", f"q{k}"], {}),
    ],
    "dead view": lambda h, k, a: [
        (f"t{k}", "aten.t.default", ["state"], {}),
        (f"u{k}", "aten.leaky_relu.default", [h], {}),  # an underscore that is no write
        (f"h{k}", "aten.abs.default", [h], {}),
    ],
    "result": lambda h, k, a: [  # a twin is what comes out, and the first has a reader of its own
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"h{k}", "aten.tanh.default", [h], {}),
        (f"w{k}", "aten.add_.Tensor", ["state", f"p{k}"], {}),
    ],
    "twins of a draw": lambda h, k, a: [
        (f"r{k}", "aten.rand_like.default", [h], {}),
        (f"p{k}", "aten.mul.Tensor", [f"r{k}", a], {}),
        (f"q{k}", "aten.mul.Tensor", [f"r{k}", a], {}),
        (f"s{k}", "aten.sub.Tensor", [f"p{k}", h], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", f"q{k}"], {}),
    ],
    "twin written through two views": lambda h, k, a: [
        (f"p{k}", "aten.neg.default", [h], {}),
        (f"q{k}", "aten.neg.default", [h], {}),
        (f"t{k}", "aten.t.default", [f"p{k}"], {}),
        (f"u{k}", "aten.t.default", [f"t{k}"], {}),
        (f"w{k}", "aten.mul_.Tensor", [f"u{k}", a], {}),
        (f"h{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
    ],
    "read through a view": lambda h, k, a: [  # what is written by its own name
        (f"t{k}", "aten.t.default", ["state"], {}),
        (f"p{k}", "aten.tanh.default", [f"t{k}"], {}),
        (f"w{k}", "aten.add_.Tensor", ["state", "x"], {}),
        (f"q{k}", "aten.tanh.default", [f"t{k}"], {}),
        (f"s{k}", "aten.sub.Tensor", [f"q{k}", f"p{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [f"s{k}", h], {}),
    ],
    "signed zeros": lambda h, k, a: [  # equal in Python, and no twins
        (f"p{k}", "aten.div.Tensor", ["x", 0.0], {}),
        (f"q{k}", "aten.div.Tensor", ["x", -0.0], {}),
        (f"r{k}", "aten.sub.Tensor", [f"p{k}", f"q{k}"], {}),
        (f"s{k}", "aten.tanh.default", [f"r{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [h, f"s{k}"], {}),
    ],
    "equal numbers": lambda h, k, a: [  # nor are these: int64, bool and float32
        (f"i{k}", "aten.mul.Tensor", ["mask", 1], {}),
        (f"b{k}", "aten.mul.Tensor", ["mask", True], {}),
        (f"f{k}", "aten.mul.Tensor", ["mask", 1.0], {}),
        (f"c{k}", "aten.add.Tensor", [f"b{k}", f"b{k}"], {}),  # True and True are 1, not 2
        (f"p{k}", "aten.add.Tensor", [f"f{k}", 2**24 + 1], {}),  # which float32 has not
        (f"q{k}", "aten.sub.Tensor", [f"p{k}", 2**24], {}),
        (f"r{k}", "aten.sub.Tensor", [f"q{k}", f"i{k}"], {}),
        (f"s{k}", "aten.add.Tensor", [f"r{k}", f"c{k}"], {}),
        (f"h{k}", "aten.add.Tensor", [h, f"s{k}"], {}),
    ],
    "twins under a written one": lambda h, k, a: [  # computed from q, in memory of its own
        (f"p{k}", "aten.tanh.default", [h], {}),
        (f"q{k}", "aten.tanh.default", [h], {}),
        (f"v{k}", "aten.abs.default", [f"q{k}"], {}),
        (f"w{k}", "aten.add_.Tensor", [f"v{k}", a], {}),
        (f"h{k}", "aten.sub.Tensor", [f"w{k}", f"p{k}"], {}),
    ],
}


def _drawn(draw: Draw, parts: Sequence[str]) -> tuple[Rows, Inputs]:
    n = draw.integer(2, 4)
    inputs = {"x": draw.tensor(n, n), "state": draw.tensor(n, n), "mask": torch.eye(n).bool()}
    rows: Rows = [(name, "input", [], {}) for name in inputs]
    h = "x"
    for k, part in enumerate(parts):
        rows += _PARTS[part](h, k, draw.choice((0.5, 1.5, 2.5)))
        h = f"h{k}"
    return [*rows, ("out", "output", [h], {})], inputs


def _merged(
    rows: Rows,
    *,
    keeps_writes: bool = True,
    sweeps: bool = True,
    merges: bool = True,
    forgets: str = "all",
    with_kwargs: bool = True,
    keeps_draws: bool = True,
    later: str = "views",
    draws_forget: bool = False,
    in_order: bool = True,
    views: bool = True,
    of_written: bool = True,
    until_a_write: bool = False,
    once: bool = False,
    sweeps_draws: bool = False,
    merges_writes: bool = False,
    by_value: bool = False,
) -> Rows:
    """The pass, and the ways in which people get it wrong. forgets: what a write makes it forget;
    "all", "name" (only what read the written tensor by its name) or "nothing". later: which writes
    into a twin it minds; "views" (any), "name" (by its name) or "none". once: sweeps from the
    first node to the last. by_value: 1 and True are one argument."""
    graph = graph_of(rows)
    seen: dict[Any, fx.Node] = {}
    written = _written(graph, through_views=later == "views") if later != "none" else set()
    into = {n.args[0] for n in graph.nodes if _writes(n)}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        writes = keeps_writes and node.target._schema.is_mutable
        if (writes and forgets == "all") or (draws_forget and _draws(node)):
            seen.clear()
        if writes and until_a_write:
            break
        is_view = node.target._schema.returns[0].alias_info is not None
        if (not views and is_view) or (not of_written and into & set(node.args)):
            continue
        if writes and forgets == "name":
            seen = {key: twin for key, twin in seen.items() if node.args[0] not in key[1]}
        if node in written or (keeps_draws and _draws(node)):
            continue
        args = node.args if in_order else frozenset(node.args)
        said = () if by_value else tuple(sorted(map(repr, args)))
        key = (node.target, args, tuple(node.kwargs.items()) if with_kwargs else (), said)
        if merges and key in seen and (not writes or merges_writes):
            node.replace_all_uses_with(seen[key])
            graph.erase_node(node)
        elif not writes or merges_writes:
            seen[key] = node
    nodes = list(graph.nodes) if sweeps else []
    for node in nodes if once else reversed(nodes):
        unread = node.op == "call_function" and not node.users
        acts = (keeps_writes and node.target._schema.is_mutable) if unread else False
        stays = unread and keeps_draws and not sweeps_draws and _draws(node)
        if unread and not acts and not stays:
            graph.erase_node(node)
    return listing_of(graph)


def _writes(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target._schema.is_mutable  # type: ignore[union-attr]


def _draws(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]


def _written(graph: fx.Graph, *, through_views: bool) -> set[Any]:
    """The nodes into whose memory a later one writes."""
    written: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op != "call_function":
            continue
        schema = node.target._schema
        is_view = schema.returns[0].alias_info is not None
        if schema.is_mutable or (through_views and is_view and node in written):
            written.add(node.args[0])
    return written


merge_twins.wrong(
    "as_found",
    "Writes got lost: this is what the code as found leaves. An operator that writes into an "
    "argument does so whether or not somebody reads its result, and whatever its node is called.",
    merge_twins=lambda rows: _merged(rows, keeps_writes=False),
)
merge_twins.wrong(
    "stale_read",
    "The writes are there, and a read after a write was merged with one from before it: same "
    "operator, same names, other numbers. A write makes what was seen before useless.",
    merge_twins=lambda rows: _merged(rows, forgets="nothing"),
)
merge_twins.wrong(
    "written_through_a_view",
    "A write through a view was overlooked: `t` has another name than `state`, and the same "
    "storage. Forget all that was seen, or follow the views.",
    merge_twins=lambda rows: _merged(rows, forgets="name"),
)
merge_twins.wrong(
    "written_twin_merged",
    "Two twins were merged, and one of them is written into later: the other was to keep its "
    "numbers. Such a twin needs memory of its own.",
    merge_twins=lambda rows: _merged(rows, later="none"),
)
merge_twins.wrong(
    "twin_written_through_a_view",
    "Two twins were merged, and one of them is written into later through a view: a write into "
    "`t(p)` is a write into p.",
    merge_twins=lambda rows: _merged(rows, later="name"),
)
merge_twins.wrong(
    "draws_merged",
    "A draw of random numbers was merged with another. Each draw gives other numbers, and moves "
    "the generator on for those after it, read or not.",
    merge_twins=lambda rows: _merged(rows, keeps_draws=False),
)
merge_twins.wrong(
    "nothing_merged",
    "Twins are left. Two nodes with the same operator, arguments and keywords, and no write "
    "between them, compute the same, unless they draw random numbers.",
    merge_twins=lambda rows: _merged(rows, merges=False),
)
merge_twins.wrong(
    "dead_nodes_left",
    "Operators are left that nobody reads and that write nothing.",
    merge_twins=lambda rows: _merged(rows, sweeps=False),
)
merge_twins.wrong(
    "keywords_ignored",
    "Two additions with different alpha were merged. A node's kwargs are part of what it computes.",
    merge_twins=lambda rows: _merged(rows, with_kwargs=False),
)
merge_twins.wrong(
    "numbers_by_value",
    "Two nodes were merged whose numbers are equal in Python. 0.0 and -0.0 are two arguments, and "
    "so are 1, 1.0 and True: `repr` tells them apart.",
    merge_twins=lambda rows: _merged(rows, by_value=True),
)
merge_twins.wrong(
    "untouched",
    "The graph is as it was: its twins and its unread operators are still there.",
    merge_twins=lambda rows: rows,
)


merge_twins.wrong(
    "writes_merged",
    "Of two equal writes one is gone. A write acts each time that it runs, and it changes what is "
    "read after it.",
    merge_twins=lambda rows: _merged(rows, merges_writes=True, forgets="nothing"),
)
merge_twins.wrong(
    "draws_swept",
    "A draw that nobody reads was swept away. It moves the generator on for those after it.",
    merge_twins=lambda rows: _merged(rows, sweeps_draws=True),
)
merge_twins.wrong(
    "draws_forget",
    "Twins are left that have a draw of random numbers between them. Unlike a write, it changes "
    "no tensor: they can be merged.",
    merge_twins=lambda rows: _merged(rows, draws_forget=True),
)
merge_twins.wrong(
    "order_ignored",
    "sub(a, b) and sub(b, a) were merged. The order of the arguments is part of what a node "
    "computes.",
    merge_twins=lambda rows: _merged(rows, in_order=False),
)
merge_twins.wrong(
    "views_left",
    "Twins that are views are left. Two equal views of one tensor are twins like any others.",
    merge_twins=lambda rows: _merged(rows, views=False),
)
merge_twins.wrong(
    "readers_of_the_written_left",
    "Twins that read a written tensor are left. With no write between them they read the same.",
    merge_twins=lambda rows: _merged(rows, of_written=False),
)
merge_twins.wrong(
    "before_the_first_write",
    "Twins behind a write are left. A write makes what was seen before useless, and not what "
    "comes.",
    merge_twins=lambda rows: _merged(rows, until_a_write=True),
)
merge_twins.wrong(
    "swept_once",
    "An operator is left that was read by one that is gone. Sweep from the last node to the first.",
    merge_twins=lambda rows: _merged(rows, once=True),
)


@merge_twins.wrong(
    "no_twins_with_a_write",
    "In a graph with a write no twins were merged. Twins on the same side of a write can still be "
    "merged.",
)
def _(rows: Rows) -> Rows:
    return _merged(rows, merges=not any(_writes(node) for node in graph_of(rows).nodes))


@merge_twins.wrong("inputs_swept", INPUTS)
def _(rows: Rows) -> Rows:
    merged = _merged(rows)
    asked = {arg for _, _, args, _ in merged for arg in args}
    return [row for row in merged if row[1] != "input" or row[0] in asked]


@merge_twins.wrong(
    "whole_graph_given_up",
    "A graph with a write in it was left as it was. Twins on the same side of a write can still be "
    "merged.",
)
def _(rows: Rows) -> Rows:
    writes = any(op.partition(".")[2].partition(".")[0].endswith("_") for op in operators(rows))
    return rows if writes else _merged(rows)


@merge_twins.cost
def _(student: Student, draw: Draw) -> str:
    rows, _ = _drawn(draw, ("twins", "write between", "dead", "twins"))
    after = operators(student.call("merge_twins", rows))
    writes = sum(op == "aten.add_.Tensor" for op in after)
    return f"{len(operators(rows))} operators before, {len(after)} after; {writes} write kept"
