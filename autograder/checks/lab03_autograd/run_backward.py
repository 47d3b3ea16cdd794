"""An engine in the order of torch's."""

from __future__ import annotations

from typing import Any

from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, expect_equal, expect_tuple

from . import lab
from .faulty_engine import by_number, edges_of, engine
from .torchs_engine import (
    Node,
    Nodes,
    Ran,
    cancelled_graph,
    drawn_graph,
    ended_graph,
    fixed_graph,
    reachable,
    settled,
    told_backwards,
    torchs_run,
)


@lab.question(
    "run_backward",
    points=5,
    minutes=22,
    difficulty=4,
    hints=(
        "When may a node run? Count, before you start, how many gradients will arrive at it.",
        "Count the edges that start at a reached node: as many gradients will arrive where they "
        "end. Then: take the ready node with the highest number, give each child factor * "
        "gradient, and call the child ready when its last gradient has arrived. A leaf writes "
        "nothing but grad[leaf].",
        "waiting[child] -= 1; if waiting[child] == 0: ready.append(child)",
    ),
)
def run_backward(student: Student, draw: Draw) -> None:
    """An engine that visits the nodes of a graph in torch's order and accumulates in the leaves.

    nodes: name -> {"sequence": when it was made, None for a leaf; "next": [(name or None, factor),
    ...]}, root: a name, grad: leaf -> what its .grad holds already (no entry: nothing) ->
    (the names in the order in which they ran, grad afterwards).
    """
    graphs = [fixed_graph(), cancelled_graph(), told_backwards(fixed_graph()), ended_graph()]
    graphs += [drawn_graph(draw) for _ in draw.cases(5)]
    nodes, _, grad = fixed_graph()
    graphs.append((nodes, "w", grad))  # the root may be a leaf
    for nodes, root, given in graphs:
        got = student.call("run_backward", nodes, root, given)
        order, after = torchs_run(nodes, root, given)
        mine, grad = expect_tuple(got, 2, "(order, grad)")
        _expect_order(mine, order, nodes)
        # Leaves that are complete at one moment may run either way round, and a diagnosis does not
        # know it: what `grad` holds tells the mistake all the same.
        with known_by_this_call(run_backward, student, got, nodes, root, given):
            expect_equal(grad, after)


# Said by the check itself, of any order: there are more orders than a list of answers can hold.
ANOTHER_ORDER = (
    "Each node ran once, and after all that feed it, so the gradients can be right. But torch's "
    "order is one in particular: of the ready nodes the one with the highest sequence runs first, "
    "and a leaf as soon as it is complete."
)
LEFT_OUT = (
    "Nodes are missing here. Each node that the root can reach runs, whatever arrives at it: a 0.0 "
    "and a sum of 0.0 are gradients like any other."
)
TOO_EARLY = (
    "A node stands here before one that feeds it. It runs when all its gradients have arrived: "
    "count first how many will come."
)


def _expect_order(got: Any, want: list[str], nodes: Nodes) -> None:
    why = ""
    if isinstance(got, (list, tuple)) and sorted(map(str, got)) == sorted(want):
        why = TOO_EARLY if _too_early(list(got), nodes) else ANOTHER_ORDER
    elif isinstance(got, (list, tuple)) and set(map(str, got)) < set(want):
        why = LEFT_OUT
    expect_equal(settled(got, nodes), settled(want, nodes), why=why)


def _too_early(order: list[str], nodes: Nodes) -> bool:
    """Whether a node stands before one that feeds it."""
    place = {name: k for k, name in enumerate(order)}
    return any(place[child] < place[name] for name in order for child, _ in edges_of(nodes[name]))


EACH_PATH = (
    "A node ran once for every path that leads to it. The gradients are right, but torch waits "
    "until all of a node's gradients have arrived, adds them, and runs it once."
)


