"""The bytes that a chain of operators moves, one by one and compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal
from onelayer.compiler.listing import graph_of
from onelayer.compiler.unbuilt import inductor_source
from onelayer.memory.traffic import count_traffic

from . import lab
from .inductor_file import ran
from .listings import Rows, run

Shapes = dict[str, list[int]]
Moved = tuple[int, int]
MM = "aten.mm.default"


@lab.question(
    "bytes_moved",
    points=4,
    minutes=11,
    difficulty=3,
    hints=(
        "Eager: what does each operator read, and what does it write? Compiled: which of these "
        "tensors does nobody outside the fused kernel ever see?",
        "A fused kernel reads each tensor that comes from outside once, and writes the results "
        "that a product or the caller needs. A product is a kernel of its own: it reads both "
        "factors and writes all of its result. Nobody compiles what nobody reads.",
        "group = 'how many products came before'; a tensor crosses memory when it is an input, an "
        "output, or made in another group than the one that reads it",
    ),
    budget_s=60.0,
)
def bytes_moved(student: Student, draw: Draw) -> None:
    """The bytes that a graph reads and writes, with a kernel for each operator and compiled.

    rows (a listing; pointwise operators and at most one product), shapes (name of an input -> its
    shape; all float32) -> (eager bytes, compiled bytes).
    """
    cases = [("all kept", 3, False), ("plain", 0, True), ("head", 1, True), ("square", 1, False)]
    cases.append(("returned", 1, False))
    kinds = [(draw.choice(("head", "plain")), draw.integer(0, 1), draw.choice((True, False)))]
    drawn = [_drawn(draw, *kind) for kind in (*cases, *(kinds[0] for _ in draw.cases(1)))]
    for rows, shapes in (*drawn, *_around_a_product(draw)):
        got, want = student.call("bytes_moved", rows, shapes), _measured(rows, shapes)
        with saying(_read_and_written(got, want, rows, shapes)):
            expect_equal(got, want)


def _read_and_written(got: Any, want: Moved, rows: Rows, shapes: Shapes) -> str:
    """What the first wrong number of the two is made of."""
    if not isinstance(got, (list, tuple)) or [type(n) for n in got] != [int, int]:
        return ""
    reads, writes = (Rules(**{k: False}).predict(rows, shapes) for k in ("writes", "reads"))
    if got[0] != want[0]:
        return f"Eager, {reads[0]} bytes are read here and {writes[0]} written."
    return f"Compiled, {reads[1]} bytes are read here and {writes[1]} written."


def _drawn(draw: Draw, kind: str, before: int, extra: bool) -> tuple[Rows, Shapes]:
    """Some pointwise operators; for a head a product and some more behind it. extra: operators
    that nobody reads (in a head one that such a one reads) of an input that nobody else reads,
    and an intermediate that is returned as well. A square head has kernels before and behind
    its product that read the same tensors. Of a returned one the product's factor is a result
    as well, and where all is kept two tensors before it and six behind it are, of which four are
    read by the next and two by nobody else: that tells results that were not written from each
    other, from a factor that was not and from a product that was not."""
    n, d, v = draw.integer(4, 6), draw.integer(7, 9), draw.choice((11, 13, 17, 19, 23, 29))
    d = v if kind == "square" else d
    width = v if kind == "plain" else d
    shapes = {"x": [n, width], "c": [width]}
    rows: Rows = []
    h = "x"
    for k in range(before):
        rows.append((f"p{k}", draw.choice(("aten.add.Tensor", "aten.mul.Tensor")), [h, "c"], {}))
        h = f"p{k}"
    if before == 0:
        rows.append(("p", "aten.mul.Tensor", [h, "c"], {}))
        h = "p"
    if kind == "plain":  # read twice by one kernel
        rows.append(("s", "aten.sub.Tensor", [h, "x"], {}))
        h = "s"
    before_it = h
    if kind != "plain":
        shapes |= {"w": [d, v]}
        rows.append(("m", MM, [h, "w"], {}))
        h = "m"
    if kind == "square":
        rows.append(("s", "aten.sub.Tensor", [h, before_it], {}))
        rows.append(("g", "aten.mul.Tensor", ["s", "c"], {}))
        h = "g"
    shapes |= {"b": [v], "r": [n, v]} | ({"e": [n, v]} if extra else {})
    rows += [("y", "aten.add.Tensor", [h, "b"], {}), ("u", "aten.relu.default", ["y"], {})]
    rows.append(("v", "aten.mul.Tensor", ["u", "r"], {}))
    if kind == "all kept":
        rows += [("a", "aten.tanh.default", ["y"], {})]
        rows += [("t", "aten.relu.default", ["v"], {}), ("s", "aten.sub.Tensor", ["t", "r"], {})]
    rows.append(("z", "aten.tanh.default", [rows[-1][0]], {}))
    unread: Rows = [("q", "aten.sub.Tensor", ["u", "e"], {}), ("k", "aten.relu.default", ["e"], {})]
    unread += [("j", "aten.tanh.default", ["k"], {})] if kind == "head" else []
    rows += unread if extra else []
    also = ["p0", "p1", "u", "v", "t", "s", "a"] if kind == "all kept" else ["u"] if extra else []
    results = [*also, "z"] if kind == "all kept" else ["z", *also]
    results += [before_it] if kind == "returned" else []
    rows.append(("out", "output", results, {}))
    return [*((name, "input", [], {}) for name in shapes), *rows], shapes


def _around_a_product(draw: Draw) -> list[tuple[Rows, Shapes]]:
    """A product of inputs, one of which is read behind it as well, and of which the caller gets the
    result; one that comes last; two that nobody reads, of which one's factor is read behind it; one
    whose factor the kernel before reads as well. And no product: a tensor times itself, results
    that are named twice, or came in."""
    n, d, v = draw.integer(4, 6), draw.integer(7, 9), draw.choice((11, 13, 17, 19))
    first: Rows = [
        ("m", MM, ["x", "w"], {}),
        ("y", "aten.add.Tensor", ["m", "b"], {}),
        ("z", "aten.mul.Tensor", ["y", "x"], {}),
        ("out", "output", ["z", "m"], {}),
    ]
    last: Rows = [
        ("p", "aten.mul.Tensor", ["x", "c"], {}),
        ("m", MM, ["p", "w"], {}),
        ("out", "output", ["m"], {}),
    ]
    unread: Rows = [
        *last[:-1],
        ("y", "aten.add.Tensor", ["r", "b"], {}),
        ("z", "aten.relu.default", ["y"], {}),
        ("out", "output", ["z"], {}),
    ]
    around_it: Rows = [
        *last[:-1],
        ("z", "aten.relu.default", ["p"], {}),
        ("out", "output", ["z"], {}),
    ]
    both: Rows = [
        ("p", "aten.mul.Tensor", ["x", "w"], {}),
        ("m", MM, ["p", "w"], {}),
        ("z", "aten.relu.default", ["m"], {}),
        ("out", "output", ["z"], {}),
    ]
    square: Shapes = {"x": [n, d], "w": [d, d], "b": [d]}
    wide: Shapes = {"x": [n, d], "c": [d], "w": [d, v]}
    cases = [(first, square), (last, wide), (unread, wide | {"b": [v], "r": [n, v]})]
    cases += [(around_it, wide), (both, {"x": [d, d], "w": [d, d]})]
    alike: Rows = [("p", "aten.mul.Tensor", ["x", "x"], {}), ("out", "output", ["p"], {})]
    cases.append((alike, {"x": [n, d]}))
    for results in (["y", "y"], ["y", "c"]):  # named twice; and an input, as it came
        alone: Rows = [("y", "aten.relu.default", ["x"], {}), ("out", "output", results, {})]
        cases.append((alone, {"x": [n, d], "c": [d]}))
    return [
        ([*((name, "input", [], {}) for name in shapes), *rows], shapes) for rows, shapes in cases
    ]


def _inputs(shapes: Shapes) -> dict[str, Tensor]:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


_kept: dict[str, Moved] = {}


def _measured(rows: Rows, shapes: Shapes) -> Moved:
    """Counted: every operator in eager mode, every kernel of Inductor's file."""
    at = f"{rows} {shapes}"
    if at not in _kept:
        if len(_kept) > 64:
            _kept.clear()
        inputs = list(_inputs(shapes).values())
        with count_traffic() as eager:
            run(rows, dict(zip(shapes, inputs, strict=True)))
        graph_module = fx.GraphModule(torch.nn.Module(), graph_of(rows))
        _kept[at] = eager.bytes, ran(inductor_source(graph_module, *inputs), inputs).moved_bytes
    return _kept[at]


