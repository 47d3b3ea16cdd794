"""Running a kernel without running Python: its statements, walked one by one for each program.

Blocks are numpy arrays, pointers are places in a buffer. The programs of a grid run one after the
other, and the buffers remember who was where: what would be a race on a GPU is one here.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from .admitted import Kernel, Refused
from .memory import Block, BlockPointer, Buffer, Fault, Pointer, buffer_of, tensor_in
from .words import DTYPES, METHODS, WORDS, bounded, computed, constant, kind_of, numbers

MAX_WORK = 400_000  # expressions and hundreds of elements, of all programs of a launch
MAX_INTEGER = 2**62
MAX_POWER = 64
_BINARY: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: Mapping[type, Callable[..., Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


_NUMBERS = {"math.inf": math.inf, "math.pi": math.pi, "math.e": math.e, "torch.inf": math.inf}
_HOMES = {"tl", "tl.math", "triton", "triton.language", "tl.extra.libdevice", "libdevice",
          "tl.extra.cuda.libdevice"}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a launch left: `tensors` by the names of the parameters, and what its programs loaded
    and stored of each, in bytes (an element that one access wants twice counts once)."""

    tensors: dict[str, Tensor]
    loaded_bytes: Mapping[str, int]
    stored_bytes: Mapping[str, int]


def launched(
    kernel: Kernel,
    grid: tuple[int, ...],
    given: Mapping[str, Any],
    outputs: tuple[str, ...],
    helpers: Mapping[str, Kernel] = MappingProxyType({}),
) -> Run:
    """Runs all programs of a grid. given: by parameter, tensors (those of `outputs` may be written
    to) and numbers. helpers: the functions that the kernel may call, by name.

    Raises Refused for parameters that are not those of `given`, and Fault, with its line.
    """
    if set(kernel.parameters) != set(given):
        raise Refused(f"The parameters are {', '.join(given)}: they are the page's.")
    tensors = {name: t for name, t in given.items() if isinstance(t, Tensor)}
    buffers = {name: buffer_of(name, t, writable=name in outputs) for name, t in tensors.items()}
    names = {name: _argument(kernel, name, value, buffers) for name, value in given.items()}
    budget = Budget(MAX_WORK)
    for number, place in enumerate(np.ndindex(*grid[::-1])):
        program = Program(number, place[::-1], grid, dict(names), budget, helpers)
        program.run(kernel)
    return Run(
        {name: tensor_in(buffers[name], t) for name, t in tensors.items()},
        {name: buffer.loaded_bytes for name, buffer in buffers.items()},
        {name: buffer.stored_bytes for name, buffer in buffers.items()},
    )


def _argument(kernel: Kernel, name: str, value: Any, buffers: Mapping[str, Buffer]) -> Any:
    if name in buffers:
        return Pointer(buffers[name], np.asarray(0))
    return value if name in kernel.constants else numbers(value)


@dataclass
class Budget:
    """What all programs of a launch may still compute."""

    left: int

    def spend(self, value: Any) -> Any:
        """Raises Fault."""
        self.left -= 1 + (value.size if isinstance(value, np.ndarray) else 0) // 256
        if self.left < 0:
            raise Fault("endless", "the kernel computes more than any of this lab should")
        return value


