"""Lab 03, autograd: what is asked, what is true, what goes wrong.

Every truth comes from the installed torch (its graph, its gradients, its engine, its optimizer) or
from a slow definition; none is a pasted number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import onelayer
from autograder.judge import Draw, Lab, Student, Wrong, describe, expect_close, expect_equal

lab = Lab("03_autograd", "Autograd")

Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]


def _expect_each(got: Any, want: Sequence[Tensor], names: str, *, tolerance: float = 1e-5) -> None:
    """Several tensors in one answer: each close to the wanted one, the first wrong one by name."""
    each = names.split()
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        raise Wrong(expected=f"{len(want)} tensors: {', '.join(each)}", got=describe(got))
    for name, mine, torchs in zip(each, got, want, strict=True):
        try:
            expect_close(mine, torchs, tolerance=tolerance)
        except Wrong as wrong:
            where = f"in {name} {wrong.where}".strip()
            raise Wrong(expected=wrong.expected, got=wrong.got, where=where) from None


# ---- 3.1 walk the real graph

Visit = tuple[str, tuple[int, ...] | None]


@lab.question(
    "walk_graph",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Start at loss.grad_fn. Where does a node keep the nodes that come after it?",
        "`node.next_functions` holds (node, slot) pairs, and the node is None where nobody needs a "
        "gradient. Keep the nodes that you have seen, and do not enter one twice.",
        "if node is None or node in seen: continue",
    ),
)
def walk_graph(student: Student, draw: Draw) -> None:
    """Every node of the real graph behind a loss, each once, in any order.

    tokens (N,), w (V, D), b (V,), target (N,); w and b may or may not require a gradient -> a list
    of (name, shape): the leaf's shape for an AccumulateGrad node, None for every other.
    """
    always = [(True, True), (True, False), (False, True), (False, False)]
    for w_learns, b_learns in always + [draw.choice(always) for _ in draw.cases(1)]:
        n, v, d = draw.integer(2, 5), draw.integer(4, 9), draw.integer(2, 3)
        w = draw.tensor(v, d, requires_grad=w_learns)
        b = draw.tensor(v, requires_grad=b_learns)
        tokens, target = (draw.integers(n, low=0, high=v - 1) for _ in range(2))
        got = student.call("walk_graph", tokens, w, b, target)
        want = _torchs_nodes(_tied_loss(tokens, w, b, target))
        if not isinstance(got, (list, tuple)):
            raise Wrong(expected=f"a list of {len(want)} nodes", got=describe(got))
        _expect_same_nodes(list(map(_as_pair, got)), want)


def _expect_same_nodes(got: list[Any], want: list[Visit]) -> None:
    """Each wanted node once, in any order; says which are missing and which are too many."""
    missing, extra = list(map(str, want)), []
    for node in map(str, got):
        if node in missing:
            missing.remove(node)
        else:
            extra.append(node)
    if missing or extra:
        sides = {"missing": missing, "too many": extra}
        where = "; ".join(f"{side}: {', '.join(nodes)}" for side, nodes in sides.items() if nodes)
        raise Wrong(expected=f"{len(want)} nodes", got=f"{len(got)} nodes", where=where)


def _tied_loss(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Tensor:
    """One weight as the embedding and as the head."""
    return F.cross_entropy(F.linear(F.embedding(tokens, w), w, b), target)


def _as_pair(visit: Any) -> Any:
    """A list and a tuple are the same kind of answer."""
    if not isinstance(visit, (list, tuple)) or len(visit) != 2:
        return visit
    name, shape = visit
    return name, None if shape is None else tuple(shape)


def _torchs_nodes(loss: Tensor) -> list[Visit]:
    """The slow definition: every path from the loss to its end, then each node once."""
    found: dict[Any, None] = {}

    def follow(node: Any) -> None:
        if node is not None:
            found[node] = None
            for after, _ in node.next_functions:
                follow(after)

    follow(loss.grad_fn)
    return [_visit(node) for node in found]


def _visit(node: Any) -> Visit:
    variable = getattr(node, "variable", None)
    if variable is None:
        return node.name(), None
    return node.name(), tuple(variable.shape)


@walk_graph.wrong(
    "every_path",
    "A node is listed once for each path that leads to it. The graph is no tree: the weight is "
    "used twice, and both ways end in the same AccumulateGrad.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    def follow(node: Any) -> list[Visit]:
        if node is None:
            return []
        rest = [visit for after, _ in node.next_functions for visit in follow(after)]
        return [_visit(node), *rest]

    return follow(_tied_loss(tokens, w, b, target).grad_fn)


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
    "leaves_left_out",
    "The AccumulateGrad nodes are missing. They are nodes like the others: the ones that write "
    "into .grad.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    nodes = _torchs_nodes(_tied_loss(tokens, w, b, target))
    return [visit for visit in nodes if visit[1] is None]


@walk_graph.wrong(
    "root_left_out",
    "The node that made the loss is missing: loss.grad_fn itself is part of the graph.",
)
def _(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> list[Visit]:
    return _torchs_nodes(_tied_loss(tokens, w, b, target))[1:]


@walk_graph.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    tokens = draw.integers(32, low=0, high=599)
    nodes = student.call("walk_graph", tokens, w, b, tokens)
    leaves = sum(shape is not None for _, shape in nodes)
    return f"{len(nodes)} nodes, {leaves} of them leaves; the walk read no float and ran no node"


# ---- 3.2 the linear layer


@lab.question(
    "linear_backward",
    points=4,
    minutes=10,
    difficulty=2,
    hints=(
        "Write y[n, o] = sum over i of x[n, i] * w[o, i] + b[o]. Which of the y's did w[o, i] "
        "touch?",
        "Each gradient has the shape of its tensor, so the shapes leave one product each. "
        "b[o] was added to every row: its paths are the N rows, and paths add up.",
        "dx, dw, db = dy @ w, dy.T @ x, dy.sum(dim=0)",
    ),
)
def linear_backward(student: Student, draw: Draw) -> None:
    """The three gradients of `F.linear(x, w, b)`, by hand.

    dy (N, V), x (N, D), w (V, D) -> (dx (N, D), dw (V, D), db (V,)).
    """
    drawn = [(n, draw.integer(2, 24), draw.integer(2, 24)) for n in draw.sizes(1, 0, high=31)]
    for n, v, d in [(3, 4, 4), (5, 4, 4), *drawn]:
        dy, x, w = draw.tensor(n, v), draw.tensor(n, d, layout=draw.layout()), draw.tensor(v, d)
        got = student.call("linear_backward", dy, x, w)
        _expect_each(got, _torchs_linear(dy, x, w), "dx dw db")


def _torchs_linear(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    given = [x.detach().clone(), w.detach().clone(), torch.zeros(len(w))]
    leaves = [t.requires_grad_() for t in given]
    return torch.autograd.grad(F.linear(*leaves), leaves, dy)  # type: ignore[return-value]


@linear_backward.wrong(
    "weight_transposed",
    "This is dW transposed: nn.Linear keeps its weight as (out, in).",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w, x.T @ dy, dy.sum(0)


@linear_backward.wrong(
    "weight_transposed_in_dx",
    "dx multiplies by w.T. The forward already did: y = x @ w.T + b. Going back the transpose goes "
    "away.",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w.T, dy.T @ x, dy.sum(0)


@linear_backward.wrong(
    "bias_not_summed",
    "db has a row for each token. The one bias was read by all of them, and paths add up: sum over "
    "the rows.",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w, dy.T @ x, dy


@linear_backward.wrong(
    "bias_averaged",
    "db is a mean here. Paths add up; the mean belongs to the loss, and dy brings it along.",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w, dy.T @ x, dy.mean(0)


@linear_backward.wrong(
    "bias_over_columns",
    "db is summed over the outputs, so it has an entry for each row. Each output has its own bias, "
    "and all rows read it: sum over the rows.",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w, dy.T @ x, dy.sum(1)


@linear_backward.wrong(
    "weight_averaged",
    "dw and db are divided by the number of rows. A local rule knows nothing of the loss's mean: "
    "dy brings it along.",
)
def _(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    return dy @ w, dy.T @ x / len(x), dy.mean(0)


@linear_backward.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    dy, x, w = draw.tensor(n, v), draw.tensor(n, d), draw.tensor(v, d)
    dx, dw, db = student.call("linear_backward", dy, x, w)
    flops = 2 * n * v * d
    return (
        f"{2 * flops:,} FLOP in two products for the head at batch {n}, twice the forward's "
        f"{flops:,}; {dx.nbytes + dw.nbytes + db.nbytes:,} bytes written"
    )


# ---- 3.3 the loss, fused

# Said by the check itself: nan is equal to nothing, so no list of known answers would find it.
OVERFLOW = (
    "There is nan in it. exp of a large logit is inf, and inf / inf is nan: take the row's maximum "
    "away first, or let torch.softmax do it."
)


@lab.question(
    "cross_entropy_backward",
    points=4,
    minutes=15,
    difficulty=3,
    hints=(
        "Write the loss of one row as logsumexp(z) - z[target]. What is the derivative of each "
        "part?",
        "The first part gives softmax(z), the second takes 1 away at the target. Then the mean: "
        "divide by the rows that count, multiply by dloss, and put 0 into the rows that do not.",
        "dz = torch.softmax(z, dim=1); dz[rows, target[rows]] -= 1; dz[~kept] = 0",
    ),
)
def cross_entropy_backward(student: Student, draw: Draw) -> None:
    """The gradient of `F.cross_entropy(z, target)`, with log-softmax and the loss in one formula.

    z (N, V), target (N,) with -100 in rows that do not count, dloss (a float: the gradient that
    arrives at the loss) -> dz (N, V).
    """
    for scale, ignored, dloss in [(1.0, 0, 1.0), (1.0, 0, 0.5), (1.0, 2, 1.0), (200.0, 0, 1.0)]:
        _ask_cross_entropy(student, draw, scale, ignored, dloss)
    for _ in draw.cases(3):
        _ask_cross_entropy(student, draw, 2.0, draw.integer(0, 2), draw.choice((1.0, -0.25, 3.0)))


def _ask_cross_entropy(
    student: Student, draw: Draw, scale: float, ignored: int, dloss: float
) -> None:
    n, v = draw.integer(4, 9), draw.integer(5, 40)
    z, target = scale * draw.tensor(n, v), draw.integers(n, low=0, high=v - 1)
    target[draw.shuffled(range(n))[:ignored]] = -100
    got = student.call("cross_entropy_backward", z, target, dloss)
    # exp overflows float32 from about 88 on; below that a nan has another cause.
    if isinstance(got, Tensor) and bool(got.isnan().any()) and float(z.max()) > 88:
        raise Wrong(expected="numbers", got="nan", where="in dz", why=OVERFLOW)
    # Room for z - logsumexp(z) in float32, where logits of some hundreds keep five digits.
    expect_close(got, _torchs_cross_entropy(z, target, dloss), tolerance=1e-4)


def _torchs_cross_entropy(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    leaf = z.detach().clone().requires_grad_()
    (dz,) = torch.autograd.grad(F.cross_entropy(leaf, target), leaf, torch.tensor(dloss))
    return dz


def _one_hot(z: Tensor, target: Tensor) -> Tensor:
    """1 at each row's target; rows that do not count have none."""
    hot = torch.zeros_like(z)
    kept = target >= 0
    hot[kept, target[kept]] = 1.0
    return hot