@dataclass(frozen=True)
class Rules:
    """What crosses memory, and what people take to do so or not."""

    reads: bool = True
    writes: bool = True
    sweeps: bool = True  # what nobody reads is not compiled
    sweeps_once: bool = False  # but what only that would have read is
    once: bool = True  # a fused kernel reads a tensor once, however many of its operators do
    epilogue: bool = False  # the product's result stays inside the kernel behind it
    first_result: bool = False  # only the first result is written
    wide: bool = False  # a row that is broadcast counts for all its rows
    eager_wide: bool = False  # in eager mode alone
    one_kernel: bool = False  # the product too is part of the one fused kernel
    eager_sweeps: bool = False  # eager mode leaves out what nobody reads
    inputs_only: bool = False  # compiled, no kernel reads what another wrote
    eager_reads: bool = True
    eager_writes: bool = True
    compiled_writes: bool = True
    compiled_reads: bool = True
    around: bool = False  # the kernels before and behind the product are one
    inside_written: bool = False  # a kernel writes all that it makes
    results_written: bool = True  # what the caller gets is written
    read_results_written: bool = True  # also where an operator of the same kernel reads it
    early_results_written: bool = True  # also where they are made before a product
    factor_at_hand: bool = False  # the kernel behind the product has what the one before it made
    product_writes: bool = True
    product_reads: bool = True
    factor_written: bool = True  # what the product reads leaves the kernel before it
    unread_written: bool = True  # where nobody sweeps, what nobody reads is written
    results_apart: bool = False  # a result that a kernel reads too is written twice
    named_apart: bool = False  # a result is written as often as the output names it
    inputs_written: bool = False  # an input that the caller gets back is written
    unread_parts: bool = False  # a product that nobody reads parts the operators around it
    inputs_once: bool = False  # of the fused kernels only one reads an input
    one_result_each: bool = False  # a fused kernel writes the last thing that it makes
    given_apart: bool = False  # an operator reads a tensor as often as it is given it

    def predict(self, rows: Rows, shapes: Shapes) -> Moved:
        """(eager bytes, compiled bytes) of a listing of `bytes_moved`."""
        body = [row for row in rows if row[1] not in ("input", "output")]
        numel, results = _elements(body, shapes), rows[-1][2]
        eager = sum(
            self.reads
            * self.eager_reads
            * sum(self.read(numel, name, op, a, self.eager_wide) for a in self.given(args))
            + self.writes * self.eager_writes * numel[name]
            for name, op, args, _ in body
            if not self.eager_sweeps or name in _alive(body, results)
        )
        return 4 * eager, 4 * self.compiled(body, results, numel)

    def given(self, args: list[Any]) -> list[str]:
        return _names(args) if self.given_apart else [*dict.fromkeys(_names(args))]

    def read(self, numel: dict[str, int], name: str, op: str, arg: str, wide: bool = False) -> int:
        return numel[name] if (self.wide or wide) and op != MM else numel[arg]

    def compiled(self, body: Rows, results: list[Any], numel: dict[str, int]) -> int:
        whole = body
        if self.sweeps and not self.sweeps_once:
            body = _swept(body, results)
        kernel = _kernels(whole if self.unread_parts else body)
        if self.one_kernel:
            kernel = dict.fromkeys(kernel, "the one")
        if self.around:
            kernel = {made: k if k == "product" else 0 for made, k in kernel.items()}
        total, done = 0, set()
        if self.inputs_written:
            total += sum(numel[name] for name in {*results} - {*kernel})
        for name, op, args, _ in body:
            if self.sweeps and name not in _alive(body, results):
                continue
            for arg in _names(args):
                inside = kernel.get(arg) == kernel[name] or (self.epilogue and arg == "m")
                inside = inside or (self.inputs_only and arg in kernel)
                behind = kernel[name] != "product" and kernel.get(arg) in (0, 1)
                inside = inside or (self.factor_at_hand and behind)
                by = "any" if self.inputs_once and arg not in kernel and op != MM else kernel[name]
                if not inside and not (self.once and (arg, by) in done):
                    seen = self.reads and self.compiled_reads and (self.product_reads or op != MM)
                    total += seen * self.read(numel, name, op, arg)
                    done.add((arg, by))
            kept = results[:1] if self.first_result else results
            times = self.leaves(body, kernel, name, kept) * self.compiled_writes
            if self.one_result_each:
                times = name == [other for other in kernel if kernel[other] == kernel[name]][-1]
            if self.named_apart:
                times *= max(1, kept.count(name))
            if self.results_apart and name in kept:
                times += any(kernel[row[0]] != kernel[name] for row in body if name in row[2])
            total += self.writes * times * numel[name]
        return total

    def leaves(self, body: Rows, kernel: dict[str, Any], name: str, kept: list[Any]) -> bool:
        """Whether somebody outside the kernel reads this result, or, unswept, nobody at all."""
        if self.epilogue and name == "m":
            return False
        if kernel[name] == "product" and not self.product_writes:
            return False
        readers = [kernel[row[0]] for row in body if name in row[2]]
        unread = not readers and name not in kept and self.unread_written
        away = any(k != kernel[name] and (k != "product" or self.factor_written) for k in readers)
        returned = name in kept and self.results_written
        returned = returned and (self.read_results_written or kernel[name] not in readers)
        early = kernel[name] == 0 and "product" in kernel.values()
        returned = returned and (self.early_results_written or not early)
        return returned or unread or away or self.inside_written