class _Returned(Exception):
    """A program, or a function that it calls, that is done before its last line; with a value."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


@dataclass
class Program:
    """One program: its number, its place in the grid, its names."""

    number: int
    place: tuple[int, ...]
    grid: tuple[int, ...]
    names: dict[str, Any]
    budget: Budget
    helpers: Mapping[str, Kernel]
    line: int = field(default=0, init=False)

    def run(self, kernel: Kernel) -> None:
        """Raises Fault, with the line that it happened in."""
        try:
            self._all(kernel.body)
        except _Returned:
            pass
        except Fault as fault:
            fault.line = self.line
            raise
        except RecursionError:
            raise Fault("misused", "the expression is too deep") from None

    def _all(self, body: list[ast.stmt] | tuple[ast.stmt, ...]) -> None:
        for statement in body:
            self.line = statement.lineno
            _STATEMENT[type(statement)](self, statement)

    def _expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._bind(target, value)

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise Fault("misused", "as many values are needed as names")
            for part, one in zip(target.elts, value, strict=True):
                self._bind(part, one)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self.value(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        before = self._name(ast.Name(node.target.id, ast.Load()))
        self.names[node.target.id] = _two(node.op, before, self.value(node.value))

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call):
            raise Fault("misused", "a loop goes over range(...)")
        word = ast.unparse(node.iter.func)
        if word not in ("range", "tl.range", "tl.static_range"):
            raise Fault("misused", "a loop goes over range(...)")
        ends = [_whole(self.value(end)) for end in node.iter.args]
        if not 1 <= len(ends) <= 3 or 0 in ends[2:]:
            raise Fault("misused", "range takes one to three ends, and a step that is not 0")
        for turn in range(*ends):
            self.budget.spend(turn)
            self._bind(node.target, turn if word == "tl.static_range" else np.asarray(turn))
            self._turn(node)

    def _while(self, node: ast.While) -> None:
        while self.budget.spend(self._truth(node.test)):
            self._turn(node)

    def _turn(self, loop: ast.For | ast.While) -> None:
        """Once through a loop. Raises Fault for a block that leaves it with another dtype: Triton
        compiles a loop once."""
        before = {name: value for name, value in self.names.items() if _is_float(value)}
        self._all(loop.body)
        for name, value in before.items():
            now = self.names[name]
            if _is_float(now) and now.dtype != value.dtype:
                self.line = loop.lineno
                raise Fault(
                    "dtypes",
                    f"{name} enters the loop as {value.dtype} and leaves it as {now.dtype}",
                )

    def _if(self, node: ast.If) -> None:
        self._all(node.body if self._truth(node.test) else node.orelse)

    def _truth(self, node: ast.expr) -> bool:
        value = self.value(node)
        if np.size(value) != 1 or np.ndim(value):
            raise Fault("misused", "a block is neither true nor false: use tl.where, & and |")
        return bool(value)

    def _return(self, node: ast.Return) -> None:
        raise _Returned(None if node.value is None else self.value(node.value))

    def value(self, node: ast.expr) -> Any:
        """What an expression is. Raises Fault."""
        return self.budget.spend(_EXPRESSION[type(node)](self, node))

    def _name(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise Fault("unknown_name", f"there is no {node.id!r}")
        return self.names[node.id]

    def _constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, (bool, int, float, str, type(None))):
            raise Fault("misused", "a kernel has numbers")
        return node.value

    def _binary(self, node: ast.BinOp) -> Any:
        return _two(node.op, self.value(node.left), self.value(node.right))

    def _unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return not self._truth(node.operand)
        value = self.value(node.operand)
        if isinstance(node.op, ast.Invert):
            return computed(np.invert, _integral(value))
        plain = isinstance(value, (int, float))
        if isinstance(node.op, ast.UAdd):
            return value
        return -value if plain else computed(np.negative, value)

    def _boolean(self, node: ast.BoolOp) -> Any:
        of = all if isinstance(node.op, ast.And) else any
        return of(self._truth(part) for part in node.values)

    def _compare(self, node: ast.Compare) -> Any:
        a, b = self.value(node.left), self.value(node.comparators[0])
        compare = _COMPARE.get(type(node.ops[0]))
        if compare is None:
            raise Fault("misused", "a kernel compares numbers")
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return compare(a, b)
        return computed(compare, a, b)

    def _choice(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self._truth(node.test) else node.orelse)

    def _parts(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return tuple(map(self.value, node.elts))

    def _subscript(self, node: ast.Subscript) -> Any:
        """x[:, None] and its like: a dimension of size 1 for each None."""
        value = self.value(node.value)
        if isinstance(value, tuple):
            return value[_whole(self.value(node.slice))]
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        index = tuple(map(_place, places))
        block = value.at if isinstance(value, Pointer) else numbers(value)
        if sum(place is not None for place in index) != np.ndim(block):
            raise Fault("shapes", f"{ast.unparse(node)}: the block has {np.ndim(block)} dimensions")
        return Pointer(value.buffer, block[index]) if isinstance(value, Pointer) else block[index]

    def _attribute(self, node: ast.Attribute) -> Any:
        if (said := ast.unparse(node)) in _NUMBERS:
            return _NUMBERS[said]
        if _is_tl(node.value):
            if node.attr not in DTYPES:
                raise Fault("unknown_word", f"tl.{node.attr} is no word of this lab's kernels")
            return DTYPES[node.attr]
        value = self.value(node.value)
        if node.attr == "T":
            return WORDS["trans"](value)
        if node.attr == "shape":
            return np.shape(value)
        if node.attr in ("dtype", "type"):
            return value.buffer.values if isinstance(value, Pointer) else numbers(value).dtype
        if node.attr == "element_ty" and isinstance(value, np.ndarray):
            return value.dtype  # of x_ptr.dtype
        raise Fault("unknown_word", f".{node.attr} is no word of this lab's kernels")

    def _call(self, node: ast.Call) -> Any:
        said, word = ast.unparse(node.func), node.func
        named = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        given = [self.value(argument) for argument in node.args]
        try:
            if isinstance(word, ast.Attribute) and _is_tl(word.value):
                return self._tl(word.attr, given, named)
            if isinstance(word, ast.Attribute):
                return self._method(word, given, named)
            if said in self.helpers:
                return self._of_helper(self.helpers[said], given, named)
            return _builtin(said, given, named)
        except (TypeError, AttributeError, IndexError, ValueError, OverflowError):
            raise Fault("misused", f"{said} does not take this") from None

    def _of_helper(self, helper: Kernel, given: list[Any], named: dict[str, Any]) -> Any:
        """What a function of the student's own returns: it has names of its own."""
        names = dict(zip(helper.parameters, given, strict=False)) | named
        if len(given) > len(helper.parameters) or set(names) != set(helper.parameters):
            raise Fault("misused", f"{helper.name} takes {', '.join(helper.parameters)}")
        inside = Program(self.number, self.place, self.grid, names, self.budget, self.helpers)
        try:
            inside._all(helper.body)
        except _Returned as returned:
            return returned.value
        return None

    def _tl(self, word: str, given: list[Any], named: dict[str, Any]) -> Any:
        own: Mapping[str, Callable[..., Any]] = {
            "program_id": self._program_id,
            "num_programs": self._num_programs,
            "load": self._load,
            "store": self._store,
            "atomic_add": self._add,
            "make_block_ptr": _block_pointer,
            "advance": _advanced,
        }
        if word not in own and word not in WORDS:
            raise Fault("unknown_word", f"tl.{word} is no word of this lab's kernels")
        return (own.get(word) or WORDS[word])(*given, **named)

    def _method(self, word: ast.Attribute, given: list[Any], named: dict[str, Any]) -> Any:
        name = {"to": "cast"}.get(word.attr, word.attr)
        if name == "advance":
            return _advanced(self.value(word.value), *given, **named)
        if name not in METHODS:
            raise Fault("unknown_word", f".{word.attr} is no word of this lab's kernels")
        return WORDS[name](self.value(word.value), *given, **named)

    def _program_id(self, axis: int) -> Block:
        return np.asarray(self.place[axis] if axis < len(self.place) else 0)

    def _num_programs(self, axis: int) -> Block:
        return np.asarray(self.grid[axis] if axis < len(self.grid) else 1)

    def _load(
        self, pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (),
        padding_option: str = "", **_: Any,
    ) -> Block:  # fmt: skip
        buffer, at, lanes = _lanes(pointer, mask, boundary_check)
        result = np.full(at.shape, _nothing(buffer), buffer.values.dtype)
        if isinstance(pointer, BlockPointer) and padding_option == "zero":
            other = 0
        if other is not None:
            with np.errstate(all="ignore"):  # -inf for integers
                result[...] = _spread(other, at.shape)
        if lanes.any():
            result[lanes] = buffer.load(at[lanes], self.number)
        return result

    def _store(
        self, pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), **_: Any
    ) -> None:
        buffer, at, lanes = _lanes(pointer, mask, boundary_check)
        values = _spread(value, at.shape)
        if lanes.any():
            with np.errstate(all="ignore"):
                buffer.store(at[lanes], values[lanes], self.number)

    def _add(self, pointer: Any, val: Any, mask: Any = None, **_: Any) -> None:
        buffer, at, lanes = _lanes(pointer, mask, ())
        values = _spread(val, at.shape)
        if lanes.any():
            buffer.add(at[lanes], values[lanes], self.number)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _is_tl(node: ast.expr) -> bool:
    return ast.unparse(node) in _HOMES


