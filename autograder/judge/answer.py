"""What happens on the student's side of a call: arguments in, the student's function, a reply out.

This runs beside the student's code, in the notebook or inside the jail. It decides nothing: it
hands over what the function returned, which arguments it wrote into, or what it raised.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch

from .device import HOST, Device
from .torch_settings import as_started
from .values import Packed, Unsendable, pack, storage_bytes, unpack
from .verdict import Cause
from .words import Said, Text, text

MAX_LINES = 6
MAX_MESSAGE = 2_000
OURS = "ours"
"""The cell of a clean room that holds a check's harness: its lines are no student's."""
_STUB = re.compile(r"(Lab \d+\.\d+): ")
"""How the message of a stub begins: with the title of its question."""


@dataclass(frozen=True)
class Raised:
    """The student's function did not return.

    kind: why not, in the terms of a verdict. error: the exception's class name. message: its own
    words. why: what we say, where the reason is not an exception of the student's. lines: (line
    number, source) of the student's own frames, outermost first. name: the one that a NameError
    missed.
    """

    kind: Cause
    error: str
    message: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    name: str = ""
    why: Text | None = None

    @property
    def stub(self) -> str:
        """The title of the question whose stub it is, or ""."""
        found = _STUB.match(self.message) if self.kind == Cause.BLANK else None
        return found[1] if found else ""

    @property
    def told(self) -> Said:
        """The error and its message, for a verdict."""
        if self.kind == Cause.MISSING and self.why:
            return self.why
        message = self.why or self.message
        return text("error", error=self.error, message=message) if message else self.error

    @property
    def where(self) -> Said:
        """The student's own lines, for a verdict."""
        lines = [text("line", number=number, source=source) for number, source in self.lines]
        return text("lines", lines=lines) if lines else ""

    def __str__(self) -> str:
        return str(self.told)


@dataclass(frozen=True)
class Reply:
    """What came back from one call: a packed value or a Raised, and the new bytes of each storage
    written into, by its number. An argument of which something else changed (a tensor's shape, what
    a list holds) is there by its place in the call, -1 - place, without bytes.
    """

    value: Packed | Raised
    written: Mapping[int, bytes] = field(default_factory=dict)


def answer(
    namespace: Mapping[str, Any], function: str, request: Packed, device: Device = HOST
) -> Reply:
    """Calls `namespace[function]` with the packed (args, kwargs) over copies of their storages, on
    `device`."""
    if not callable(namespace.get(function)):
        return Reply(Raised(Cause.MISSING, "NameError"))
    storages = list(map(device.arrive, request.storages))
    args, kwargs = unpack(request.tree, storages)
    given = [*args, *kwargs.values()]
    form = form_of if request.storages else repr  # without a tensor in it that says all, and soon
    forms = list(map(form, given))
    try:
        with as_started(), device.running():
            result = namespace[function](*args, **kwargs)
        value = pack(result, storages, device.name)
    except KeyboardInterrupt:
        raise
    except Unsendable as error:
        return Reply(Raised(Cause.UNSENDABLE, "TypeError", why=text("returned", what=error.what)))
    except BaseException as error:
        return Reply(raised_by(error))
    written = {-1 - k: b"" for k, value in enumerate(given) if has_changed(value, forms[k], form)}
    for k, before in enumerate(request.storages):
        if (after := storage_bytes(storages[k])) != before:
            written[k] = after
    return Reply(value, written)


def form_of(value: Any) -> Any:
    """All of an argument that a function could change and that is no element of a tensor: its
    memory, shape and requires_grad, what a list holds. Two forms are equal if nothing was."""
    if isinstance(value, torch.Tensor):
        place = value.untyped_storage().data_ptr(), value.storage_offset()
        shape = tuple(value.shape), value.stride()
        return "tensor", value.dtype, *place, *shape, value.requires_grad
    if isinstance(value, dict):
        return "dict", [(key, form_of(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), list(map(form_of, value))
    return type(value), repr(value)


def has_changed(value: Any, before: Any, form: Callable[[Any], Any] = form_of) -> bool:
    """Whether `value` has another form by now."""
    try:
        return bool(form(value) != before)
    except Exception:  # what the student put there may do anything when it is asked
        return True


def raised_by(error: BaseException) -> Raised:
    """`error` as the student should see it: their own lines, none of ours and none of a
    library's."""
    frames = [] if _says_where(error) else traceback.extract_tb(error.__traceback__)
    theirs = ((f.lineno or 0, f.line or "") for f in frames if _is_students(f.filename))
    lines = [line for line, _ in groupby(theirs)]  # a generator's frame stands in its caller's line
    message = _text_of(error)[:MAX_MESSAGE]
    # torch raises the same error, with other words or with none, where a key has no kernel.
    is_stubs = isinstance(error, NotImplementedError) and _STUB.match(message)
    missed = error.name if type(error) is NameError else ""
    kind = Cause.BLANK if is_stubs else Cause.RAISED
    return Raised(kind, type(error).__name__, message, tuple(lines[-MAX_LINES:]), missed or "")


def _says_where(error: BaseException) -> bool:
    """Whether the message holds the lines that matter, as that of ranks which did not come back
    does: who called them is no news."""
    return getattr(type(error), "says_where", False) is True


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the exception is the student's own class: its __str__ may do anything
        return "an exception whose text cannot be read"


def _is_students(filename: str) -> bool:
    """Notebook cells are compiled under names that are no path of an installed file."""
    if filename == f"<cell {OURS}>":
        return False
    return filename.startswith(("<cell", "<ipython")) or "ipykernel_" in filename
