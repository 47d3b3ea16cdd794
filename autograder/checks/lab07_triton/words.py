"""The words of `tl` that a kernel may use, over numpy: each does for a block what Triton's does.

Of a float32 product the factors are rounded to tf32 unless `input_precision="ieee"` says otherwise,
as on a GPU that has it; Triton's own interpreter does not show that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .memory import Block, Fault, Pointer

MAX_ELEMENTS = 2**20  # Triton's own limit
DTYPES: Mapping[str, Any] = {
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "int32": np.dtype(np.int64),  # nothing here comes near the limit of 32 bits
    "int64": np.dtype(np.int64),
    "int1": np.dtype(np.bool_),
}
_TF32_BITS = 13  # of a float32's 23, dropped


def numbers(value: Any) -> Block:
    """A value as a block. Raises Fault for what is none."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (bool, int, float)):
        return np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
    raise Fault("misused", f"a number or a block is needed, not {kind_of(value)}")


def kind_of(value: Any) -> str:
    return "a pointer" if isinstance(value, Pointer) else type(value).__name__


def bounded(shape: Sequence[int]) -> None:
    if math.prod(shape) > MAX_ELEMENTS:
        raise Fault("too_large", f"a block has at most {MAX_ELEMENTS:,} elements")


def computed(operation: Callable[..., Any], *values: Any) -> Block:
    """An elementwise operation. Python's floats take the dtype of the block beside them."""
    given = [v if isinstance(v, (bool, int, float)) else numbers(v) for v in values]
    try:
        bounded(np.broadcast_shapes(*(np.shape(v) for v in given)))
    except ValueError:
        shapes = " and ".join(str(np.shape(v)) for v in given)
        raise Fault("shapes", f"blocks of {shapes} do not fit together") from None
    wide = any(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in given)
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(operation(*given))
    except (TypeError, ValueError, OverflowError) as error:
        raise Fault("dtypes", f"these numbers do not go together: {error}") from None
    return result if wide or result.dtype != np.float64 else result.astype(np.float32)


def constant(value: Any) -> int:
    """A size: known when the kernel is compiled, and a power of two."""
    if isinstance(value, np.ndarray) or not isinstance(value, int):
        raise Fault("not_constexpr", "the shape of a block is known when the kernel is compiled")
    if value < 1 or value & (value - 1):
        raise Fault("power_of_two", f"the shape of a block is a power of two, not {value}")
    return value


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(map(constant, shape if isinstance(shape, (list, tuple)) else [shape]))
    bounded(sizes)
    return sizes


def arange(start: Any, end: Any) -> Block:
    if isinstance(start, np.ndarray) or isinstance(end, np.ndarray):
        raise Fault("not_constexpr", "the ends of tl.arange are known when the kernel is compiled")
    bounded([constant(end - start)])
    return np.arange(start, end)


def full(shape: Any, value: Any, dtype: Any) -> Block:
    return np.broadcast_to(numbers(value).astype(dtype), _shape(shape)).copy()


def zeros(shape: Any, dtype: Any) -> Block:
    return full(shape, 0, dtype)


def reduced(operation: Callable[..., Any]) -> Callable[..., Block]:
    def word(input: Any, axis: Any = None, keep_dims: bool = False, **_: Any) -> Block:
        block = numbers(input)
        if axis is not None and not -block.ndim <= axis < block.ndim:
            raise Fault("shapes", f"a block of {block.shape} has no axis {axis}")
        kept = np.float32 if block.dtype == np.float16 else block.dtype  # as Triton adds
        with np.errstate(all="ignore"):
            result = operation(block.astype(kept), axis=axis, keepdims=keep_dims)
        return np.asarray(result, block.dtype if block.dtype.kind == "f" else None)

    return word