def _place(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Slice) and not (node.lower or node.upper or node.step):
        return slice(None)
    raise Fault("misused", "of a block only [:, None] and its like are taken")


def _two(op: ast.operator, a: Any, b: Any) -> Any:
    """a op b, where a pointer and a number are a pointer further on."""
    operation = _BINARY.get(type(op))
    if operation is None:
        raise Fault("misused", f"{type(op).__name__} is no word of this lab's kernels")
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        return _moved(op, a, b)
    plain = isinstance(a, (int, float)) and isinstance(b, (int, float))
    shift = isinstance(op, (ast.LShift, ast.RShift))
    if shift or isinstance(op, (ast.Mod, ast.FloorDiv, ast.BitAnd, ast.BitOr, ast.BitXor)):
        a, b = _integral(a), _integral(b)
    if shift and not (np.all(np.greater_equal(b, 0)) and np.all(np.less(b, 63))):
        raise Fault("too_large", "a number of 64 bits is shifted by 0 to 62")
    if isinstance(op, (ast.Mod, ast.FloorDiv, ast.Div)) and plain and not b:
        raise Fault("misused", "this divides by 0")
    if isinstance(op, ast.Pow) and not (plain and 0 <= b <= MAX_POWER and abs(a) <= MAX_POWER):
        raise Fault("misused", "** is for numbers that are known when the kernel is compiled")
    if not plain:
        return computed(operation, a, b)
    result = operation(a, b)
    if isinstance(result, int) and abs(result) > MAX_INTEGER:
        raise Fault("too_large", "the number does not fit into 64 bits")
    return result


