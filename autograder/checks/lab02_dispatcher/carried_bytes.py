"""A tensor that carries what was allocated on the way to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import onelayer
from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, expect_close, expect_equal, expect_tuple

from . import lab

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
Carried = tuple[torch.Tensor, int]
OTHER_VALUE = (
    "The steps on a plain x give another tensor. func gets each argument and each keyword that "
    "came, 0 and False too."
)


@lab.question(
    "carried_bytes",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "`args` and `kwargs` are plain now, and `before` is what they carried. Run, charge, wrap: "
        "what does the charge need to know of `old`?",
        "Remember where the storages of `old` begin, run func(*args, **kwargs), and look where the "
        "storage of the result begins: in one of those it is a view and costs 0.",
        "known = {t.untyped_storage().data_ptr() for t in old}",
    ),
)
def carried_bytes(student: Student, draw: Draw) -> None:
    """A tensor that carries the bytes that were allocated on the way to it.

    x, steps of (method, arguments, keyword arguments), each on the last result -> (the last result
    as a plain tensor, the bytes it carries).
    """
    for _ in draw.cases(2):
        n = draw.integer(2, 6)
        for steps in _ways(draw, n):
            x = draw.tensor(n, 64)
            value, nbytes = _allocated(x, steps)
            with explaining(_RAISED):
                got = student.call("carried_bytes", x, steps)
            mine, counted = expect_tuple(got, 2, "a tensor and its bytes")
            with saying(OTHER_VALUE):
                expect_close(mine, value)
            expect_equal(counted, nbytes, why=_off_by(counted, nbytes))


def _off_by(counted: Any, nbytes: int) -> str:
    """What any wrong count has to do with the right one."""
    if type(counted) is not int or counted == nbytes:
        return ""
    if counted > nbytes:
        return (
            f"These are {counted - nbytes} bytes more than the operators of the way allocated. A "
            "view costs nothing, and a new storage its size, once."
        )
    return (
        f"These are {nbytes - counted} bytes less than the operators of the way allocated. Each "
        "new storage costs its size in bytes, and any result keeps what its arguments carried."
    )


_CARRIED = ("plain", "bytes")  # what a Metered has, and a plain tensor has not
_RAISED = {
    "RecursionError": "An operator was called on a Metered inside `__torch_dispatch__`, and came "
    "back to it. Call `func` on `args` and `kwargs` as they are after the unwrapping.",
    **dict.fromkeys(
        (f"AttributeError: 'Tensor' object has no attribute '{name}'" for name in _CARRIED),
        "A result came out that is no Metered, so it has no `plain` and no `bytes`: wrap what "
        "`func` returns, cls(result, ...).",
    ),
}


def _ways(draw: Draw, n: int) -> list[list[Step]]:
    w, b = draw.tensor(64, 20), draw.tensor(20)
    return [
        [("relu", (), {}), ("t", (), {}), ("add", (1.0,), {})],
        [("relu", (), {}), ("add", (1.0,), {}), ("mul", (2.0,), {})],
        [("relu", (), {}), ("diagonal", (), {}), ("unfold", (0, 2, 1), {}), ("relu", (), {})],
        [("add", (draw.tensor(64),), {"alpha": 3}), ("sum", (), {"dtype": torch.float64})],
        [("add", (draw.tensor(64),), {"alpha": 0}), ("sum", (1,), {"keepdim": False})],  # given
        [("matmul", (w,), {}), ("add", (b,), {}), ("softmax", (-1,), {}), ("t", (), {})],
        [("t", (), {}), ("reshape", (-1,), {}), ("view", (64, n), {})],
        [("narrow", (1, 8, 16), {}), ("add", (1.0,), {}), ("select", (0, 1), {})],
        [("unsqueeze", (0,), {}), ("matmul", (w,), {}), ("relu_", (), {}), ("flatten", (), {})],
        [
            ("select", (1, 3), {}),
            ("narrow", (0, 1, 1), {}),
            ("add", (1.0,), {}),
        ],  # further on
        [("new_empty_strided", ((n, 2), (4, 1)), {}), ("zero_", (), {})],  # with gaps
        [("half", (), {}), ("gt", (0.0,), {}), ("t", (), {})],  # numbers of 2 bytes, and of 1
        [("double", (), {}), ("argmax", (1,), {}), ("add", (1,), {})],
        [("mul", (2.0,), {}), ("view", (torch.int32,), {}), ("bitwise_not", (), {})],
        [("unsqueeze", (0,), {}), ("expand", (3, n, 64), {}), ("neg", (), {})],
        [("add", (), {"other": draw.tensor(n, 64)}), ("clone", (), {}), ("detach", (), {})],
        [("t", (), {}), ("clone", (), {}), ("contiguous", (), {}), ("contiguous", (), {})],
        [("relu", (), {}), ("view", (-1,), {}), ("add_", (1.0,), {"alpha": 2})],
        # Without elements, at the end of a storage and at its beginning: their own address is 0.
        [("add", (1.0,), {}), ("narrow", (0, n, 0), {})],
        [("narrow", (1, 0, 0), {}), ("sum", (1,), {})],
        # Long enough, and large enough, for an address to come again.
        [("repeat", (200, 1), {}), *[(name, (), {}) for name in ("relu", "sin", "cos") * 3]],
    ]


def _apply(x: torch.Tensor, steps: list[Step]) -> torch.Tensor:
    for name, arguments, keywords in steps:
        x = getattr(x, name)(*arguments, **keywords)
    return x


def _allocated(x: torch.Tensor, steps: list[Step]) -> Carried:
    """By another mechanism: a mode that counts the new storages of the whole way."""
    with onelayer.count_bytes() as moved:
        value = _apply(x, steps)
    return value, moved.bytes


class _Ledger(TorchDispatchMode):
    """Charges by a rule of (storages of the arguments, result, bytes of the arguments)."""

    def __init__(
        self, charge: Callable[[bool, torch.Tensor, int], int], place: Callable[[torch.Tensor], int]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.charge, self.place, self.charges = charge, place, [0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in args if isinstance(t, torch.Tensor)]
        known = {self.place(t) for t in tensors}
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:  # it returns self, with the bytes that self carries
            return result
        is_view = self.place(result) in known
        read = sum(t.nbytes for t in tensors)
        self.charges.append(self.charge(is_view, result, read))
        return result


def _storage_begins(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _ledger(
    x: torch.Tensor,
    steps: list[Step],
    charge: Callable[[bool, torch.Tensor, int], int],
    place: Callable[[torch.Tensor], int] = _storage_begins,
) -> tuple[torch.Tensor, list[int]]:
    with _Ledger(charge, place) as ledger:
        value = _apply(x, steps)
    return value, ledger.charges


@carried_bytes.wrong(
    "views_charged",
    "A view was charged. It has a new header and the old storage: compare the storages' pointers.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(x, steps, lambda is_view, result, read: result.nbytes)
    return value, sum(charges)


@carried_bytes.wrong(
    "offsets_charged",
    "A view that begins further on was charged: t.data_ptr() is where its elements begin. Compare "
    "where the storages begin, t.untyped_storage().data_ptr().",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.untyped_storage().nbytes()

    value, charges = _ledger(x, steps, charge, place=lambda t: t.data_ptr())
    return value, sum(charges)


@carried_bytes.wrong(
    "empty_views_charged",
    "A view without elements was charged. Its t.data_ptr() is 0, an address in nobody's storage, "
    "but its storage is its argument's: compare t.untyped_storage().data_ptr().",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view and result.numel() else result.untyped_storage().nbytes()

    value, charges = _ledger(x, steps, charge)
    return value, sum(charges)


carried_bytes.wrong(
    "nothing_charged",
    "Nothing was charged. A result whose storage is new costs that storage's bytes.",
    carried_bytes=lambda x, steps: (_apply(x, steps), 0),
)


@carried_bytes.wrong(
    "history_lost",
    "Only the last operator's bytes are left. A result inherits what its arguments carried.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.untyped_storage().nbytes()

    value, charges = _ledger(x, steps, charge)
    return value, charges[-1]


@carried_bytes.wrong(
    "history_lost_where_new",
    "Only the bytes of the last new storage are left. A new storage costs its size on top of what "
    "the arguments carried.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.untyped_storage().nbytes()

    value, charges = _ledger(x, steps, charge)
    return value, next((nbytes for nbytes in reversed(charges) if nbytes), 0)


@carried_bytes.wrong("in_elements", "These are elements. storage.nbytes() gives bytes.")
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.numel()

    value, charges = _ledger(x, steps, charge)
    return value, sum(charges)


@carried_bytes.wrong(
    "reads_charged",
    "What an operator reads was charged too. Here only new storages count.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return read + (0 if is_view else result.untyped_storage().nbytes())

    value, charges = _ledger(x, steps, charge)
    return value, sum(charges)


class _BySchema(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Charges where the schema says nothing of shared memory."""

    nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if all(each.alias_info is None for each in func._schema.returns):
            self.nbytes += result.untyped_storage().nbytes()
        return result