@run_backward.wrong(
    "once_per_path",
    EACH_PATH,
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order: list[str] = []
    after = dict(grad)

    def visit(name: str, arrived: float) -> None:
        order.append(name)
        if nodes[name]["sequence"] is None:
            after[name] = after.get(name, 0.0) + arrived
        for child, factor in nodes[name]["next"]:
            if child is not None:
                visit(child, factor * arrived)

    visit(root, 1.0)
    return order, after


@run_backward.wrong(
    "does_not_wait",
    "A node ran before all its gradients had arrived, so the later ones were lost. Count first how "
    "many will come.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived, ready, order, after = {root: 1.0}, [root], list[str](), dict(grad)
    while ready:
        name = ready.pop(0)
        order.append(name)
        if nodes[name]["sequence"] is None:
            after[name] = after.get(name, 0.0) + arrived[name]
        for child, factor in nodes[name]["next"]:
            if child is not None and child not in order:
                arrived[child] = arrived.get(child, 0.0) + factor * arrived[name]
                ready += [] if child in ready else [child]
    return order, after


run_backward.wrong(
    "first_come_first_served",
    "The gradients are right, the order is that of a queue. Among the nodes that are ready torch "
    "takes the one with the highest sequence number: the one made last.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, rank=lambda node: 0.0),
)


@run_backward.wrong(
    "leaves_last",
    "The leaves ran at the end. torch gives AccumulateGrad the highest number there is: a leaf "
    "runs as soon as its gradient is complete.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    def leaves_last(node: Node) -> float:
        return -1.0 if node["sequence"] is None else by_number(node)

    return engine(nodes, root, grad, rank=leaves_last)


run_backward.wrong(
    "grad_overwritten",
    "The gradient that a leaf held before was overwritten. AccumulateGrad adds to it; that is why "
    "zero_grad exists.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, overwrite=True),
)
run_backward.wrong(
    "last_arrival_wins",
    "Of several gradients that arrive at a node only the last one was kept. They add up.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, last_arrival=True),
)
run_backward.wrong(
    "last_entry_alone_sends",
    "Of several entries of one node for the same child only the last was sent. Each entry sends a "
    "gradient, and they add up.",
    run_backward=lambda nodes, root, grad: engine(
        {name: {**node, "next": list(dict(node["next"]).items())} for name, node in nodes.items()},
        root,
        grad,
    ),
)
run_backward.wrong(
    "unreachable_counted",
    "A node waits for a gradient that never comes: its sender cannot be reached from the root. "
    "Count only edges that start at a node which can.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, counted="whole"),
)


@run_backward.wrong(
    "an_order_of_its_own",
    ANOTHER_ORDER,
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    """The sorted walk that small autograd engines use: depth first, then reversed."""
    finished: dict[str, None] = {}

    def build(name: str) -> None:
        for child, _ in edges_of(nodes[name]):
            if child not in finished:
                build(child)
        finished[name] = None

    build(root)
    return list(finished)[::-1], engine(nodes, root, grad)[1]


run_backward.wrong(
    "edges_counted_once",
    "A leaf ran too early: a node that reads it twice sends it two gradients. Count each edge, not "
    "each sender.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, counted="senders"),
)


@run_backward.wrong(
    "leaf_on_each_arrival",
    "A leaf ran each time that a gradient arrived. `.grad` is right in the end, but AccumulateGrad "
    "is a node like the others: it runs once, with the sum.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    inner, ran = [name for name in order if nodes[name]["sequence"] is not None], list[str]()
    for name in inner:
        leaves = [c for c, _ in edges_of(nodes[name]) if nodes[c]["sequence"] is None]
        ran += [name, *leaves]
    return ran, after


ZERO = (
    "The very first node has sequence 0, and 0 is false in Python: it was taken for a leaf. Ask "
    "`sequence is None`."
)


@run_backward.wrong("zero_ranks_as_a_leaf", ZERO)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, grad, rank=lambda node: node["sequence"] or float("inf"))


@run_backward.wrong("zero_is_a_leaf", ZERO)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    made = {name: {**node, "sequence": node["sequence"] or None} for name, node in nodes.items()}
    return engine(made, root, grad)


@run_backward.wrong(
    "a_grad_expected",
    "A leaf that has no entry in `grad` holds nothing yet, like a tensor whose .grad is None: "
    "grad.get(leaf, 0.0).",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, _ = engine(nodes, root, grad)
    leaves = [name for name in order if nodes[name]["sequence"] is None]
    return order, {leaf: grad[leaf] for leaf in leaves}


@run_backward.wrong(
    "other_leaves_dropped",
    "A leaf that backward did not reach has lost its gradient. Start from all of `grad`, and add "
    "to the leaves that ran.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return order, {leaf: held for leaf, held in after.items() if leaf in order}


@run_backward.wrong(
    "zero_is_not_sent",
    "A gradient of 0.0 is a gradient too: it arrives, and who waits for it has to hear of it. "
    "Skip an edge where the child is None, not where the number is 0.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, grad, silent_zero=True)


@run_backward.wrong(
    "zero_is_not_run",
    "A node whose gradients add up to 0.0 was left out. It runs like the others, and a leaf's "
    ".grad of None becomes 0.0.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, after = engine(nodes, root, grad, kept=arrived)
    ran = [name for name in order if arrived[name]]
    return ran, {leaf: held for leaf, held in after.items() if leaf in grad or leaf in ran}


@run_backward.wrong(
    "zero_is_not_written",
    "A leaf at which 0.0 arrived has no entry. 0.0 is false in Python, and a gradient like any "
    "other: the leaf's .grad of None becomes 0.0.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, after = engine(nodes, root, grad, kept=arrived)
    return order, {leaf: held for leaf, held in after.items() if leaf in grad or arrived[leaf]}


@run_backward.wrong(
    "root_writes_nothing",
    "The root is a leaf here, and the 1.0 that arrives at it did not reach its .grad. It is a "
    "gradient like any other: the leaf adds it to what it holds.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return order, grad if nodes[root]["sequence"] is None else after


@run_backward.wrong(
    "local_number_alone",
    "A node handed on the number of its edge alone. The chain rule multiplies it by the gradient "
    "that arrived at the node.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, grad, along=lambda factor, arrived: factor)


@run_backward.wrong(
    "added_along_the_path",
    "Numbers along a path were added. Along a path they multiply; only where paths meet, "
    "gradients add up.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, grad, along=lambda factor, arrived: factor + arrived)


@run_backward.wrong(
    "leaves_not_in_the_order",
    "The leaves are missing in the order. AccumulateGrad is a node like the others, and it runs.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return [name for name in order if nodes[name]["sequence"] is not None], after


@run_backward.wrong(
    "held_gradients_forgotten",
    "What the leaves held before is gone: grad began empty. Start from a copy, `dict(grad)`.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, {})


@run_backward.wrong(
    "all_that_arrived",
    "This is what arrived at every node. Only leaves have a `.grad`, and it adds to what they "
    "held.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, _ = engine(nodes, root, grad, kept=arrived)
    return order, arrived


@run_backward.wrong(
    "lowest_first",
    "Of the nodes that are ready the one with the lowest number ran first. torch takes the "
    "highest: the node made last, and a leaf before all others.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return engine(nodes, root, grad, rank=lambda node: -by_number(node))


@run_backward.wrong(
    "once_per_path_by_levels",
    EACH_PATH,
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    after, order, ready = dict(grad), list[str](), [(root, 1.0)]
    for name, arrived in ready:
        order.append(name)
        if nodes[name]["sequence"] is None:
            after[name] = after.get(name, 0.0) + arrived
        ready += [(child, factor * arrived) for child, factor in edges_of(nodes[name])]
    return order, after


@run_backward.wrong(
    "nobody_looked_up",
    "`None` in place of a name says that nobody needs this gradient, and there is no node of that "
    "name. Skip such an entry, where you count and where you send.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    names: list[str | None] = [child for name in nodes for child, _ in nodes[name]["next"]]
    return engine(nodes, root, grad) if None not in names else nodes[None]  # type: ignore[index,return-value]


@run_backward.wrong(
    "every_node_has_a_grad",
    "Inner nodes have an entry in `grad` here. Only a leaf has a `.grad`: its sequence is None.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, after = engine(nodes, root, grad, kept=arrived)
    inner = {name: got for name, got in arrived.items() if name not in after}
    return order, {**after, **inner}


@run_backward.wrong(
    "last_node_is_a_leaf",
    "A node from which no way leads on has an entry in `grad` here. That makes it no leaf: only a "
    "leaf has a `.grad`, and its sequence is None.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, after = engine(nodes, root, grad, kept=arrived)
    last = {name: arrived[name] for name in order if not edges_of(nodes[name])}
    return order, {**last, **after}


run_backward.wrong(
    "edge_number_ignored",
    "The numbers in `next` were not used: each child got what its sender had. The chain rule "
    "multiplies by the local number.",
    run_backward=lambda nodes, root, grad: engine(
        nodes, root, grad, along=lambda factor, arrived: arrived
    ),
)


@run_backward.wrong(
    "zero_keeps_a_grad",
    ZERO,
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    arrived: dict[str, float] = {}
    order, after = engine(nodes, root, grad, kept=arrived)
    first = {name: got for name, got in arrived.items() if nodes[name]["sequence"] == 0}
    return order, {**after, **first}


@run_backward.wrong(
    "new_leaves_dropped",
    "A leaf that had no entry in `grad` has none afterwards. Its .grad was None, and now it is "
    "what arrived: grad.get(leaf, 0.0) + arrived.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return order, {leaf: after[leaf] for leaf in grad}


@run_backward.wrong(
    "held_gradients_kept",
    "A leaf that held a gradient still holds the same, and the new one is lost. It adds: "
    "grad.get(leaf, 0.0) + arrived.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return order, {**after, **grad}


@run_backward.wrong(
    "grad_written",
    "The gradients were written into the `grad` that was passed in. Add to a copy, dict(grad), "
    "and return that.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    grad.update(after)
    return order, grad


@run_backward.wrong(
    "leaves_first",
    "The nodes ran in the order of their numbers alone, and the leaves, which have the highest, "
    "before anything had arrived. A node waits for all its gradients; the number decides only "
    "among those that are ready.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    names = reachable(nodes, root)
    leaves = [name for name in names if nodes[name]["sequence"] is None]
    inner = sorted((n for n in names if n not in leaves), key=lambda n: -nodes[n]["sequence"])
    return leaves + inner, {**dict.fromkeys(leaves, 0.0), **grad}


run_backward.wrong(
    "ready_at_each_arrival",
    "A node was called ready each time that a gradient arrived, so it ran several times, and sent "
    "on again what it had sent before. Call it ready once, when its last gradient is there.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, early=float("inf")),
)


run_backward.wrong(
    "ready_one_too_early",
    "A node was called ready while it still waited for one gradient. It is ready when the count "
    "has come down to 0.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad, early=1),
)


run_backward.wrong(
    "never_ready",
    "Only the root has run. A gradient that has arrived is one less to wait for: count down, and "
    "call the child ready at 0.",
    run_backward=lambda nodes, root, grad: ([root], dict(grad)),
)


run_backward.wrong(
    "grad_first",
    "The gradients come first here: (order, grad) was asked for.",
    run_backward=lambda nodes, root, grad: engine(nodes, root, grad)[::-1],
)


@run_backward.wrong(
    "running_sums_added",
    "A leaf added its sum so far at each arrival, so what came first counts more than once. Add "
    "what arrives, or the sum once, at the end.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, _ = engine(nodes, root, grad)
    arrived, after = {root: 1.0}, dict(grad)
    for name in order:
        for child, factor in edges_of(nodes[name]):
            arrived[child] = arrived.get(child, 0.0) + factor * arrived[name]
            if nodes[child]["sequence"] is None:
                after[child] = after.get(child, 0.0) + arrived[child]
    return order, after


@run_backward.wrong(
    "began_with_one",
    "A leaf that held nothing began with 1.0. It begins with 0.0: the 1.0 is what arrives at the "
    "root.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    order, after = engine(nodes, root, grad)
    return order, {leaf: g + (leaf not in grad) for leaf, g in after.items()}


@run_backward.cost
def _(student: Student, draw: Draw) -> str:
    nodes, root, grad = fixed_graph()
    order, _ = student.call("run_backward", nodes, root, grad)
    inside = reachable(nodes, root)
    edges = sum(child is not None for name in inside for child, _ in nodes[name]["next"])
    return (
        f"{len(order)} nodes run once each, {edges} products along {edges} edges: the cost grows "
        "with the edges, not with the paths"
    )
