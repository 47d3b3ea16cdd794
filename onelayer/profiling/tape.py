"""A tape: what a training loop asks of a device, written down in the order in which it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[list[str], str, list[Any], dict[str, Any]]
"""(names of what it makes, the call, its arguments, its keywords). In arguments a string, or a list
of strings, names what earlier rows made or what was there before."""
FOREACH = "aten._foreach_"


@dataclass
class Tape:
    """Runs nothing: each call adds a row to `rows`, and gives the name of what it would make.

        tape = Tape()
        x = tape.copy("batch")
        loss = tape.op("aten.mean.default", tape.op("aten.mm.default", x, "w"))
        number = tape.read(loss)

    Rows are plain data: a function of them can count, time or run what the loop asks for.
    """

    rows: list[Row] = field(default_factory=list)

    def pin(self, batch: str) -> str:
        """The same batch in pinned memory: a loader pins it in a thread of its own."""
        return self._one("pin", [batch])

    def copy(self, batch: str, *, non_blocking: bool = False) -> str:
        """A batch of the host's memory, copied to the device."""
        return self._one("copy", [batch], non_blocking=non_blocking)

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """An operator of torch on the device, by its full name. `aten._foreach_...` takes lists,
        and gives a list as long as its first."""
        many = len(args[0]) if name.startswith(FOREACH) else None
        return self._made(name, list(args), kwargs, many)

    def gradients(self, loss: str, weights: Sequence[str]) -> list[str]:
        """Of the loss to each of the weights: a backward, as one call."""
        made: list[str] = self._made("gradients", [loss, list(weights)], {}, len(weights))
        return made

    def read(self, value: str) -> str:
        """A value of the device, as numbers on the host: `.item()`, or `.tolist()`."""
        return self._one("read", [value])

    def _one(self, call: str, args: list[Any], **kwargs: Any) -> str:
        made: str = self._made(call, args, kwargs, None)
        return made

    def _made(self, call: str, args: list[Any], kwargs: dict[str, Any], many: int | None) -> Any:
        row = len(self.rows)
        names = [f"v{row}"] if many is None else [f"v{row}.{k}" for k in range(many)]
        args = [list(arg) if isinstance(arg, (list, tuple)) else arg for arg in args]
        self.rows.append((names, call, args, kwargs))
        return names[0] if many is None else names
