"""Which one place of a wrong kernel is the mistake: that with whose repair every case is right.

A misreading says what a mistake stores; a repair says it of the text. Each changes one place, and
its sentence is told only where the changed kernel passes, so it is true of the kernel as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial

from .admitted import Kernel

MOST = 60
"""Kernels that are tried, at most: each is launched until its first case fails."""
Repaired = Iterator[ast.AST]
_OTHER_WORDS = {
    "min": ("max", "The smallest is taken where the largest is needed."),
    "max": ("min", "The largest is taken where the smallest is needed."),
    "minimum": ("maximum", "The smaller is taken where the larger is needed."),
    "exp2": ("exp", "tl.exp2 is a power of 2. Here a power of e is needed."),
    "log2": ("log", "tl.log2 is the logarithm of base 2. Here the natural one is needed."),
    "store": ("atomic_add", "This stores where it has to add: others add there too."),
    "atomic_add": ("store", "This adds to memory that holds nothing yet. A store is needed."),
}
TOO_MANY = "One term or factor is too many."
TURNED = "A sign is turned: there is a + for a -, or a - for a +."
EXCHANGED = "The two sides of a difference are exchanged."
EITHER = "With | a lane takes part where one of its indices is inside. Both have to be: &."
OTHER = "What masked lanes hold takes part. It has to be a number that changes nothing: `other`."
HALF = "A number is rounded to 16 bits on the way, of which three digits are right."
TRANSPOSED = "One factor of a product is transposed, or has to be."
AXES = "A row stands where a column has to be, or a column for a row: [None, :] and [:, None]."
UNSTRIDED = (
    "An index, or a step to the next tile, is not multiplied by its stride: neighbours in a tensor "
    "need not lie side by side."
)
STRIDES = "A pointer moves by the strides of another tensor. Each tensor has its own."
TF32 = 'tl.dot rounds float32 to tf32, ten bits, unless it is told input_precision="ieee".'


def repairs(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """(sentence, the kernel with one place changed), the likely ones first."""
    tree = ast.Module(list(kernel.body), [])
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    bounds = {id(part) for loop in loops for part in ast.walk(loop.iter)}
    strided: Callable[[ast.AST], Repaired] = partial(_strided, kernel.parameters)
    for sentence, change in ((UNSTRIDED, strided), *_CHANGES):
        for number, node in enumerate(ast.walk(tree)):
            if id(node) not in bounds:  # a longer loop may only happen to be right
                for one in change(node):
                    yield sentence_of(sentence, node), _with(kernel, tree, number, one)


def sentence_of(sentence: str, node: ast.AST) -> str:
    """That of the word, where a change has one for each."""
    if sentence or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return sentence
    return _OTHER_WORDS[node.func.attr][1]


def _with(kernel: Kernel, tree: ast.Module, number: int, instead: ast.AST) -> Kernel:
    fresh = deepcopy(tree)
    place = next(node for k, node in enumerate(ast.walk(fresh)) if k == number)
    for parent in ast.walk(fresh):
        for name, value in ast.iter_fields(parent):
            if value is place:
                setattr(parent, name, instead)
            elif isinstance(value, list) and any(part is place for part in value):
                setattr(parent, name, [instead if part is place else part for part in value])
    ast.fix_missing_locations(fresh)
    return Kernel(kernel.name, kernel.parameters, kernel.constants, tuple(fresh.body), kernel.lines)


def _word(node: ast.AST) -> str:
    """The word of tl, or the method, that is called."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return node.func.attr if called else ""  # type: ignore[attr-defined]


def _other_word(node: ast.AST) -> Repaired:
    if _word(node) in _OTHER_WORDS:
        one = deepcopy(node)
        one.func.attr = _OTHER_WORDS[_word(node)][0]  # type: ignore[attr-defined]
        yield one


def _either(node: ast.AST) -> Repaired:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield ast.BinOp(node.left, ast.BitAnd(), node.right)


def _other(node: ast.AST) -> Repaired:
    if _word(node) == "load":
        for text in ("0.0", 'float("-inf")'):
            one = deepcopy(node)
            assert isinstance(one, ast.Call)
            one.keywords = [k for k in one.keywords if k.arg != "other"]
            one.keywords.append(ast.keyword("other", ast.parse(text, mode="eval").body))
            yield one
    if isinstance(node, ast.For):  # all loads of a loop that say nothing of their masked lanes
        one = deepcopy(node)
        for load in ast.walk(one):
            if isinstance(load, ast.Call) and [k.arg for k in load.keywords] == ["mask"]:
                load.keywords += [ast.keyword("other", ast.Constant(0.0))] * (_word(load) == "load")
        yield one