def indexed(
    value: Callable[..., Block], place: Callable[..., Any]
) -> Callable[..., Block | tuple[Block, Block]]:
    """tl.max and tl.min: with return_indices the place of the number too."""

    def word(
        input: Any,
        axis: Any = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Block | tuple[Block, Block]:
        found = value(input, axis, keep_dims)
        return (found, place(input, axis, keep_dims=keep_dims)) if return_indices else found

    return word


def placed(operation: Callable[..., Any]) -> Callable[..., Block]:
    """tl.argmax and tl.argmin, of which the leftmost wins a tie."""

    def word(input: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> Block:
        block = numbers(input)
        if not -block.ndim <= axis < block.ndim:
            raise Fault("shapes", f"a block of {block.shape} has no axis {axis}")
        return np.asarray(operation(block, axis=axis, keepdims=keep_dims))

    return word


def cumulated(input: Any, axis: int = 0, reverse: bool = False, dtype: Any = None) -> Block:
    block = numbers(input)
    if not -block.ndim <= axis < block.ndim:
        raise Fault("shapes", f"a block of {block.shape} has no axis {axis}")
    turned = np.flip(block, axis) if reverse else block
    total = np.cumsum(turned, axis=axis, dtype=dtype or block.dtype)
    return np.flip(total, axis) if reverse else total


def flip(x: Any, dim: int | None = None) -> Block:
    block = numbers(x)
    return np.flip(block, block.ndim - 1 if dim is None else dim)


def gather(src: Any, index: Any, axis: int) -> Block:
    """src at these places along `axis`. Raises Fault where there is none."""
    block, at = numbers(src), numbers(index)
    if at.dtype.kind not in "iu" or at.ndim != block.ndim or not 0 <= axis < block.ndim:
        raise Fault("shapes", "tl.gather takes a block, as many dimensions of indices, an axis")
    if at.size and (at.min() < 0 or at.max() >= block.shape[axis]):
        raise Fault("misused", "tl.gather is asked for a place that the block does not have")
    try:
        return np.take_along_axis(block, at, axis)
    except (ValueError, IndexError):
        raise Fault("shapes", f"{at.shape} does not index {block.shape}") from None


def broadcast(input: Any, other: Any) -> tuple[Block, ...]:
    a, b = (np.asarray(numbers(one)) for one in (input, other))
    computed(np.not_equal, a, b)  # raises Fault where they do not fit
    return tuple(np.broadcast_arrays(a, b))


def full_like(input: Any, value: Any) -> Block:
    return np.full_like(numbers(input), value)


def clamp(x: Any, min: Any, max: Any, **_: Any) -> Block:
    return computed(np.minimum, computed(np.maximum, x, min), max)


def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    out_dtype: Any = DTYPES["float32"],
    max_num_imprecise_acc: int | None = None,
) -> Block:
    """(M, K) by (K, N), added up in float32."""
    a, b = numbers(input), numbers(other)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise Fault("shapes", f"tl.dot of {a.shape} and {b.shape}: (M, K) and (K, N) are needed")
    if a.dtype != b.dtype:
        raise Fault("dtypes", f"tl.dot of {a.dtype} and {b.dtype}: it wants one dtype")
    exact = input_precision in ("ieee", "tf32x3") or allow_tf32 is False
    if a.dtype == np.float32 and not exact:
        a, b = _tf32(a), _tf32(b)
    with np.errstate(all="ignore"):
        product = (a.astype(np.float32) @ b.astype(np.float32)).astype(out_dtype)
    return product if acc is None else computed(np.add, acc, product)


def _tf32(block: Block) -> Block:
    """Rounded to the nearest number with ten bits behind the point."""
    bits = np.ascontiguousarray(block).view(np.uint32)
    half = np.uint32(1 << (_TF32_BITS - 1))
    rounded = (bits + half) & np.uint32(0xFFFFFFFF << _TF32_BITS & 0xFFFFFFFF)
    return np.where(np.isfinite(block), rounded.view(np.float32), block)


def trans(input: Any, *dims: Any) -> Block:
    """The dimensions in the order `dims`, two numbers or a tuple; without it in reverse."""
    block = numbers(input)
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple) else dims
    if order and sorted(order) != list(range(block.ndim)):
        raise Fault("shapes", f"a block of {block.shape} has no dimensions {order}")
    return block.transpose(order or None)


def softmax(x: Any, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False) -> Block:
    """As Triton writes it: along the first dimension unless told otherwise."""
    block = numbers(x)
    axis = 0 if dim is None else dim
    if not 0 <= axis < block.ndim:
        raise Fault("shapes", f"a block of {block.shape} has no axis {axis}")
    with np.errstate(all="ignore"):
        e = np.exp(block - block.max(axis=axis, keepdims=True))
        return np.asarray(e / e.sum(axis=axis, keepdims=True), np.float32)


def zeros_like(input: Any) -> Block:
    return np.zeros_like(numbers(input))


