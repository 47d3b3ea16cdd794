"""A call of the head through a table of kernels, without any recursion: the truth of `run_head`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .keys import Names

PRIORITY = ("Trace", "Ban", "Autocast", "Autograd", "Sparse", "CPU")
Table = dict[str, str]
Ran = tuple[Names, torch.Tensor | None]


def chain(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    keys: Names,
    table: Table,
    fallbacks: Table,
    *,
    bend: Callable[[list[tuple[str, str | None]]], list[tuple[str, str | None]]] | None = None,
    rounds: bool = True,
) -> Ran:
    """Without any recursion: the whole way first, then the numbers from its end backwards.

    `bend` may change the list of (key, kernel name or None) before it is followed; without `rounds`
    the kernel at the end gets the arguments of the beginning.
    """
    found = [(key, table.get(key, fallbacks.get(key))) for key in PRIORITY if key in keys]
    way = bend(found) if bend else found
    log: Names = []
    for key, name in way:
        if name is None:
            return [*log, "missing"], None
        if name != "fallthrough":
            log.append(f"{key}: {name}")
        if name == "linear":
            names = [name for _, name in way if rounds or name != "bfloat16"]
            return log, _backwards(names, x, w, b)
    return [*log, "missing"], None


def _backwards(
    names: list[str | None], x: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    names = names[: names.index("linear")]
    if "bfloat16" in names:
        x, w, b = x.bfloat16(), w.bfloat16(), b.bfloat16()
    logits = x @ w.T + b
    for _ in range(names.count("ban")):
        logits[torch.arange(len(logits)), logits.argmax(dim=1)] = -1000.0
    return logits.float()