def _other_axis(node: ast.AST) -> Repaired:
    """[None, :] for [:, None], and the other way round."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        one = deepcopy(node)
        one.slice = ast.Tuple(node.slice.elts[::-1], ast.Load())
        yield one


def _strided(parameters: Sequence[str], node: ast.AST) -> Repaired:
    """p_ptr + ... + index, with each p_n of the parameters that is not there as a factor; and the
    steps of pointers in a loop, one of them or all."""
    if isinstance(node, ast.For):
        yield from _strided_steps(parameters, node)
    if _stepped(parameters, node):
        for name in parameters:
            if re.fullmatch(r"[a-z]_[a-z]", name):
                yield _times(deepcopy(node), name)
    if isinstance(node, ast.BinOp) and isinstance(node.right, (ast.Name, ast.Subscript)):
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for name in parameters if isinstance(node.op, ast.Add) else ():
            pointer, _, of = name.rpartition("_")
            if len(of) == 1 and name not in names and f"{pointer}_ptr" in names:
                factor = ast.BinOp(deepcopy(node.right), ast.Mult(), ast.Name(name, ast.Load()))
                yield ast.BinOp(node.left, node.op, factor)


def _stepped(parameters: Sequence[str], node: ast.AST) -> str:
    """p of p += TILE, by a number that is given; "" for anything else."""
    if (
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Name)
        and node.value.id in parameters
    ):
        return node.target.id
    return ""


def _times(step: ast.AST, name: str) -> ast.AST:
    assert isinstance(step, ast.AugAssign)
    step.value = ast.BinOp(step.value, ast.Mult(), ast.Name(name, ast.Load()))
    return step


def _strided_steps(parameters: Sequence[str], loop: ast.For) -> Repaired:
    """The loop with all its steps times a stride of the tensor whose name theirs begins with, all
    along one axis: x_at and w_at with x_d and w_d."""
    for axis in sorted({name[2] for name in parameters if re.fullmatch(r"[a-z]_[a-z]", name)}):
        one, many = deepcopy(loop), 0
        for step in ast.walk(one):
            pointer = _stepped(parameters, step)
            if pointer and f"{pointer[0]}_{axis}" in parameters:
                _times(step, f"{pointer[0]}_{axis}")
                many += 1
        if many > 1:
            yield one


def _own_strides(node: ast.AST) -> Repaired:
    """The place of a load or store that begins at p_ptr, with p_n for the q_n in it."""
    if _word(node) in ("load", "store", "atomic_add"):
        one = deepcopy(node)
        names = [part for part in ast.walk(one.args[0]) if isinstance(part, ast.Name)]  # type: ignore[attr-defined]
        pointers = [name.id.removesuffix("_ptr") for name in names if name.id.endswith("_ptr")]
        others = [name for name in names if re.fullmatch(r"[a-z]+_[a-z]", name.id)]
        if len(pointers) == 1 and any(not n.id.startswith(f"{pointers[0]}_") for n in others):
            for name in others:
                name.id = f"{pointers[0]}_{name.id[-1]}"
            yield one


def _turned(node: ast.AST) -> Repaired:
    signs = {ast.Add: ast.Sub, ast.Sub: ast.Add}
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in signs:
        one = deepcopy(node)
        one.op = signs[type(node.op)]()
        yield one
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def _exchanged(node: ast.AST) -> Repaired:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        yield ast.BinOp(node.right, node.op, node.left)


def _half(node: ast.AST) -> Repaired:
    if _word(node) in ("to", "cast") and "16" in ast.unparse(node):
        yield node.func.value if _word(node) == "to" else node.args[0]  # type: ignore[attr-defined]


def _transposed(node: ast.AST) -> Repaired:
    if _word(node) == "trans":
        yield node.args[0]  # type: ignore[attr-defined]
    if _word(node) == "dot":
        for place in (0, 1):
            one = deepcopy(node)
            assert isinstance(one, ast.Call)
            if len(one.args) > place:
                one.args[place] = ast.Attribute(one.args[place], "T", ast.Load())
                yield one


def _exact(node: ast.AST) -> Repaired:
    if _word(node) == "dot" and "ieee" not in ast.unparse(node):
        one = deepcopy(node)
        assert isinstance(one, ast.Call)
        one.keywords = [k for k in one.keywords if k.arg not in ("allow_tf32", "input_precision")]
        one.keywords.append(ast.keyword("input_precision", ast.Constant("ieee")))
        yield one


def _too_many(node: ast.AST) -> Repaired:
    if isinstance(node, ast.BinOp):
        yield node.left
        yield node.right
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()


_CHANGES: tuple[tuple[str, Callable[[ast.AST], Repaired]], ...] = (
    ("", _other_word),
    (STRIDES, _own_strides),
    (EITHER, _either),
    (HALF, _half),
    (OTHER, _other),
    (AXES, _other_axis),
    (TF32, _exact),
    (TURNED, _turned),
    (EXCHANGED, _exchanged),
    (TRANSPOSED, _transposed),
    (TOO_MANY, _too_many),
)