def _alive(body: Rows, results: list[Any]) -> set[str]:
    """What somebody reads."""
    return {arg for _, _, args, _ in body for arg in _names(args)} | set(results)


def _swept(body: Rows, results: list[Any]) -> Rows:
    """Without what nobody reads, and then without what only that would have read."""
    alive = set(results)
    for name, _, args, _ in reversed(body):
        alive |= {*_names(args)} if name in alive else set()
    return [row for row in body if row[0] in alive]


def _names(args: list[Any]) -> list[str]:
    return [arg for arg in args if isinstance(arg, str)]


def _elements(body: Rows, shapes: Shapes) -> dict[str, int]:
    numel = {name: math.prod(shape) for name, shape in shapes.items()}
    for name, op, args, _ in body:
        product = op == MM
        rows_columns = shapes["x"][0], shapes.get("w", [0, 0])[1]
        numel[name] = math.prod(rows_columns) if product else max(numel[a] for a in _names(args))
    return numel


def _kernels(body: Rows) -> dict[str, Any]:
    """Which kernel each operator is part of: those before the product, it, those behind."""
    kernel: dict[str, Any] = {}
    products = 0
    for name, op, _, _ in body:
        products += op == MM
        kernel[name] = "product" if op == MM else products
    return kernel


bytes_moved.wrong(
    "reads_only",
    "Only the reads are counted. Each operator writes its result, and the fused kernel what leaves "
    "it.",
    bytes_moved=Rules(writes=False).predict,
)
bytes_moved.wrong(
    "writes_only",
    "Only the writes are counted. What a kernel works on, it reads first.",
    bytes_moved=Rules(reads=False).predict,
)
bytes_moved.wrong(
    "unread_compiled",
    "Something that nobody reads was compiled. Inductor sweeps it away; eager mode runs it.",
    bytes_moved=Rules(sweeps=False).predict,
)
bytes_moved.wrong(
    "swept_once",
    "What only an unread operator reads was compiled. Without that operator nobody reads it "
    "either: go through the listing from its end.",
    bytes_moved=Rules(sweeps_once=True).predict,
)
bytes_moved.wrong(
    "product_fused",
    "The product's result was kept inside the kernel behind it. On the CPU the product is a call "
    "of a library: it writes its result, and the next kernel reads it.",
    bytes_moved=Rules(epilogue=True).predict,
)
bytes_moved.wrong(
    "one_kernel",
    "All of it was taken for one kernel. The product is a call of a library between two fused "
    "kernels: what it reads and what it writes goes through memory.",
    bytes_moved=Rules(one_kernel=True).predict,
)
bytes_moved.wrong(
    "crossing_once",
    "What one kernel hands to the next was counted once. Between two kernels a tensor is written "
    "and read.",
    bytes_moved=Rules(inputs_only=True).predict,
)
bytes_moved.wrong(
    "eager_sweeps",
    "Eager mode left something out. It runs each operator when its line comes, and cannot know "
    "that nobody will read the result.",
    bytes_moved=Rules(eager_sweeps=True).predict,
)
bytes_moved.wrong(
    "first_result_only",
    "Several results are returned, and only the first was written. A result that leaves the graph "
    "has to leave the kernel.",
    bytes_moved=Rules(first_result=True).predict,
)
bytes_moved.wrong(
    "read_again_and_again",
    "A tensor was read once for each operator that uses it. A fused kernel holds an element in a "
    "register once it is there.",
    bytes_moved=Rules(once=False).predict,
)


