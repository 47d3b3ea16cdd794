"""An FX pass: a product and the addition behind it become one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import fx

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, Wrong
from onelayer.compiler.listing import Row, graph_of, listing_of, operator

from . import lab
from .listings import Inputs, Rows, expect_same, named, operators, read

MM, ADD, ADDMM = "aten.mm.default", "aten.add.Tensor", "aten.addmm.default"
D = 6
_OTHER_GRAPH = (
    "Run, the graph that came back computes something else, or stops. addmm(t, x, w, beta=b, "
    "alpha=a) is b * t + a * x @ w, add(p, q, alpha=a) is p + a * q, and each node stands behind "
    "what it reads."
)
_RAISED = {
    "AttributeError: 'float' object": "An argument of a node is another node or plain data: "
    "`add(m, 1.5)` has a number, and a number has no `.target`, `.users` or `.op`.",
    "RuntimeError": "torch.fx erases a node only when nobody reads it any more. A product that "
    "somebody else reads stays, and its addition with it; so does add(m, m), whose addmm would "
    "read the product that it replaces. Of the others erase the addition first, then the product.",
}


@lab.question(
    "bias_into_product",
    points=4,
    minutes=14,
    difficulty=4,
    hints=(
        "For each addition: is one of its two arguments a product, and who else reads that "
        "product?",
        "The other argument must be a tensor (an fx.Node). add(m, t, alpha=a) is m + a * t, and "
        "add(t, m, alpha=a) is t + a * m; addmm(t, x, w, beta=..., alpha=...) is beta * t + alpha "
        "* x @ w. Insert before the addition, replace its uses, erase it, erase the product.",
        "with graph.inserting_before(add): new = graph.call_function(ADDMM, (other, *product.args)"
        ", scales); add.replace_all_uses_with(new); graph.erase_node(add)",
    ),
    by_effect=True,
)
def bias_into_product(student: Student, draw: Draw) -> None:
    """A pass that turns `add` of a product `mm` and a tensor into one `addmm`, in either order of
    the arguments and with any alpha, where nobody else reads the product.

    rows (a listing of the graph) -> rows after the pass. Same results, no product more than before.
    """
    cases = [
        ("swapped", "plain", "plain", "plain", "swapped"),  # what is left tells who left it
        ("plain", "swapped"),
        ("sum read twice",),
        ("plain", "shared"),
        ("plain", "number"),
        ("scaled", "plain"),
        ("scaled swapped", "returned"),
        ("late", "plain"),
        ("doubled", "plain"),
        ("two products", "doubled scaled"),
        ("read before", "plain"),
        ("nought", "nought swapped"),
        ("taken away", "taken away swapped"),
        ("fused before", "plain"),
        ("shared and alone", "residual"),
        ("alone and shared", "scaled by a whole number"),
        ("read by two additions",),
        ("product of a product", "other read twice", "side by side"),
        ("sum added", "sum returned"),
        *([draw.choice(list(_SECTIONS)) for _ in range(3)] for _ in draw.cases(1)),
    ]
    seen: list[tuple[Rows, Rows, Inputs]] = []
    for sections in cases:
        rows, inputs = _drawn(draw, sections)
        with explaining(_RAISED):
            got = read(student.call("bias_into_product", rows))
        seen.append((got, rows, inputs))
        with named(bias_into_product, seen):
            with saying(_OTHER_GRAPH):
                expect_same(got, rows, inputs)
            _expect_fused(operators(got), operators(_fused(rows)))


def _expect_fused(got: list[str], want: list[str]) -> None:
    products = [sum(op in (MM, ADDMM) for op in ops) for ops in (want, got)]
    if products[1] > products[0]:
        why = (
            "The graph runs more products than it has to, as where one that another node reads is "
            "fused, or an old one stays beside its addmm."
        )
        raise Wrong(expected=f"{products[0]} products", got=f"{products[1]} products", why=why)
    left = [ops.count(ADD) for ops in (want, got)]
    if left[1] > left[0]:
        why = (
            "An addition is left whose one argument is a product that nobody else reads, and the "
            "other a tensor."
        )
        raise Wrong(expected=f"{left[0]} additions left", got=f"{left[1]} left", why=why)
    if len(got) > len(want):
        why = (
            "The graph has more operators than it needs. addmm scales by itself, with beta and "
            "alpha, and what nobody reads is erased."
        )
        raise Wrong(expected=f"{len(want)} operators", got=f"{len(got)} operators", why=why)


# Each section takes h (N, D), a weight, a bias and a factor, and leaves the next h.
_SECTIONS: dict[str, Callable[[str, str, str, float, int], Rows]] = {
    "plain": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b)],
    "swapped": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, b, f"m{k}")],
    "scaled": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b, alpha=a)],
    "scaled swapped": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, b, f"m{k}", alpha=a)],
    "sum read twice": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"y{k}", ADD, [f"m{k}", b], {}),
        (f"t{k}", "aten.tanh.default", [f"y{k}"], {}),
        (f"h{k}", "aten.mul.Tensor", [f"t{k}", f"y{k}"], {}),
    ],
    "number": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", a)],
    "residual": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, h, f"m{k}")],
    "shared": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"y{k}", ADD, [f"m{k}", b], {}),
        (f"h{k}", "aten.mul.Tensor", [f"y{k}", f"m{k}"], {}),
    ],
    "read before": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"t{k}", "aten.tanh.default", [f"m{k}"], {}),
        (f"y{k}", ADD, [f"m{k}", b], {}),
        (f"h{k}", "aten.mul.Tensor", [f"t{k}", f"y{k}"], {}),
    ],
    "nought": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b, alpha=0.0)],
    "nought swapped": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, b, f"m{k}", alpha=0.0)],
    "taken away": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b, alpha=-a)],
    "taken away swapped": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, b, f"m{k}", alpha=-a)],
    "fused before": lambda h, w, b, a, k: [
        (f"m{k}", ADDMM, [b, h, w], {}),
        _add(k, f"m{k}", b),
    ],
    "returned": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b)],
    "late": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"t{k}", "aten.tanh.default", [b], {}),
        _add(k, f"m{k}", f"t{k}"),
    ],
    "doubled": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", f"m{k}")],
    "doubled scaled": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", f"m{k}", alpha=a)],
    "two products": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"o{k}", MM, ["x", w], {}),
        _add(k, f"m{k}", f"o{k}", alpha=a),
    ],
    "shared and alone": lambda h, w, b, a, k: [*_two(h, w, k), *_read_again(k, "m", "o")],
    "alone and shared": lambda h, w, b, a, k: [*_two(h, w, k), *_read_again(k, "o", "m")],
    "read by two additions": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"y{k}", ADD, [f"m{k}", b], {}),
        _add(k, f"y{k}", f"m{k}"),
    ],
    "product of a product": lambda h, w, b, a, k: [
        (f"o{k}", MM, [h, w], {}),
        *_mm(f"o{k}", w, k),
        _add(k, f"m{k}", b),
    ],
    "other read twice": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"t{k}", "aten.tanh.default", [b], {}),
        (f"y{k}", ADD, [f"m{k}", f"t{k}"], {}),
        (f"h{k}", "aten.mul.Tensor", [f"y{k}", f"t{k}"], {}),
    ],
    "side by side": lambda h, w, b, a, k: [
        *_two(h, w, k),
        (f"y{k}", ADD, [f"m{k}", b], {}),
        (f"z{k}", ADD, [b, f"o{k}"], {"alpha": a}),
        (f"h{k}", "aten.mul.Tensor", [f"y{k}", f"z{k}"], {}),
    ],
    "sum added": lambda h, w, b, a, k: [
        *_mm(h, w, k),
        (f"t{k}", ADD, [h, b], {}),
        _add(k, f"m{k}", f"t{k}"),
    ],
    "sum returned": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b)],
    "scaled by a whole number": lambda h, w, b, a, k: [*_mm(h, w, k), _add(k, f"m{k}", b, alpha=3)],
}


def _mm(h: str, w: str, k: int) -> Rows:
    return [(f"m{k}", MM, [h, w], {})]


def _two(h: str, w: str, k: int) -> Rows:
    return [*_mm(h, w, k), (f"o{k}", MM, ["x", w], {})]


def _read_again(k: int, first: str, second: str) -> Rows:
    """The sum of two products, and another reader of m."""
    total: Row = (f"y{k}", ADD, [f"{first}{k}", f"{second}{k}"], {})
    return [total, (f"h{k}", "aten.mul.Tensor", [f"y{k}", f"m{k}"], {})]


def _add(k: int, first: Any, second: Any, **kwargs: float) -> Row:
    return f"h{k}", ADD, [first, second], kwargs


def _drawn(draw: Draw, sections: Sequence[str]) -> tuple[Rows, Inputs]:
    """A listing of these sections one after the other, and values for its inputs."""
    inputs: Inputs = {"x": draw.tensor(draw.integer(2, 5), D)}
    rows: Rows = []
    h, results = "x", []
    for k, section in enumerate(sections):
        inputs |= {f"w{k}": draw.tensor(D, D), f"b{k}": draw.tensor(D)}
        rows += _SECTIONS[section](h, f"w{k}", f"b{k}", draw.choice((0.25, 0.375, 2.5, 3.5)), k)
        rows.append((f"r{k}", "aten.tanh.default", [f"h{k}"], {}))
        h = f"r{k}"
        results += {"returned": [f"m{k}"], "sum returned": [f"h{k}"]}.get(section, [])
    start: Rows = [(name, "input", [], {}) for name in inputs]
    return [*start, *rows, ("out", "output", [h, *results], {})], inputs


def _fused(
    rows: Rows,
    *,
    orders: Sequence[tuple[int, int]] = ((0, 1), (1, 0)),
    shared: bool = False,
    doubled: bool = False,
    keep_alpha: bool = True,
    beta_always: bool = False,
    alpha_always: bool = False,
    both: bool = False,
    nought_lost: bool = False,
    inputs_only: bool = False,
    unscaled_only: bool = False,
    one_product_only: bool = False,
    first_only: bool = False,
    erase: bool = True,
    early: bool = False,
    erase_all: bool = False,
    numbers: bool = False,
    read_once_only: bool = False,
    neighbours_only: bool = False,
    said: bool = False,
    first_product_only: bool = False,
    returned: bool = False,
    addmm_too: bool = False,
) -> Rows:
    """The pass, and what people leave out of it. Shared products: fused with a second run of the
    product. said: beta and alpha are handed on where they are 1, too. first_product_only: where the
    first of two products is shared, the second is not looked at. returned: the output is no reader.
    addmm_too: an addmm is taken for a product."""
    graph = graph_of(rows)
    mm, add, addmm = map(operator, (MM, ADD, ADDMM))
    for node in list(graph.nodes):
        if node.target is not add:
            continue
        for at, other in orders:
            product, t = node.args[at], node.args[other]
            products = (mm, addmm) if addmm_too else (mm,)
            if not isinstance(product, fx.Node) or product.target not in products:
                continue
            if not (isinstance(t, fx.Node) or numbers) or (t is product and not doubled):
                continue
            if (read_once_only and len(node.users) > 1) or (
                neighbours_only and node.prev is not product
            ):
                continue
            readers = [user for user in product.users if not returned or user.op != "output"]
            if len(readers) > 1 and not shared:
                if first_product_only:
                    break
                continue
            alpha = node.kwargs.get("alpha", 1)
            if (inputs_only and isinstance(t, fx.Node) and t.op != "placeholder") or (
                unscaled_only and alpha != 1
            ):
                continue
            if one_product_only and isinstance(t, fx.Node) and t.target is mm:
                continue
            scale = "beta" if (at == 0 and not alpha_always) or beta_always else "alpha"
            kept = (alpha != 1 or said) and keep_alpha and not (nought_lost and not alpha)
            scales = dict.fromkeys(("beta", "alpha") if both else (scale,), alpha) if kept else {}
            with graph.inserting_before(product if early else node):
                new = graph.call_function(addmm, (t, *product.args[-2:]), scales)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
            if erase and (erase_all or not product.users):
                graph.erase_node(product)
            if first_only:
                return listing_of(graph)
            break
    return listing_of(graph)


bias_into_product.wrong(
    "nothing_fused",
    "Additions of a product and a tensor are left. Did the pass change the graph?",
    bias_into_product=lambda rows: rows,
)
bias_into_product.wrong(
    "before_its_arguments",
    "addmm stands in front of what it adds, which is computed later: insert it before the "
    "addition.",
    bias_into_product=lambda rows: _fused(rows, early=True),
)
bias_into_product.wrong(
    "product_left",
    "The old product is still in the graph. Nobody reads it, and a graph runs every node that it "
    "has: erase it.",
    bias_into_product=lambda rows: _fused(rows, erase=False),
)
bias_into_product.wrong(
    "shared_product",
    "A product that somebody else reads was fused as well, so it runs twice: once in addmm, once "
    "for the other reader. Look at product.users.",
    bias_into_product=lambda rows: _fused(rows, shared=True),
)
bias_into_product.wrong(
    "added_to_itself",
    "add(m, m) has no other tensor: addmm would have to read the product m that it computes.",
    bias_into_product=lambda rows: _fused(rows, doubled=True),
)
bias_into_product.wrong(
    "one_order",
    "As many additions are left as have their product second, as in `add(b, m)`. An addition may "
    "have it in either place.",
    bias_into_product=lambda rows: _fused(rows, orders=((0, 1),)),
)
bias_into_product.wrong(
    "other_order_only",
    "As many additions are left as have their product first, as in `add(m, b)`. An addition may "
    "have it in either place.",
    bias_into_product=lambda rows: _fused(rows, orders=((1, 0),)),
)
bias_into_product.wrong(
    "alpha_lost",
    "The addition had alpha, and it got lost: a node's kwargs are part of what it computes.",
    bias_into_product=lambda rows: _fused(rows, keep_alpha=False),
)
bias_into_product.wrong(
    "alpha_on_the_wrong_side",
    "alpha of `add` scales its second argument. Where that is the product, addmm's alpha scales "
    "it; where it is the other tensor, beta does.",
    bias_into_product=lambda rows: _fused(rows, beta_always=True),
)


bias_into_product.wrong(
    "alpha_always_alpha",
    "Here the product is scaled, which is addmm's alpha. Where the product is the addition's "
    "first argument, `add`'s alpha scales the other tensor: beta.",
    bias_into_product=lambda rows: _fused(rows, alpha_always=True),
)
bias_into_product.wrong(
    "both_scaled",
    "alpha scaled both sides. `add` scales its second argument only: beta or alpha of addmm, not "
    "both.",
    bias_into_product=lambda rows: _fused(rows, both=True),
)
bias_into_product.wrong(
    "alpha_of_nought_lost",
    "An alpha of 0 got lost: 0 is false in Python, and an alpha all the same. Ask whether it is "
    'there: node.kwargs.get("alpha", 1).',
    bias_into_product=lambda rows: _fused(rows, nought_lost=True),
)
bias_into_product.wrong(
    "inputs_only",
    "Only additions of an input were fused. What is added may be any tensor, an operator's result "
    "too.",
    bias_into_product=lambda rows: _fused(rows, inputs_only=True),
)
bias_into_product.wrong(
    "scaled_ones_left",
    "Additions with an alpha are left. addmm has beta and alpha for them.",
    bias_into_product=lambda rows: _fused(rows, unscaled_only=True),
)
bias_into_product.wrong(
    "sum_of_products_left",
    "An addition of two products is left. One of the two is a product, and the other is a tensor "
    "like any other.",
    bias_into_product=lambda rows: _fused(rows, one_product_only=True),
)
bias_into_product.wrong(
    "first_product_only",
    "An addition of two products is left. Where somebody else reads the first of them, the second "
    "can still be fused.",
    bias_into_product=lambda rows: _fused(rows, first_product_only=True),
)
bias_into_product.wrong(
    "first_addition_only",
    "Only one of the additions was fused. Go through all of them.",
    bias_into_product=lambda rows: _fused(rows, first_only=True),
)


for _said in (False, True):
    _end = "_all_scaled" if _said else ""
    bias_into_product.wrong(
        f"erased_while_read{_end}",
        _RAISED["RuntimeError"],
        bias_into_product=partial(_fused, shared=True, erase_all=True, said=_said),
    )
    bias_into_product.wrong(
        f"erased_under_itself{_end}",
        _RAISED["RuntimeError"],
        bias_into_product=partial(_fused, doubled=True, erase_all=True, said=_said),
    )
bias_into_product.wrong(
    "numbers_fused",
    "addmm adds a tensor. Where the other argument of the addition is a number, leave it.",
    bias_into_product=partial(_fused, numbers=True),
)
bias_into_product.wrong(
    "addmm_too",
    "An addition behind an addmm was fused as if that were a product, and what the addmm adds got "
    "lost. Only `mm` is a product alone: compare the operator, not a part of its name.",
    bias_into_product=partial(_fused, addmm_too=True),
)
bias_into_product.wrong(
    "sums_read_twice_left",
    "An addition whose result is read several times is left. Only the product must have no other "
    "reader: those of the sum read the addmm.",
    bias_into_product=partial(_fused, read_once_only=True),
)
bias_into_product.wrong(
    "neighbours_only",
    "Only an addition right behind its product was fused. Others may stand between the two.",
    bias_into_product=partial(_fused, neighbours_only=True),
)


@bias_into_product.wrong(
    "returned_product_gone",
    "A product that the graph returns was fused and taken away. The output reads it as well.",
)
def _(rows: Rows) -> Rows:
    fused = _fused(rows, returned=True)
    inner = {arg for _, op, args, _ in fused if op != "output" for arg in args}
    return [row for row in fused if row[1] != MM or row[0] in inner]


bias_into_product.wrong(
    "graph_itself",
    "The graph itself came back. Its rows were asked for, listing_of(graph).",
    bias_into_product=graph_of,
)


@bias_into_product.wrong("rows_changed", "The rows that came were changed. Return new ones.")
def _(rows: Rows) -> Rows:
    fused = _fused(rows)
    rows.reverse()
    return fused


@bias_into_product.wrong(
    "arguments_swapped",
    "addmm(t, x, w) is t + x @ w: the tensor that is added comes first, then the product's two in "
    "their order.",
)
def _(rows: Rows) -> Rows:
    swapped = []
    for name, op, args, kwargs in _fused(rows):
        swapped.append((name, op, [args[0], args[2], args[1]] if op == ADDMM else args, kwargs))
    return swapped


@bias_into_product.wrong(
    "added_last",
    "addmm(t, x, w) is t + x @ w: the tensor that is added comes first. Here it comes last.",
)
def _(rows: Rows) -> Rows:
    turned = []
    for name, op, args, kwargs in _fused(rows):
        turned.append((name, op, [*args[1:], args[0]] if op == ADDMM else args, kwargs))
    return turned


@bias_into_product.cost
def _(student: Student, draw: Draw) -> str:
    rows, _ = _drawn(draw, ("plain", "swapped", "shared"))
    after = student.call("bias_into_product", rows)
    return (
        f"{len(operators(rows))} operators before, {len(operators(after))} after: two additions "
        "that read and wrote all the logits once more are gone"
    )
