"""The handle that a check holds: `student.call("name", x, w)` looks like a local call, wherever the
function runs.

The contract, the same in a notebook and in grading:
- the function gets copies of the arguments with the same strides, offsets, aliases and
  `requires_grad`;
- what it returns comes back frozen: plain data, or tensors over memory of ours. A result that
  shares memory with an argument comes back as a view of *the check's own* argument, so a check asks
  about views with ordinary torch;
- writing into an argument is a wrong answer, unless the question allows it; then the check's
  argument changes too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch

from .answer import Raised, Reply, answer
from .values import MAX_BYTES, Malformed, Packed, pack, storage_of, unpack
from .verdict import BAR, Cause
from .words import text

NOT_WRITTEN, SHARED = "not_written", "shared"
"""What only the student's process could tell: that no argument was written into, and that the
answer shares memory with an argument."""
MOST_LINES = 32
"""Of a program that a verdict quotes, or of a list."""
MAX_ROW_BYTES = 2**20
"""Of tensors: a row of calls whose arguments are larger so far is handed over."""


@dataclass(frozen=True)
class Call:
    """One call as it went: its arguments, and the value, Raised or WroteInput that came back."""

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: Any

    @property
    def arguments(self) -> tuple[str, ...]:
        """In words. A tensor is its shape and layout, which no student's code can change; what is
        too long for a line comes after a line break, in lines of its own."""
        named = (f"{name}={describe(value)}" for name, value in self.kwargs.items())
        return (*(_in_lines(value) or describe(value) for value in self.args), *named)


class NoAnswer(Exception):
    """The student's function did not return; `.raised` says why. The judge makes it a verdict, with
    the sentence `why` where a check knows one."""

    def __init__(self, raised: Raised, why: str = "") -> None:
        super().__init__(str(raised))
        self.raised = raised
        self.why = why


class GraderFault(Exception):
    """The grader or its machine failed, not the student: the verdict is `ungradable`."""


class WroteInput(Exception):
    """The function changed an argument that it may only read: its numbers, its shape, what a list
    holds. `.argument` is its place in the call (from 0), or its keyword."""

    def __init__(self, argument: int | str) -> None:
        super().__init__(f"argument {argument}")
        self.argument = argument


@dataclass(eq=False, repr=False)
class Student(ABC):
    """One person's functions. Subclasses say where the code runs; `where` names the place in every
    verdict. device: what its answers run on, "cpu" or a GPU's name; kernels_on: what those that are
    files for nvcc run on. witnessed: what the answers of
    this question rest on that only the process of the student could say. is_grading: whether
    what is not admitted to a clean room goes to a person. together: how many calls
    cross to it at once.
    """

    where = "nowhere"
    is_grading = True
    device = "cpu"
    kernels_on = "simulated"
    together = 1

    calls: list[Call] = field(default_factory=list, init=False)
    may_write: bool = field(default=False, init=False)
    used_a_room: bool = field(default=False, init=False)
    witnessed: set[str] = field(default_factory=set, init=False)
    _kept_bytes: int = field(default=0, init=False)

    def begin(
        self,
        *,
        may_write: bool,
        budget_s: float | None = None,
        on_host: bool = False,
        device_share: float = 0.0,
    ) -> None:
        """A new question begins: the record of calls is empty, and every budget is full again.

        budget_s: seconds for its calls, where it declares its own. on_host: its tensors stay on the
        CPU. device_share: of a GPU's memory, where it declares one. A notebook has no clock, and
        moves nothing.
        """
        self.calls.clear()
        self.witnessed.clear()
        self._kept_bytes = 0
        self.may_write = may_write
        self.used_a_room = False

    @abstractmethod
    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        """Runs packed calls, one after the other, where the student's code lives: a reply for each,
        or fewer, where the last one says why there are no more."""

    def beside(self, source: str) -> AbstractContextManager[Student]:
        """A handle on the functions of a cell of ours, which run as this student's do: in a
        process like theirs, on their device, never in theirs. Raises GraderFault without one."""
        raise GraderFault("nothing of ours can run beside this student")

    def clean_room(self, harness: str) -> AbstractContextManager[Student]:
        """A handle on the functions of `harness`, Python of ours, in a process where no student's
        Python has run: see `clean_room.py`. Its calls are noted down with this student's."""
        raise GraderFault("this student has no clean room")

    def afresh(self) -> AbstractContextManager[Student]:
        """A handle on the same functions, in a process that has answered nothing yet: what a call
        there knows of an earlier one came through its arguments. Its calls are noted down with
        this student's. In a notebook it is the notebook's own process."""
        return nullcontext(self)

    def cell_of(self, name: str) -> str:
        """The text of the cell that defines `name`. Raises NoAnswer without one."""
        raise GraderFault("this student's cells are not known")

    def hand_over(self, room: Student, name: str) -> None:
        """Puts the function `name` into the `ANSWERS` of a room that is in this very process."""
        raise GraderFault("this student's functions are in another process")

    def missing(self, name: str) -> NoAnswer:
        """There is no function of that name; noted down as the call that it would have been."""
        raised = Raised(Cause.MISSING, "NameError", why=text("missing", function=name))
        self.calls.append(Call(name, (), {}, raised))
        return NoAnswer(raised)

    def _entered(self, room: Student) -> Student:
        self.used_a_room = True
        room.calls = self.calls
        return room

    def value_of(self, function: str, /, *args: Any) -> Any:
        """What `function` returns, as data: noted down only where it is no answer. Raises
        NoAnswer."""
        request = pack((args, {}))
        (reply,) = self._send(function, [request])
        outcome = self._outcome(function, request, reply)
        if isinstance(outcome, Raised):
            self.calls.append(Call(function, args, {}, outcome))
            raise NoAnswer(outcome)
        return outcome

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """What the student's `function` returns for these arguments, frozen.

        Raises NoAnswer when it did not return, WroteInput when it changed an argument it may not
        change.
        """
        request = pack((args, kwargs))
        (reply,) = self._send(function, [request])
        return self._taken(function, request, reply, args, kwargs)

    def each(self, function: str, cases: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """What `function` returns for each of these positional arguments, as `call` after `call`
        would: the same calls in the same order, recorded one by one as they are taken.

        A hand-over costs more than a short function does, so in grading up to `together` of them
        are handed over at once; where arguments may be written into, one by one. Their answers
        together may be as long as one answer (docs/wire.md). The student's code could read the
        later arguments of a row while it answers the first: none may tell what another's answer
        is.

        Raises as `call` does, at the call that it happened in.
        """
        for requests, row in _rows(cases, 1 if self.may_write else self.together):
            replies = deque(self._send(function, requests))
            for request, case in zip(requests, row, strict=True):
                yield self._taken(function, request, replies.popleft(), case, {})

    def _taken(
        self, function: str, request: Packed, reply: Reply, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Notes one call down, and returns or raises what came of it."""
        outcome = self._outcome(function, request, reply)
        if isinstance(outcome, WroteInput):
            outcome = WroteInput(_first_written(reply.written, request.owned, args, kwargs))
        self.calls.append(Call(function, args, kwargs, outcome))
        if isinstance(outcome, Raised):
            raise NoAnswer(outcome)
        if isinstance(outcome, WroteInput):
            raise outcome
        return outcome

    def _outcome(self, function: str, request: Packed, reply: Reply) -> Any:
        value, owned = reply.value, request.owned
        if isinstance(value, Raised):
            missing = value.kind == Cause.MISSING
            return replace(value, why=text("missing", function=function)) if missing else value
        self._kept_bytes += sum(map(len, value.storages))
        if self._kept_bytes > MAX_BYTES:  # the record of calls keeps them all
            return Raised(Cause.UNSENDABLE, "MemoryError", why=text("answers_too_large"))
        if reply.written and not self.may_write:
            return WroteInput(0)
        for number, data in reply.written.items():
            if number < 0 and not data:
                continue
            if not 0 <= number < len(owned) or len(data) != owned[number].nbytes():
                return _forged("")
            owned[number].copy_(storage_of(data))
        try:
            thawed = unpack(value.tree, list(map(storage_of, value.storages)), owned)
        except Malformed as error:
            return _forged(str(error))
        if owned:
            self._remember_what_was_only_told(thawed, owned)
        return thawed

    def _remember_what_was_only_told(
        self, outcome: Any, owned: Sequence[torch.UntypedStorage]
    ) -> None:
        """Values we compare ourselves; of memory we know what the student's process says."""
        places = {storage.data_ptr() for storage in owned if storage.nbytes()}
        if places and not self.may_write:
            self.witnessed.add(NOT_WRITTEN)
        if any(t.untyped_storage().data_ptr() in places for t in _tensors(outcome)):
            self.witnessed.add(SHARED)


def _rows(
    cases: Sequence[tuple[Any, ...]], most: int
) -> Iterator[tuple[list[Packed], list[tuple[Any, ...]]]]:
    """The packed arguments of the cases, and the cases, in rows that end at `most` or at
    MAX_ROW_BYTES. None is packed before the row in front of it was taken."""
    requests: list[Packed] = []
    size = first = 0
    for k, case in enumerate(cases, start=1):
        requests.append(pack((case, {})))
        size += sum(map(len, requests[-1].storages))
        if len(requests) == most or size >= MAX_ROW_BYTES or k == len(cases):
            yield requests, list(cases[first:k])
            requests, size, first = [], 0, k


def _forged(detail: str) -> Raised:
    return Raised(Cause.UNSENDABLE, "Malformed", why=text("forged", detail=detail))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return []


def _first_written(
    written: Mapping[int, bytes], owned: Sequence[torch.UntypedStorage], args: Any, kwargs: Any
) -> int | str:
    """The first argument that was changed, or lies over a written storage: its place in the call,
    or its keyword."""
    addresses = {owned[k].data_ptr() for k in written if 0 <= k < len(owned)}
    for place, (name, value) in enumerate([*enumerate(args), *kwargs.items()]):
        lie_at = {t.untyped_storage().data_ptr() for t in _tensors(value)}
        if -1 - place in written or lie_at & addresses:
            return name  # type: ignore[no-any-return]
    return 0


def _in_lines(value: Any) -> str:
    """A text of several lines as they are, or what a list holds that is too long for one, each
    behind a line break and a bar; "" for all else, and for more than MOST_LINES."""
    lines: list[str] = []
    if type(value) is str and len(value) <= MOST_LINES * 100:
        lines = value.splitlines()
    elif isinstance(value, (dict, list, tuple)):
        whole = _plain(value, ROOM)
        lines = _entries(value, ROOM) if len(whole) > ROOM else []
    return "".join(f"\n{BAR}{line}" for line in lines) if 1 < len(lines) <= MOST_LINES else ""


def _entries(value: dict[Any, Any] | Sequence[Any], room: int) -> list[str]:
    if isinstance(value, dict):
        pairs = islice(value.items(), room)
        return [f"{describe(k, room)}: {describe(v, room)}" for k, v in pairs]
    return [describe(part, room) for part in islice(value, room)]


ROOM = 160
"""Characters for a value in a verdict."""


def describe(value: Any, room: int = ROOM) -> str:
    """A value in at most `room` characters: a tensor by its shape and layout (and its dtype, if it
    is not float32), plain data as itself. Never reads a tensor's elements: a few bytes can stand
    for billions of them."""
    text = _tensor_in_words(value) if isinstance(value, torch.Tensor) else _plain(value, room)
    return text if len(text) <= room else text[: room - 3] + "..."


def _tensor_in_words(t: torch.Tensor) -> str:
    plain = t.dtype is torch.float32 and t.dim()  # "()" alone is an empty tuple
    dtype = "" if plain else f" {str(t.dtype).removeprefix('torch.')}"
    layout = "" if t.is_contiguous() else f" strides {tuple(t.stride())}"
    offset = f" offset {t.storage_offset()}" if t.storage_offset() else ""
    return f"{tuple(t.shape)}{dtype}{layout}{offset}"


def _plain(value: Any, room: int) -> str:
    if isinstance(value, (dict, list, tuple)):
        parts = ", ".join(_entries(value, room))
        if isinstance(value, dict):
            return f"{{{parts}}}"
        if isinstance(value, list):
            return f"[{parts}]"
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return repr(value[:room] if isinstance(value, str) else value)


@dataclass(eq=False, repr=False)
class LocalStudent(Student):
    """The functions of a namespace in this very process: a notebook's, a solution's, a known wrong
    answer's.
    """

    where = "notebook"
    is_grading = False
    namespace: Mapping[str, Any]

    def beside(self, source: str) -> AbstractContextManager[Student]:
        namespace: dict[str, Any] = {}
        exec(source, namespace)
        return nullcontext(LocalStudent(namespace))

    def clean_room(self, harness: str) -> AbstractContextManager[Student]:
        """In a notebook nobody is to be kept out: a namespace of its own is clean enough."""
        namespace: dict[str, Any] = {"__name__": "clean_room"}
        exec(compile(harness, "<clean room>", "exec"), namespace)
        return nullcontext(self._entered(LocalStudent(namespace)))

    def hand_over(self, room: Student, name: str) -> None:
        if not callable(self.namespace.get(name)):
            raise self.missing(name)
        if isinstance(room, LocalStudent):
            room.namespace["ANSWERS"][name] = self.namespace[name]

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        return [answer(self.namespace, function, request) for request in requests]


class KnownAnswer(LocalStudent):
    """An answer of ours that stands for a student's: a known wrong one. Where a student hands in a
    text, it is the model of what that text does: the harness's functions are its own."""

    def clean_room(self, harness: str) -> AbstractContextManager[Student]:
        return nullcontext(self._entered(self))

    def value_of(self, function: str, /, *args: Any) -> Any:
        """Its text, or an empty one: its model takes none."""
        return super().value_of(function, *args) if function in self.namespace else ""

    def hand_over(self, room: Student, name: str) -> None:
        """Nothing: it is its own room."""