def _ruled(name: str, sentence: str, **how: Any) -> None:
    bytes_moved.wrong(name, sentence, bytes_moved=Rules(**how).predict)


for _name, _how in {"broadcast_rows": "wide", "eager_broadcast_rows": "eager_wide"}.items():
    _ruled(
        _name,
        "A tensor of one row was counted as if it were as large as the result that it is broadcast "
        "to. Broadcast, it has stride 0 along the rows: its bytes are those of one row.",
        **{_how: True},
    )
_ruled(
    "eager_reads_only",
    "The eager bytes lack the writes. Each operator writes its result.",
    eager_writes=False,
)
_ruled(
    "eager_writes_only",
    "The eager bytes lack the reads. Each operator reads its tensors.",
    eager_reads=False,
)
_ruled(
    "compiled_reads_only",
    "The compiled bytes lack the writes. A kernel writes what a product or the caller needs.",
    compiled_writes=False,
)
_ruled(
    "compiled_writes_only",
    "The compiled bytes lack the reads. A kernel reads each tensor that comes from outside.",
    compiled_reads=False,
)
_ruled(
    "read_once_in_all",
    "A tensor that the kernels before and behind the product both read was counted once. Each of "
    "them reads it.",
    around=True,
)
_ruled(
    "inputs_read_once_in_all",
    "A tensor that the kernels before and behind the product both read was counted once. Each of "
    "them reads it.",
    inputs_once=True,
)
_ruled(
    "one_result_each",
    "Of what a fused kernel makes only the last was written. It writes each tensor that a product "
    "or the caller needs.",
    one_result_each=True,
)
_ruled(
    "first_result_alone",
    "Several results are returned, and only the first was written. A result that leaves the graph "
    "has to leave the kernel.",
    first_result=True,
    unread_written=False,
)
_ruled(
    "inside_written",
    "What stays inside a fused kernel was counted as written. Only what a product or the caller "
    "needs leaves it.",
    inside_written=True,
)
_ruled(
    "results_not_written",
    "The results were not written. What leaves the graph, a kernel writes.",
    results_written=False,
    unread_written=False,
)
_ruled(
    "read_results_not_written",
    "A result that the same kernel reads as well was not written. The caller gets it too, so it "
    "has to leave the kernel.",
    read_results_written=False,
)
_ruled(
    "early_results_not_written",
    "A result that is made before the product was not written. The kernel before it writes what "
    "the caller needs, and not the factor alone.",
    early_results_written=False,
)
_ruled(
    "factor_at_hand",
    "What is made before the product was not read behind it. The kernel behind is another one: it "
    "reads from memory what the kernel before wrote.",
    factor_at_hand=True,
)
_ruled(
    "product_not_written",
    "The product's result was counted once. The library writes all of it, and the kernel behind "
    "reads it.",
    product_writes=False,
)
_ruled(
    "product_reads_nothing",
    "What the product reads is missing. It reads both of its factors.",
    product_reads=False,
)
_ruled(
    "product_out_of_compiled",
    "The product is missing from the compiled bytes. It is a call of a library: it reads both "
    "factors and writes all of its result.",
    product_writes=False,
    product_reads=False,
)
_ruled(
    "factor_not_written",
    "The factor that the kernel before the product makes was not written. The product is a call of "
    "a library, and reads it from memory.",
    factor_written=False,
)
_ruled(
    "unread_read",
    "Something that nobody reads was compiled. Inductor sweeps it away; eager mode runs it.",
    sweeps=False,
    unread_written=False,
)
_ruled(
    "given_twice",
    "A tensor that one operator is given twice was counted twice. It is the same memory: the "
    "operator reads it once.",
    given_apart=True,
)
_ruled(
    "results_twice",
    "A result that another kernel reads too was written twice. It lies in memory once.",
    results_apart=True,
)
_ruled(
    "named_twice",
    "A result that the output names twice was written twice. The caller gets one tensor in two "
    "places.",
    named_apart=True,
)
_ruled(
    "inputs_written",
    "An input that the caller gets back was counted as written. It lies in memory already.",
    inputs_written=True,
)
_ruled(
    "parted_by_an_unread_product",
    "Two kernels were counted around a product that nobody reads. Inductor does not compile it, "
    "and without a product the pointwise operators are one kernel.",
    unread_parts=True,
)