@carried_bytes.wrong(
    "schema_asked",
    "`reshape` of a transposed tensor ends with `_unsafe_view`, and that was charged. Its result "
    "has its argument's storage, though its schema has no alias set: compare storages.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    with _BySchema() as ledger:  # type: ignore[no-untyped-call]
        value = _apply(x, steps)
    return value, ledger.nbytes


class _Deaf(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes no keywords on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args)


@carried_bytes.wrong(
    "keywords_dropped",
    "The keyword arguments got lost between __torch_dispatch__ and func: alpha and dtype arrive as "
    "keywords.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    with onelayer.count_bytes() as moved, _Deaf():  # type: ignore[no-untyped-call]
        value = _apply(x, steps)
    return value, moved.bytes


@carried_bytes.wrong(
    "elements_alone",
    "These are the bytes of the elements. A storage may be larger than its tensor: "
    "t.untyped_storage().nbytes().",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(
        x, steps, lambda is_view, result, read: 0 if is_view else result.nbytes
    )
    return value, sum(charges)


@carried_bytes.wrong(
    "views_charged_whole",
    "A view was charged with its whole storage, which was there before: compare the storages' "
    "pointers.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(
        x, steps, lambda is_view, result, read: result.untyped_storage().nbytes()
    )
    return value, sum(charges)


@carried_bytes.wrong(
    "equal_sizes",
    "A new storage that is as large as an old one was not charged. Compare where they begin, "
    "t.untyped_storage().data_ptr(), and not their sizes.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.untyped_storage().nbytes()

    value, charges = _ledger(x, steps, charge, place=lambda t: t.untyped_storage().nbytes())
    return value, sum(charges)


@carried_bytes.wrong(
    "four_bytes_each",
    "Four bytes for each element is right for float32. A float64 takes 8: ask the storage.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(
        x, steps, lambda is_view, result, read: 0 if is_view else 4 * result.numel()
    )
    return value, sum(charges)


@carried_bytes.wrong(
    "start_charged",
    "x itself was charged. It was there before the first step: only what is made on the way costs.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, nbytes = _allocated(x, steps)
    return value, nbytes + x.untyped_storage().nbytes()


@carried_bytes.wrong(
    "calls_counted",
    "This counts calls. Bytes were asked for: each new storage costs its size.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(x, steps, lambda is_view, result, read: 1)
    return value, sum(charges)


@carried_bytes.wrong(
    "largest_only",
    "Only the largest storage is left. The bytes of the way add up.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(
        x, steps, lambda is_view, result, read: 0 if is_view else result.untyped_storage().nbytes()
    )
    return value, max(charges)


@carried_bytes.wrong(
    "turned_round",
    "The pair is the wrong way round: the tensor comes first, then its bytes.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Any:
    return _allocated(x, steps)[::-1]


carried_bytes.wrong(
    "bytes_alone",
    "These are the bytes alone. The last result was asked for too, as a plain tensor.",
    carried_bytes=lambda x, steps: _allocated(x, steps)[1],
)


@carried_bytes.wrong(
    "not_wrapped",
    "A result came out that is no Metered, so it has no `plain` and no `bytes`: wrap what `func` "
    "returns, cls(result, ...).",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    return getattr(_apply(x, steps), "plain"), 0  # noqa: B009


@carried_bytes.wrong(
    "nothing_returned",
    "`__torch_dispatch__` returned None, and the next step was asked of that. Return what is "
    "wrapped.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Any:
    names = [name for name, _, _ in steps[1:]]
    return getattr(None, [*names, "plain"][0])


@carried_bytes.wrong(
    "func_on_wrappers",
    "An operator was called on a Metered inside `__torch_dispatch__`, and came back to it. Call "
    "`func` on `args` and `kwargs` as they are after the unwrapping.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    raise RecursionError("maximum recursion depth exceeded")


@carried_bytes.cost
def _(student: Student, draw: Draw) -> str:
    steps: list[Step] = [("matmul", (draw.tensor(64, 600),), {}), ("softmax", (-1,), {})]
    _, nbytes = student.call("carried_bytes", draw.tensor(32, 64), steps)
    return f"32 tokens through the head and a softmax: {nbytes:,} bytes, known to the result itself"
