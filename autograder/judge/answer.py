"""What happens on the student's side of a call: arguments in, the student's function, a reply out.

This runs beside the student's code, in the notebook or inside the jail. It decides nothing: it
hands over what the function returned, which arguments it wrote into, or what it raised.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .device import HOST, Device
from .values import Packed, Unsendable, pack, storage_bytes, unpack

MAX_LINES = 6
MAX_MESSAGE = 2_000


@dataclass(frozen=True)
class Raised:
    """The student's function did not return.

    kind: "missing" (no such name), "blank" (the stub's NotImplementedError), "raised", or
    "unsendable" (it returned something that is no answer); the sandbox adds "died", "timeout" and
    "device" (the process can use its GPU no more).
    error: the exception's class name. lines: (line number, source) of the student's own frames,
    outermost first.
    """

    kind: str
    error: str
    message: str
    lines: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error


@dataclass(frozen=True)
class Reply:
    """What came back from one call: a packed value or a Raised, and the new bytes of each argument
    written into.
    """

    value: Packed | Raised
    written: Mapping[int, bytes] = field(default_factory=dict)


def answer(
    namespace: Mapping[str, Any], function: str, request: Packed, device: Device = HOST
) -> Reply:
    """Calls `namespace[function]` with the packed (args, kwargs) over copies of their storages, on
    `device`."""
    if not callable(namespace.get(function)):
        return Reply(Raised("missing", "NameError", f"there is no function {function!r} yet"))
    storages = [device.arrive(data) for data in request.storages]
    args, kwargs = unpack(request.tree, storages)
    try:
        with device.default():
            result = namespace[function](*args, **kwargs)
        device.settle()
        value = pack(result, storages, device.name)
    except KeyboardInterrupt:
        raise
    except Unsendable as error:
        return Reply(Raised("unsendable", "TypeError", f"it returned {error}"))
    except BaseException as error:
        return Reply(raised_by(error))
    return Reply(value, _written(storages, request.storages))


def _written(after: list[torch.UntypedStorage], before: tuple[bytes, ...]) -> dict[int, bytes]:
    now = [storage_bytes(storage) for storage in after]
    return {k: data for k, data in enumerate(now) if data != before[k]}


def raised_by(error: BaseException) -> Raised:
    """`error` as the student should see it: their own lines, none of ours and none of a
    library's."""
    frames = [] if _says_where(error) else traceback.extract_tb(error.__traceback__)
    lines = [(f.lineno or 0, f.line or "") for f in frames if _is_students(f.filename)]
    message = _text_of(error)[:MAX_MESSAGE]
    kind = "blank" if isinstance(error, NotImplementedError) and _is_stubs(message) else "raised"
    return Raised(kind, type(error).__name__, message, tuple(lines[-MAX_LINES:]))


def _says_where(error: BaseException) -> bool:
    """Whether the message holds the lines that matter, as that of ranks which did not come back
    does: who called them is no news."""
    return getattr(type(error), "says_where", False) is True


def _is_stubs(message: str) -> bool:
    """Whether a NotImplementedError with this message comes from a stub. torch raises the same
    error, with other words, where a key has no kernel."""
    return not message or re.match(r"Lab \d+\.\d+: ", message) is not None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the exception is the student's own class: its __str__ may do anything
        return "an exception whose text cannot be read"


def _is_students(filename: str) -> bool:
    """Notebook cells are compiled under names that are no path of an installed file."""
    return filename.startswith(("<cell", "<ipython")) or "ipykernel_" in filename