def _masked(dz: Tensor, target: Tensor, dloss: float) -> Tensor:
    kept = (target >= 0)[:, None]
    return dloss * torch.where(kept, dz, torch.zeros_like(dz))


@cross_entropy_backward.wrong(
    "not_averaged",
    "The rows are not averaged. F.cross_entropy takes the mean over the rows that count, so each "
    "row's gradient is divided by their number.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(z.softmax(1) - _one_hot(z, target), target, dloss)


@cross_entropy_backward.wrong(
    "sign_flipped",
    "The sign is wrong: this pushes the loss up. The loss is logsumexp minus the right logit.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = _one_hot(z, target) - z.softmax(1)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "target_only",
    "Only the target gets a gradient here. The normaliser reads every logit of the row: each wrong "
    "word is pushed down by its own probability.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(-_one_hot(z, target) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "softmax_only",
    "The 1 at the target is missing: every logit is pushed down, the right one too.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(z.softmax(1) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "mean_over_everything",
    "You divided by N * V. The loss has one number per row, so its mean runs over rows.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(1) - _one_hot(z, target)
    return _masked(dz / ((target >= 0).sum() * z.shape[1]), target, dloss)


@cross_entropy_backward.wrong(
    "seed_ignored",
    "dloss was not used. Whoever reads the loss may scale it: each local rule multiplies by the "
    "gradient that arrives.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _torchs_cross_entropy(z, target, 1.0)


@cross_entropy_backward.wrong(
    "ignored_rows_counted",
    "Rows with target -100 have no gradient, which is right, but they were counted in the mean. "
    "Divide by the rows that count.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked((z.softmax(1) - _one_hot(z, target)) / len(z), target, dloss)


@cross_entropy_backward.wrong(
    "ignored_rows_pushed",
    "Rows with target -100 still get their softmax. They are no part of the loss: their gradient "
    "is 0.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return dloss * (z.softmax(1) - _one_hot(z, target)) / (target >= 0).sum()


@cross_entropy_backward.wrong(
    "overflow",
    OVERFLOW,
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    p = z.exp() / z.exp().sum(dim=1, keepdim=True)
    return _masked((p - _one_hot(z, target)) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 600), draw.integers(32, low=0, high=599)
    dz = student.call("cross_entropy_backward", z, target, 1.0)
    return (
        f"{dz.nbytes:,} bytes of gradient from {z.nbytes:,} bytes of logits: as large as the "
        "logits themselves, and each row sums to 0"
    )


# ---- 3.4 the embedding


@lab.question(
    "embedding_backward",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "A row of the table was read once for every place where its word stands. What do paths do?",
        "Start from zeros (rows, D), flatten the two leading dimensions, and add each dy to the "
        "row of its token. `dw[tokens] += dy` loses additions; chapter 01 has the call that does "
        "not.",
        "dw.index_add_(0, tokens.flatten(), dy.flatten(0, 1))",
    ),
)
def embedding_backward(student: Student, draw: Draw) -> None:
    """The gradient of `F.embedding(tokens, w)` for the table w.

    dy (B, T, D), tokens (B, T) int64, rows (how many rows the table has) -> dw (rows, D).
    """
    always = [torch.tensor([[1, 3, 2], [4, 1, 1]])]
    drawn = [
        draw.integers(draw.integer(1, 4), draw.integer(2, 9), low=0, high=4) for _ in draw.cases(4)
    ]
    for tokens in always + drawn:
        rows, d = draw.integer(5, 9), draw.integer(1, 5)
        dy = draw.tensor(*tokens.shape, d, layout=draw.layout())
        got = student.call("embedding_backward", dy, tokens, rows)
        expect_close(got, _torchs_embedding(dy, tokens, rows), tolerance=1e-5)


def _torchs_embedding(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    table = torch.zeros(rows, dy.shape[-1], requires_grad=True)
    (dw,) = torch.autograd.grad(F.embedding(tokens, table), table, dy)
    return dw


@embedding_backward.wrong(
    "last_write_wins",
    "A word that occurs twice keeps only its last gradient. Each occurrence is a path, and paths "
    "add up.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = torch.zeros(rows, dy.shape[-1])
    for token, row in zip(tokens.flatten().tolist(), dy.flatten(0, 1), strict=True):
        dw[token] = row
    return dw


@embedding_backward.wrong(
    "averaged",
    "The occurrences of a word are averaged here. They add up: a frequent word moves more.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    counts = torch.bincount(tokens.flatten(), minlength=rows).clamp(min=1)
    return _torchs_embedding(dy, tokens, rows) / counts[:, None]


@embedding_backward.wrong(
    "only_words_that_occur",
    "This has a row for each word that occurs. dw has the shape of the table: rows that nobody "
    "read are 0.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows)[tokens.flatten().bincount().nonzero()[:, 0]]


@embedding_backward.wrong(
    "last_sentence_only",
    "Only the last sentence of the batch has left a gradient. Flatten batch and time, or add up "
    "over the sentences.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy[-1:], tokens[-1:], rows)


@embedding_backward.cost
def _(student: Student, draw: Draw) -> str:
    tokens = draw.integers(4, 8, low=0, high=99)
    dw = student.call("embedding_backward", draw.tensor(4, 8, 64), tokens, 600)
    touched = int((dw != 0).any(dim=1).sum())
    return (
        f"{touched} rows of {len(dw)} touched, {dw.nbytes:,} bytes written all the same: the "
        "gradient of a table is dense unless you ask for sparse=True"
    )


# ---- 3.5 the engine

Node = dict[str, Any]
Nodes = dict[str, Node]
Ran = tuple[list[str], dict[str, float]]


@lab.question(
    "run_backward",
    points=5,
    minutes=25,
    difficulty=4,
    hints=(
        "When may a node run? Count, before you start, how many gradients will arrive at it.",
        "Count the edges that start at a reached node: as many gradients will arrive where they "
        "end. Then: take the ready node with the highest sequence, give each child factor * "
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
    graphs = [_fixed_graph(), *(_drawn_graph(draw) for _ in draw.cases(5))]
    for nodes, root, grad in graphs:
        got = student.call("run_backward", nodes, root, grad)
        order, after = _torchs_run(nodes, root, grad)
        if not isinstance(got, (list, tuple)) or len(got) != 2:
            raise Wrong(expected="(order, grad)", got=describe(got))
        expect_equal(_settled(got[0], nodes), _settled(order, nodes))
        expect_equal(got[1], after)


def _fixed_graph() -> tuple[Nodes, str, dict[str, float]]:
    """Everything that goes wrong in one small graph: a leaf that is used three times and holds a
    gradient, a node used twice by one other, an edge to nobody, a branch the root cannot see, and
    a node made first of all, which is no leaf.
    """
    nodes: Nodes = {
        "w": {"sequence": None, "next": []},
        "b": {"sequence": None, "next": []},
        "Neg": {"sequence": 0, "next": [("b", 1.0)]},
        "Exp": {"sequence": 1, "next": [("w", 2.0)]},
        "Sin": {"sequence": 2, "next": [("Exp", 0.5), (None, 3.0)]},
        "Log": {"sequence": 3, "next": [("w", -1.0)]},
        "Aside": {"sequence": 4, "next": [("Sin", 1.0), ("w", 1.0)]},
        "Add": {"sequence": 5, "next": [("Sin", 3.0), ("b", 4.0)]},
        "Mul": {
            "sequence": 6,
            "next": [("Exp", 2.0), ("Exp", 1.0), ("Add", 2.0), ("Log", -2.0), ("Neg", 1.0)],
        },
    }
    return nodes, "Mul", {"w": 0.5}


def _drawn_graph(draw: Draw) -> tuple[Nodes, str, dict[str, float]]:
    """Some leaves, then nodes made one after the other, each over what is there already."""
    names = draw.shuffled(["w", "b", "x"])[: draw.integer(1, 3)]
    nodes: Nodes = {name: {"sequence": None, "next": []} for name in names}
    count = draw.integer(4, 8)
    for sequence in range(count):
        wide = draw.integer(1, 3)
        first = draw.choice(list(nodes))
        rest = [draw.choice([*nodes, None]) for _ in range(wide - 1)]
        edges = [(child, draw.choice((-2.0, -1.0, 0.5, 1.0, 2.0))) for child in (first, *rest)]
        nodes[f"n{sequence}"] = {"sequence": sequence, "next": edges}
    root = f"n{draw.integer(count - 2, count - 1)}"
    return nodes, root, {names[0]: 1.0} if draw.integer(0, 1) else {}


class _Weighted(torch.autograd.Function):
    """A node of torch's own graph that is a weighted sum, and says when its backward runs."""

    @staticmethod
    def forward(ctx: Any, ran: Any, factors: Any, *inputs: Any) -> Any:
        ctx.ran, ctx.factors = ran, factors
        return torch.stack([f * x for f, x in zip(factors, inputs, strict=True)]).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.ran()
        return (None, None, *[f * grads[0] for f in ctx.factors])


def _torchs_run(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    """The same graph built of torch's nodes, and run by torch's engine."""
    order: list[str] = []
    made: dict[str | None, Tensor] = {None: torch.ones((), dtype=torch.float64)}
    leaves = [name for name, node in nodes.items() if node["sequence"] is None]
    for name in leaves:
        made[name] = leaf = torch.ones((), dtype=torch.float64, requires_grad=True)
        leaf.grad = torch.tensor(grad[name], dtype=torch.float64) if name in grad else None
        leaf.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _, name=name: order.append(name)
        )
    inner = [name for name, node in nodes.items() if node["sequence"] is not None]
    for name in sorted(inner, key=lambda name: int(nodes[name]["sequence"])):
        edges = nodes[name]["next"]
        inputs = [made[child] for child, _ in edges]
        report = partial(order.append, name)
        made[name] = _Weighted.apply(report, [f for _, f in edges], *inputs)  # type: ignore[no-untyped-call]
    made[root].backward()  # type: ignore[no-untyped-call]
    held = {name: made[name].grad for name in leaves}
    return order, {name: float(g) for name, g in held.items() if g is not None}


def _settled(order: Any, nodes: Nodes) -> Any:
    """The order as far as torch fixes it: leaves that are ready at the same moment may run either
    way round."""
    if not isinstance(order, (list, tuple)):
        return order
    settled: list[Any] = []
    leaves: list[Any] = []
    for name in order:
        if isinstance(name, str) and name in nodes and nodes[name]["sequence"] is None:
            leaves.append(name)
        else:
            settled += [*sorted(leaves), name]
            leaves = []
    return settled + sorted(leaves)


def _reachable(nodes: Nodes, root: str) -> list[str]:
    found = [root]
    for name in found:
        found += [c for c, _ in nodes[name]["next"] if c is not None and c not in found]
    return list(dict.fromkeys(found))


def _engine(
    nodes: Nodes,
    root: str,
    grad: dict[str, float],
    *,
    counted: str = "reached",
    leaf_rank: float = float("inf"),
    fifo: bool = False,
    overwrite: bool = False,
    last_arrival: bool = False,
) -> Ran:
    """A right engine, and the switches that make it wrong in one way each."""
    inside = _reachable(nodes, root)
    sources = inside if counted == "reached" else list(nodes)
    waiting = dict.fromkeys(nodes, 0)
    for name in sources:
        for child, _ in nodes[name]["next"]:
            if child is not None:
                waiting[child] += 1
    rank = {k: leaf_rank if n["sequence"] is None else n["sequence"] for k, n in nodes.items()}
    arrived, ready, order, after = {root: 1.0}, [root], [], dict(grad)
    while ready:
        name = ready[0] if fifo else max(ready, key=lambda k: rank[k])
        ready.remove(name)
        order.append(name)
        if nodes[name]["sequence"] is None:
            held = 0.0 if overwrite else after.get(name, 0.0)
            after[name] = held + arrived[name]
        for child, factor in nodes[name]["next"]:
            if child is None:
                continue
            before = 0.0 if last_arrival else arrived.get(child, 0.0)
            arrived[child] = before + factor * arrived[name]
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return order, after


@run_backward.wrong(
    "once_per_path",
    "A node ran once for every path that leads to it. The gradients are right, but torch waits "
    "until all of a node's gradients have arrived, adds them, and runs it once.",
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
    "A node ran as soon as its first gradient had arrived, so the later ones were lost. Count "
    "first how many will come.",
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


@run_backward.wrong(
    "first_come_first_served",
    "The gradients are right, the order is that of a queue. Among the nodes that are ready torch "
    "takes the one with the highest sequence number: the one made last.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return _engine(nodes, root, grad, fifo=True)


@run_backward.wrong(
    "leaves_last",
    "The leaves ran at the end. torch gives AccumulateGrad the highest number there is: a leaf "
    "runs as soon as its gradient is complete.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return _engine(nodes, root, grad, leaf_rank=float("-inf"))


@run_backward.wrong(
    "grad_overwritten",
    "The gradient that a leaf held before was overwritten. AccumulateGrad adds to it; that is why "
    "zero_grad exists.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return _engine(nodes, root, grad, overwrite=True)


@run_backward.wrong(
    "last_arrival_wins",
    "Of several gradients that arrive at a node only the last one was kept. They add up.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return _engine(nodes, root, grad, last_arrival=True)


@run_backward.wrong(
    "unreachable_counted",
    "A node waits for a gradient that never comes: its sender cannot be reached from the root. "
    "Count only edges that start at a node which can.",
)
def _(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    return _engine(nodes, root, grad, counted="all")


@run_backward.cost
def _(student: Student, draw: Draw) -> str:
    nodes, root, grad = _fixed_graph()
    order, _ = student.call("run_backward", nodes, root, grad)
    inside = _reachable(nodes, root)
    edges = sum(child is not None for name in inside for child, _ in nodes[name]["next"])
    return (
        f"{len(order)} nodes run once each, {edges} products along {edges} edges: the cost grows "
        "with the edges, not with the paths"
    )


# ---- 3.6 detective case: micro-batches

Batch = list[Pair]


@lab.question(
    "train_in_parts",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Print w.grad right before each step. What is in it that should not be? And what is "
        "missing when parts have 2 and 6 rows?",
        "Two faults. Nobody empties .grad between two steps. And each part's loss is a mean over "
        "its own rows, so the sum over the parts is no mean over the batch: weigh each part by its "
        "share of the rows.",
        "loss = F.cross_entropy(F.linear(x, w, b), target) * len(x) / total",
    ),
)
def train_in_parts(student: Student, draw: Draw) -> None:
    """Detective case: one SGD step per batch, the batch in parts that fit into memory. The code
    below looks right; make its steps those of the whole batches.

    w (V, D), b (V,), batches: lists of parts (x (n, D), target (n,)) of any n, lr -> (w, b) after
    all steps; the arguments stay as they are.
    """
    for sizes in [[[2, 6], [3, 1]], *(_drawn_sizes(draw) for _ in draw.cases(2))]:
        v, d = draw.integer(3, 9), draw.integer(2, 6)
        w, b = draw.tensor(v, d), draw.tensor(v)
        batches = [
            [(draw.tensor(n, d), draw.integers(n, low=0, high=v - 1)) for n in parts]
            for parts in sizes
        ]
        got = student.call("train_in_parts", w, b, batches, 0.5)
        _expect_each(got, _whole_batches(w, b, batches, 0.5), "w b")


def _drawn_sizes(draw: Draw) -> list[list[int]]:
    return [
        [draw.integer(1, 6) for _ in range(draw.integer(1, 3))] for _ in range(draw.integer(2, 3))
    ]


def _whole_batches(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    """Each batch in one piece. (torch.optim.SGD does the same, and loads torch._dynamo first.)"""
    for batch in batches:
        x, target = (torch.cat(column) for column in zip(*batch, strict=True))
        ((dw, db),) = _each_gradient(w, b, [(x, target)])
        w, b = w.detach() - lr * dw, b.detach() - lr * db
    return w, b


def _in_parts(
    w: Tensor, b: Tensor, batches: list[Batch], lr: float, *, zero: str, weigh: str
) -> Pair:
    """The loop of the case, with `zero` ("batch", "part", "never") and `weigh` as asked."""
    params = [t.detach().clone().requires_grad_() for t in (w, b)]
    for batch in batches:
        total = sum(len(x) for x, _ in batch)
        if zero == "batch":
            _empty(params)
        for x, target in batch:
            if zero == "part":
                _empty(params)
            share = {"rows": len(x) / total, "parts": 1 / len(batch), "none": 1.0}[weigh]
            (F.cross_entropy(F.linear(x, *params), target) * share).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for p in params:
                p -= lr * (0.0 if p.grad is None else p.grad)
    return params[0].detach(), params[1].detach()


def _empty(params: list[Tensor]) -> None:
    for p in params:
        p.grad = None


@train_in_parts.wrong(
    "as_found",
    "This is what the code as found computes. Each step still holds the gradients of the batches "
    "before, and the parts' means are added as if they were one mean.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="never", weigh="none")


@train_in_parts.wrong(
    "never_emptied",
    "The parts are weighed right. But .grad still holds the batches before: empty it after each "
    "step.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="never", weigh="rows")


@train_in_parts.wrong(
    "sum_of_means",
    ".grad is emptied in the right place. But each part's loss is a mean over its own rows, and a "
    "sum of means is no mean.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="none")


@train_in_parts.wrong(
    "mean_of_means",
    "Dividing by the number of parts is right only when all parts are equally long. A part of 2 "
    "rows and one of 6 do not weigh the same.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="parts")


@train_in_parts.wrong(
    "emptied_between_parts",
    "Only the last part of each batch counts: .grad is emptied between the parts, where it has to "
    "accumulate.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="part", weigh="rows")


@train_in_parts.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64), draw.tensor(600)
    parts = [(draw.tensor(8, 64), draw.integers(8, low=0, high=599)) for _ in range(4)]
    student.call("train_in_parts", w, b, [parts], 0.1)
    whole, part = 32 * 600 * 4, 8 * 600 * 4
    return f"logits of {part:,} bytes at a time instead of {whole:,}, for the same step"


# ---- 3.7 in-place edits

BINARY = ("mul", "div", "add", "sub", "matmul")
UNARY = ("exp", "sin", "tanh", "sigmoid", "log", "square", "neg")
WAYS = ("itself", "view", "detach", "data")
Edited = int | str


@lab.question(
    "edit_outcome",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "backward reads nothing but what the node saved. How do you see what that is?",
        "Look at the tensors among out.grad_fn's `_saved_...` attributes. An edit matters if one "
        "of them lies in the storage that was edited. A view and detach() share the version "
        "counter with their tensor; .data does not.",
        'return "harmless" if not saved_here else "silent" if way == "data" else "raises"',
    ),
)
def edit_outcome(student: Student, draw: Draw) -> None:
    """What an in-place edit between forward and backward does: "harmless", "raises" (backward
    refuses), or "silent" (a wrong gradient and no word).

    op: a name in torch; inputs: its one or two tensors; edited: 0, 1 (an input) or "out"; way: add
    1 to the tensor "itself", to a "view" of it, to its "detach", or to its "data" -> a string.
    """
    both, first = (True, True), (True, False)
    always: list[tuple[str, tuple[bool, ...], Edited, str]] = [
        ("exp", (True,), "out", "itself"),
        ("add", both, 0, "itself"),
        ("mul", both, 1, "itself"),
        ("mul", first, 0, "itself"),
        ("sin", (True,), 0, "itself"),
        ("sin", (True,), 0, "view"),
        ("sin", (True,), 0, "detach"),
        ("tanh", (True,), "out", "data"),
        ("exp", (True,), 0, "itself"),
        ("matmul", first, 1, "data"),
        ("mul", both, "out", "data"),
    ]
    for op, learns, edited, way in always + [_drawn_edit(draw) for _ in draw.cases(8)]:
        inputs = [(draw.tensor(3, 3).abs() + 0.5).requires_grad_(needed) for needed in learns]
        got = student.call("edit_outcome", op, inputs, edited, way)
        expect_equal(got, _torchs_outcome(op, inputs, edited, way))


def _drawn_edit(draw: Draw) -> tuple[str, tuple[bool, ...], Edited, str]:
    op = draw.choice(BINARY + UNARY)
    learns = draw.choice([(True, True), (True, False), (False, True)]) if op in BINARY else (True,)
    places: list[Edited] = ["out", *range(len(learns))]
    return op, learns, draw.choice(places), draw.choice(WAYS)


def _torchs_outcome(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    """Run it with and without the edit."""
    want = _gradients(op, inputs)
    try:
        got = _gradients(op, inputs, edited, way)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "raises"
    same = all(a.equal(b) for a, b in zip(got, want, strict=True))
    return "harmless" if same else "silent"


def _gradients(
    op: str, inputs: list[Tensor], edited: Edited | None = None, way: str = "itself"
) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    used = [leaf * 1 for leaf in leaves]
    out = getattr(torch, op)(*used)
    if edited is not None:
        _edit(out if edited == "out" else used[int(edited)], way)
    learning = [leaf for leaf in leaves if leaf.requires_grad]
    return list(torch.autograd.grad(out.sum(), learning))


def _edit(t: Tensor, way: str) -> None:
    if way == "view":
        t = t[:1]
    elif way == "detach":
        t = t.detach()
    elif way == "data":
        t = t.data
    t.add_(1)


def _saves(op: str, inputs: list[Tensor], edited: Edited) -> bool:
    """Whether the node of `op` saved the tensor at `edited`."""
    used = [t.detach().clone().requires_grad_(t.requires_grad) * 1 for t in inputs]
    out = getattr(torch, op)(*used)
    where = (out if edited == "out" else used[int(edited)]).untyped_storage().data_ptr()
    saved = [getattr(out.grad_fn, name) for name in dir(out.grad_fn) if name.startswith("_saved_")]
    return any(isinstance(t, Tensor) and t.untyped_storage().data_ptr() == where for t in saved)


@edit_outcome.wrong(
    "output_is_safe",
    "The output was called harmless. Some operations save their result, because their derivative "
    "is cheapest in terms of it: exp' is exp itself.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited == "out" or not _saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "every_edit_matters",
    "This edit is harmless: add saved no tensor, because its derivative does not read its inputs. "
    "Only an edit of what a node saved matters.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "input_is_safe",
    "The input was called harmless because the forward has already read it. The backward reads it "
    "again: mul saved it.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited != "out" or not _saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "saved_by_name",
    "mul does not always save both inputs. The first one is saved for the gradient of the second, "
    "and here nobody needs that one.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    everybody = [t.detach().clone().requires_grad_() for t in inputs]
    if not _saves(op, everybody, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "view_is_safe",
    "A view has the same floats and the same version counter as its tensor: backward notices.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if way == "view" or not _saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "detach_is_unseen",
    "detach() leaves the graph, but it keeps the version counter: backward notices the edit.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if not _saves(op, inputs, edited):
        return "harmless"
    return "silent" if way in ("data", "detach") else "raises"


@edit_outcome.wrong(
    "data_is_noticed",
    ".data comes with a version counter of its own. torch cannot notice this edit: the gradient is "
    "wrong, and no word is said.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    return "raises" if _saves(op, inputs, edited) else "harmless"


@edit_outcome.cost
def _(student: Student, draw: Draw) -> str:
    inputs = [(draw.tensor(3, 3).abs() + 0.5).requires_grad_()]
    saved_by = {
        op: [
            k
            for k in (0, "out")
            if student.call("edit_outcome", op, inputs, k, "view") != "harmless"
        ]
        for op in UNARY
    }
    groups = {
        what: ", ".join(op for op, kept in saved_by.items() if kept == places)
        for what, places in {"its input": [0], "its result": ["out"], "nothing": []}.items()
    }
    told = "; ".join(f"{what}: {ops}" for what, ops in groups.items())
    return f"what an operation keeps for backward. {told}"


# ---- 3.8 hooks


@lab.question(
    "clip_in_hooks",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "`t.register_hook(f)` calls f with each gradient on its way into t. What does f's return "
        "value do?",
        "Return the gradient times min(1, limit / norm): what the hook returns takes the place of "
        "what came. It runs before the sum in .grad, once in each backward.",
        "p.register_hook(lambda g: g * (limit / g.norm()).clamp(max=1))",
    ),
)
def clip_in_hooks(student: Student, draw: Draw) -> None:
    """Each gradient clipped to a norm of at most `limit` before it is added to .grad.

    w (V, D) and b (V,) that require gradients, batches: (x (N, D), target (N,)) for one backward
    each, limit -> (w.grad, b.grad) after all of them.
    """
    for n in (3, *(draw.integer(2, 4) for _ in draw.cases(2))):
        w, b = draw.tensor(9, 16, requires_grad=True), draw.tensor(9, requires_grad=True)
        # One loud feature, so that single elements exceed the limit too.
        loud = torch.tensor([30.0] + [1.0] * 15)
        batches = [(draw.tensor(6, 16) * loud, draw.integers(6, low=0, high=8)) for _ in range(n)]
        limit = _between(w, b, batches)
        got = student.call("clip_in_hooks", w, b, batches, limit)
        clipped = [[_clip(g, limit) for g in pair] for pair in _each_gradient(w, b, batches)]
        _expect_each(got, [torch.stack(c).sum(0) for c in zip(*clipped, strict=True)], "dw db")


def _each_gradient(w: Tensor, b: Tensor, batches: Batch) -> list[Pair]:
    leaves = [t.detach().clone().requires_grad_() for t in (w, b)]
    losses = [F.cross_entropy(F.linear(x, *leaves), target) for x, target in batches]
    return [torch.autograd.grad(loss, leaves) for loss in losses]  # type: ignore[misc]


def _between(w: Tensor, b: Tensor, batches: Batch) -> float:
    """A limit that the weight's gradients exceed and the bias's do not."""
    norms = [(float(dw.norm()), float(db.norm())) for dw, db in _each_gradient(w, b, batches)]
    return float((min(dw for dw, _ in norms) * max(db for _, db in norms)) ** 0.5)


def _clip(g: Tensor, limit: float) -> Tensor:
    return g * min(1.0, limit / float(g.norm()))


def _summed(grads: Sequence[Pair]) -> Pair:
    return torch.stack([w for w, _ in grads]).sum(0), torch.stack([b for _, b in grads]).sum(0)


@clip_in_hooks.wrong(
    "hook_returns_nothing",
    "Nothing was clipped. Did the hook return the new gradient, and was it registered with "
    "register_hook? A hook that returns None leaves the gradient as it was.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    return _summed(_each_gradient(w, b, batches))


@clip_in_hooks.wrong(
    "clipped_at_the_end",
    "The sum was clipped, once, at the end. A hook on the tensor sees each gradient before it is "
    "added.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = _summed(_each_gradient(w, b, batches))
    return _clip(dw, limit), _clip(db, limit)


@clip_in_hooks.wrong(
    "after_accumulation",
    "This clips .grad after each addition, as a post-accumulate hook does: gradients that came "
    "earlier are clipped again and again.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    for more_w, more_b in _each_gradient(w, b, batches):
        dw, db = _clip(dw.detach() + more_w, limit), _clip(db.detach() + more_b, limit)
    return dw, db


@clip_in_hooks.wrong(
    "always_scaled",
    "Short gradients were stretched to the limit. Clipping only ever shortens: the factor is at "
    "most 1.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    grads = _each_gradient(w, b, batches)
    return _summed([(dw * limit / dw.norm(), db * limit / db.norm()) for dw, db in grads])


@clip_in_hooks.wrong(
    "one_norm_for_both",
    "Weight and bias were clipped by their common norm. A hook sees one gradient, and each of the "
    "two has its own norm here.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    clipped = []
    for dw, db in _each_gradient(w, b, batches):
        factor = min(1.0, limit / float((dw.norm() ** 2 + db.norm() ** 2) ** 0.5))
        clipped.append((dw * factor, db * factor))
    return _summed(clipped)


@clip_in_hooks.wrong(
    "element_by_element",
    "Each element was clamped by itself, which bends the direction. Clipping by norm scales the "
    "whole gradient by one number.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    grads = _each_gradient(w, b, batches)
    return _summed([(dw.clamp(-limit, limit), db.clamp(-limit, limit)) for dw, db in grads])


@clip_in_hooks.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    batches = [(draw.tensor(8, 64), draw.integers(8, low=0, high=599)) for _ in range(2)]
    dw, db = student.call("clip_in_hooks", w, b, batches, 0.5)
    read = 2 * (dw.nbytes + db.nbytes)
    return f"{read:,} bytes of gradients read once more for their norms, while they were passing by"


# ---- 3.9 finite differences


@lab.question(
    "numeric_gradient",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Move one logit up a little, then down a little. What do the two losses tell?",
        "(loss(z + h) - loss(z - h)) / (2 * h) for each element, in float64: a difference of two "
        "almost equal float32 numbers is mostly rounding. Work on a copy.",
        "dz[n, v] = (loss(up) - loss(down)) / (2 * h)",
    ),
)
def numeric_gradient(student: Student, draw: Draw) -> None:
    """The gradient of the loss by central differences: no derivative, only losses.

    z (N, V) float32, target (N,), h (the step) -> dz (N, V) float64, right to about h * h.
    """
    for n in (2, *(draw.integer(1, 3) for _ in draw.cases(2))):
        z, target = draw.tensor(n, draw.integer(3, 5)), draw.integers(n, low=0, high=2)
        got = student.call("numeric_gradient", z, target, 1e-4)
        expect_close(got, _torchs_cross_entropy64(z, target), tolerance=1e-6)


def _torchs_cross_entropy64(z: Tensor, target: Tensor) -> Tensor:
    leaf = z.detach().to(torch.float64).requires_grad_()
    (dz,) = torch.autograd.grad(F.cross_entropy(leaf, target), leaf)
    return dz


def _differences(z: Tensor, target: Tensor, up: float, down: float) -> Tensor:
    """loss(z + up) - loss(z - down), element by element, in z's dtype."""
    out = torch.zeros_like(z)
    for n in range(z.shape[0]):
        for v in range(z.shape[1]):
            higher, lower = z.clone(), z.clone()
            higher[n, v] += up
            lower[n, v] -= down
            out[n, v] = F.cross_entropy(higher, target) - F.cross_entropy(lower, target)
    return out


@numeric_gradient.wrong(
    "one_sided",
    "This difference goes one way only, so its error shrinks with h. A step up and a step down "
    "cancel the curvature, and the error shrinks with h * h.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    return _differences(z.to(torch.float64), target, h, 0.0) / h


@numeric_gradient.wrong(
    "in_float32",
    "The losses were computed in float32: about seven digits, of which the difference loses most. "
    "Convert z to float64 first, not the result.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    return (_differences(z, target, h, h) / (2 * h)).to(torch.float64)


@numeric_gradient.wrong(
    "step_left_behind",
    "Each logit was moved up by h, down by 2 * h, and left there, so the later ones are measured "
    "somewhere else. Put it back, or move a copy.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    z = z.to(torch.float64)
    dz = torch.zeros_like(z)
    for n in range(z.shape[0]):
        for v in range(z.shape[1]):
            z[n, v] += h
            higher = F.cross_entropy(z, target)
            z[n, v] -= 2 * h
            dz[n, v] = (higher - F.cross_entropy(z, target)) / (2 * h)
    return dz


@numeric_gradient.wrong(
    "not_halved",
    "Twice the gradient: the two points are 2 * h apart.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    return _differences(z.to(torch.float64), target, h, h) / h


@numeric_gradient.wrong(
    "not_divided",
    "These are differences of losses. A slope is a difference divided by the distance, 2 * h.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    return _differences(z.to(torch.float64), target, h, h)


@numeric_gradient.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(2, 4), draw.integers(2, low=0, high=3)
    dz = student.call("numeric_gradient", z, target, 1e-4)
    head = 2 * (600 * 64 + 600)
    return (
        f"two losses for each number: {2 * dz.numel()} here, {head:,} for the head's parameters, "
        "where backward needs one pass"
    )


# ---- 3.10 one step on the real head

PROMPTS = (
    "<en> she has eaten <es> ella ha",
    "<en> she has",
    "<es> ella ha comido <en> she has",
)


@lab.question(
    "raise_the_words",
    points=3,
    minutes=7,
    difficulty=2,
    hints=(
        "You have both halves already: the loss's gradient for z, and what the head does with it.",
        "z = x @ w.T + b; dz is (softmax(z) - one-hot) / N; dw = dz.T @ x, db sums over the rows; "
        "then new tensors w - lr * dw and b - lr * db.",
        "return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)",
    ),
)
def raise_the_words(student: Student, draw: Draw) -> None:
    """One step of SGD on the real head that makes given words likelier after given activations.

    w (600, 64), b (600,), x (N, 64), target (N,), lr -> (w, b) after the step, as new tensors.
    """
    head = onelayer.head()
    w, b = head.weight.detach(), head.bias.detach()
    drawn = [(draw.choice(PROMPTS), draw.choice((0.002, 0.005, 0.02))) for _ in draw.cases(2)]
    for text, lr in [(PROMPTS[0], 0.01), *drawn]:
        x = onelayer.hidden(text)
        target = draw.integers(len(x), low=0, high=599)
        got = student.call("raise_the_words", w, b, x, target, lr)
        _expect_each(got, _whole_batches(w, b, [[(x, target)]], lr), "w b")


def _head_gradients(w: Tensor, b: Tensor, x: Tensor, target: Tensor) -> Pair:
    ((dw, db),) = _each_gradient(w, b, [(x, target)])
    return dw, db


@raise_the_words.wrong(
    "uphill",
    "This step makes the words less likely. The gradient points to where the loss grows; walk the "
    "other way.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w + lr * dw, b + lr * db


@raise_the_words.wrong(
    "bias_stands_still",
    "The weight made its step, the bias did not. It is a parameter as well.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, _ = _head_gradients(w, b, x, target)
    return w - lr * dw, b


@raise_the_words.wrong(
    "summed_over_words",
    "The step is N times too long: the loss is the mean over the N words.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * len(x) * dw, b - lr * len(x) * db


@raise_the_words.wrong(
    "learning_rate_forgotten",
    "The whole gradient was taken away. How far to walk along it is what lr says.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - dw, b - db


@raise_the_words.wrong(
    "in_place",
    "The step was written into the head that was passed in. Return new tensors: w - lr * dw, not "
    "w -= lr * dw.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    w -= lr * dw
    b -= lr * db
    return w, b


@raise_the_words.cost
def _(student: Student, draw: Draw) -> str:
    head, x = onelayer.head(), onelayer.hidden(PROMPTS[1])
    w, b, target = head.weight.detach(), head.bias.detach(), draw.integers(len(x), low=0, high=599)
    new_w, new_b = student.call("raise_the_words", w, b, x, target, 0.002)
    index = torch.arange(len(x)), target
    before, after = (F.linear(x, *p).softmax(1)[index].mean() for p in ((w, b), (new_w, new_b)))
    return (
        f"{new_w.numel() + new_b.numel():,} parameters moved; {len(x)} words picked at random went "
        f"from a mean probability of {before:.1e} to {after:.1e}"
    )