def divided(x: Any, y: Any, ieee_rounding: bool = False) -> Block:
    return computed(np.true_divide, x, y)


def same(input: Any, values: Any = None) -> Any:
    """Of the words that promise the compiler something about a value."""
    return input


def said(*parts: Any, **more: Any) -> None:
    """Of the words that print or promise, and compute nothing."""


def where(condition: Any, x: Any, y: Any) -> Block:
    if isinstance(x, float) and isinstance(y, float):
        x = numbers(x)
    return computed(np.where, condition, x, y)


def expand_dims(input: Any, axis: int) -> Block:
    return np.expand_dims(numbers(input), axis)


def broadcast_to(input: Any, *shape: Any) -> Block:
    sizes = _shape(shape[0] if len(shape) == 1 else shape)
    try:
        return np.broadcast_to(numbers(input), sizes)
    except ValueError:
        raise Fault("shapes", f"{np.shape(input)} is not broadcast to {sizes}") from None


def reshape(input: Any, *shape: Any) -> Block:
    sizes = _shape(shape[0] if len(shape) == 1 else shape)
    if math.prod(sizes) != numbers(input).size:
        raise Fault("shapes", f"{np.shape(input)} has no shape {sizes}")
    return numbers(input).reshape(sizes)


def cdiv(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b) if b else 0
    return computed(lambda x, y: -(-x // y), a, b)


def cast(input: Any, dtype: Any) -> Block:
    if not isinstance(dtype, np.dtype):
        raise Fault("misused", "a dtype is needed, such as tl.float32")
    with np.errstate(all="ignore"):
        return numbers(input).astype(dtype)


def sigmoid(x: Any) -> Block:
    return computed(lambda value: 1 / (1 + np.exp(-value)), x)


def elementwise(operation: Callable[..., Any]) -> Callable[..., Block]:
    def word(*values: Any) -> Block:
        wanted = operation.nin if isinstance(operation, np.ufunc) else 1
        if len(values) != wanted:
            raise TypeError(f"takes {wanted}")
        return computed(operation, *values)

    return word


def floating(operation: Callable[..., Any]) -> Callable[[Any], Block]:
    """Of exp and its like, which Triton has for floats only."""

    def word(x: Any) -> Block:
        block = numbers(x)
        if block.dtype.kind != "f":
            raise Fault("dtypes", "exp, log and sqrt take floats")
        return computed(operation, block)

    return word


WORDS: Mapping[str, Callable[..., Any]] = {
    "arange": arange, "zeros": zeros, "full": full, "dot": dot, "trans": trans, "where": where,
    "expand_dims": expand_dims, "broadcast_to": broadcast_to, "reshape": reshape, "cdiv": cdiv,
    "cast": cast, "sigmoid": sigmoid, "sum": reduced(np.sum),
    "max": indexed(reduced(np.max), placed(np.argmax)),
    "min": indexed(reduced(np.min), placed(np.argmin)), "argmax": placed(np.argmax),
    "argmin": placed(np.argmin), "cumsum": cumulated, "flip": flip, "gather": gather,
    "broadcast": broadcast, "full_like": full_like, "clamp": clamp,
    "ravel": lambda x: reshape(x, numbers(x).size), "exp": floating(np.exp),
    "exp2": floating(np.exp2),
    "log": floating(np.log), "log2": floating(np.log2), "sqrt": floating(np.sqrt),
    "rsqrt": floating(lambda x: 1 / np.sqrt(x)), "abs": elementwise(np.abs),
    "maximum": elementwise(np.maximum), "minimum": elementwise(np.minimum),
    "permute": trans, "view": reshape, "zeros_like": zeros_like, "softmax": softmax,
    "fdiv": divided, "div_rn": divided, "multiple_of": same, "max_contiguous": same,
    "max_constancy": same, "constexpr": same, "assume": said, "static_assert": said,
    "static_print": said, "device_print": said, "device_assert": said, "debug_barrier": said,
    "fma": lambda x, y, z: computed(lambda a, b, c: a * b + c, x, y, z),
}  # fmt: skip
METHODS = frozenset({
    "cast", "sum", "max", "min", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "abs",
    "trans", "permute", "expand_dims", "broadcast_to", "reshape", "view", "softmax", "argmax",
    "argmin", "cumsum", "gather", "ravel",
})  # fmt: skip
"""The words that are methods of a block too; `.to` is cast."""