@bytes_moved.wrong(
    "saved",
    "The second number is what compiling saves. The bytes that are moved compiled were asked.",
)
def _(rows: Rows, shapes: Shapes) -> Moved:
    eager, compiled = _measured(rows, shapes)
    return eager, eager - compiled


@bytes_moved.wrong(
    "product_out_of_eager",
    "The product is missing from the eager bytes. It reads and writes as every operator does.",
)
def _(rows: Rows, shapes: Shapes) -> Moved:
    eager, compiled = _measured(rows, shapes)
    body = [row for row in rows if row[1] not in ("input", "output")]
    numel = _elements(body, shapes)
    product = [numel[n] for name, op, args, _ in body if op == MM for n in (name, *args)]
    return eager - 4 * sum(product), compiled


@bytes_moved.wrong("elements", "These are elements. A float32 has 4 bytes.")
def _(rows: Rows, shapes: Shapes) -> Moved:
    eager, compiled = _measured(rows, shapes)
    return eager // 4, compiled // 4


@bytes_moved.wrong("swapped", "The two numbers changed places: eager bytes first, then compiled.")
def _(rows: Rows, shapes: Shapes) -> Moved:
    eager, compiled = _measured(rows, shapes)
    return compiled, eager


@bytes_moved.wrong(
    "every_operator_both_times",
    "Compiled is as much as eager here. What one operator of a fused kernel hands to the next "
    "stays in a register.",
)
def _(rows: Rows, shapes: Shapes) -> Moved:
    eager, _ = _measured(rows, shapes)
    return eager, eager


@bytes_moved.cost
def _(student: Student, draw: Draw) -> str:
    rows, shapes = _drawn(draw, "head", 1, False)
    shapes |= {"x": [4096, 64], "c": [64], "w": [64, 600], "b": [600], "r": [4096, 600]}
    eager, compiled = student.call("bytes_moved", rows, shapes)
    return f"at the head, N = 4096: {eager:,} bytes eager, {compiled:,} compiled, a factor of " + (
        f"{eager / compiled:.1f}"
    )
