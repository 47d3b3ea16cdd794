"""The bytes that a chain of operators moves, one by one and compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

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
    cases = [("head", 2, False), ("plain", 0, True), ("head", 1, True), ("square", 1, False)]
    kinds = [(draw.choice(("head", "plain")), draw.integer(0, 1), draw.choice((True, False)))]
    for kind, before, extra in (*cases, *(kinds[0] for _ in draw.cases(1))):
        rows, shapes = _drawn(draw, kind, before, extra)
        expect_equal(student.call("bytes_moved", rows, shapes), _measured(rows, shapes))


def _drawn(draw: Draw, kind: str, before: int, extra: bool) -> tuple[Rows, Shapes]:
    """Some pointwise operators; for a head a product and some more behind it. extra: an operator
    that nobody reads, of an input that nobody else reads, and an intermediate that is returned as
    well. A square head has kernels before and behind its product that read the same tensors."""
    n, d, v = draw.integer(3, 9), draw.integer(5, 9), draw.integer(11, 30)
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
    rows += [("v", "aten.mul.Tensor", ["u", "r"], {}), ("z", "aten.tanh.default", ["v"], {})]
    rows += [("q", "aten.sub.Tensor", ["u", "e"], {})] if extra else []
    rows.append(("out", "output", ["z", "u"] if extra else ["z"], {}))
    return [*((name, "input", [], {}) for name in shapes), *rows], shapes


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
    once: bool = True  # a fused kernel reads a tensor once, however many of its operators do
    epilogue: bool = False  # the product's result stays inside the kernel behind it
    first_result: bool = False  # only the first result is written
    wide: bool = False  # a row that is broadcast counts for all its rows
    one_kernel: bool = False  # the product too is part of the one fused kernel
    eager_sweeps: bool = False  # eager mode leaves out what nobody reads
    inputs_only: bool = False  # compiled, no kernel reads what another wrote

    def predict(self, rows: Rows, shapes: Shapes) -> Moved:
        """(eager bytes, compiled bytes) of a listing of `bytes_moved`."""
        body = [row for row in rows if row[1] not in ("input", "output")]
        numel, results = _elements(body, shapes), rows[-1][2]
        eager = sum(
            self.reads * sum(self.read(numel, name, op, arg) for arg in _names(args))
            + self.writes * numel[name]
            for name, op, args, _ in body
            if not self.eager_sweeps or name in _alive(body, results)
        )
        return 4 * eager, 4 * self.compiled(body, results, numel)

    def read(self, numel: dict[str, int], name: str, op: str, arg: str) -> int:
        return numel[name] if self.wide and op != MM else numel[arg]

    def compiled(self, body: Rows, results: list[Any], numel: dict[str, int]) -> int:
        kernel = _kernels(body) if not self.one_kernel else {row[0]: "the one" for row in body}
        total, done = 0, set()
        for name, op, args, _ in body:
            if self.sweeps and name not in _alive(body, results):
                continue
            for arg in _names(args):
                inside = kernel.get(arg) == kernel[name] or (self.epilogue and arg == "m")
                inside = inside or (self.inputs_only and arg in kernel)
                if not inside and not (self.once and (arg, kernel[name]) in done):
                    total += self.reads * self.read(numel, name, op, arg)
                    done.add((arg, kernel[name]))
            kept = results[:1] if self.first_result else results
            total += self.writes * self.leaves(body, kernel, name, kept) * numel[name]
        return total

    def leaves(self, body: Rows, kernel: dict[str, Any], name: str, kept: list[Any]) -> bool:
        """Whether somebody outside the kernel reads this result, or, unswept, nobody at all."""
        if self.epilogue and name == "m":
            return False
        readers = [kernel[row[0]] for row in body if name in row[2]]
        return name in kept or not readers or any(k != kernel[name] for k in readers)


def _alive(body: Rows, results: list[Any]) -> set[str]:
    """What somebody reads."""
    return {arg for _, _, args, _ in body for arg in _names(args)} | set(results)


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
    "What one kernel wrote for the next was counted when it went out, and not when it came in. "
    "Between two kernels a tensor is written and read.",
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
    "Two results are returned, and one of them was not written. A result that leaves the graph has "
    "to leave the kernel.",
    bytes_moved=Rules(first_result=True).predict,
)
bytes_moved.wrong(
    "read_again_and_again",
    "A tensor was read once for each operator that uses it. A fused kernel holds an element in a "
    "register once it is there.",
    bytes_moved=Rules(once=False).predict,
)
bytes_moved.wrong(
    "broadcast_rows",
    "A bias was counted as if it were as large as what it is added to. It has stride 0 along the "
    "rows: its bytes are those of one row.",
    bytes_moved=Rules(wide=True).predict,
)


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