def _integral(value: Any) -> Any:
    kind = numbers(value).dtype.kind
    if kind not in "iub":
        raise Fault("dtypes", "//, %, & and | are for integers and truth values")
    return value


def _moved(op: ast.operator, a: Any, b: Any) -> Pointer:
    pointer, by = (a, b) if isinstance(a, Pointer) else (b, a)
    backwards = isinstance(op, ast.Sub) and pointer is b
    if isinstance(by, Pointer) or not isinstance(op, (ast.Add, ast.Sub)) or backwards:
        raise Fault("misused", "to a pointer only a number is added")
    if numbers(by).dtype.kind not in "iu":
        raise Fault("dtypes", f"to a pointer integers are added, not {numbers(by).dtype}")
    return Pointer(pointer.buffer, computed(_BINARY[type(op)], pointer.at, by))


def _whole(value: Any) -> int:
    block = numbers(value)
    if block.ndim or block.dtype.kind not in "iu":
        raise Fault("misused", "range takes single integers")
    return int(block)


def _lanes(pointer: Any, mask: Any, checked: Any) -> tuple[Buffer, Block, Block]:
    """The buffer, the place of each lane, and whether the lane takes part."""
    if isinstance(pointer, BlockPointer):
        if mask is not None:
            raise Fault("misused", "a block pointer takes boundary_check, and no mask")
        pointer, mask = pointer.lanes(checked)
    if not isinstance(pointer, Pointer):
        raise Fault("misused", f"a pointer is needed, not {kind_of(pointer)}")
    at = np.asarray(pointer.at)
    return pointer.buffer, at, _spread(True if mask is None else mask, at.shape).astype(bool)


def _block_pointer(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    if not isinstance(base, Pointer) or np.ndim(base.at):
        raise Fault("misused", "a block pointer begins at a single pointer")
    sizes = tuple(map(constant, block_shape))
    bounded(sizes)
    if {len(shape), len(strides), len(offsets)} != {len(sizes)}:
        raise Fault("shapes", "shape, strides, offsets and block_shape have one length")
    size, stride, first = (tuple(map(_whole, part)) for part in (shape, strides, offsets))
    return BlockPointer(base, size, stride, first, sizes)


def _advanced(pointer: Any, offsets: Any) -> BlockPointer:
    if not isinstance(pointer, BlockPointer) or len(offsets) != len(pointer.block):
        raise Fault("misused", "tl.advance moves a block pointer, in each of its dimensions")
    return pointer.advanced(tuple(map(_whole, offsets)))


def _spread(value: Any, shape: tuple[int, ...]) -> Block:
    block = numbers(value)
    try:
        return np.broadcast_to(block, shape)
    except ValueError:
        raise Fault("shapes", f"{block.shape} does not fit pointers of {shape}") from None


def _nothing(buffer: Buffer) -> Any:
    """What a lane holds that loaded nothing, and was told nothing else."""
    return np.nan if buffer.values.dtype.kind == "f" else 2**40


def _builtin(said: str, given: list[Any], named: dict[str, Any]) -> Any:
    if said == "float" and len(given) == 1 and isinstance(given[0], str):
        return float(given[0])
    if said in ("min", "max") and len(given) == 2 and not named:
        if all(isinstance(one, (int, float)) for one in given):
            return min(given) if said == "min" else max(given)
        return computed(np.minimum if said == "min" else np.maximum, *given)
    raise Fault("unknown_function", f"there is no function {said} that begins with @kernel")


_STATEMENT: Mapping[type, Callable[[Program, Any], None]] = {
    ast.Assign: Program._assign,
    ast.AugAssign: Program._augmented,
    ast.AnnAssign: Program._annotated,
    ast.For: Program._for,
    ast.While: Program._while,
    ast.If: Program._if,
    ast.Expr: Program._expression,
    ast.Pass: lambda program, node: None,
    ast.Assert: lambda program, node: None,  # as Triton: only where it is asked to debug
    ast.Return: Program._return,
}
_EXPRESSION: Mapping[type, Callable[[Program, Any], Any]] = {
    ast.Name: Program._name,
    ast.Constant: Program._constant,
    ast.BinOp: Program._binary,
    ast.UnaryOp: Program._unary,
    ast.BoolOp: Program._boolean,
    ast.Compare: Program._compare,
    ast.IfExp: Program._choice,
    ast.Call: Program._call,
    ast.Attribute: Program._attribute,
    ast.Subscript: Program._subscript,
    ast.Tuple: Program._parts,
    ast.List: Program._parts,
}
