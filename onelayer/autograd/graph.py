"""The graph that a forward leaves behind: its nodes, what each saved, and who comes after whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from onelayer.drawing.words import say

_LIMIT = 100  # nodes that a person would look at
_LEAF_SEQUENCE = 2**64 - 1  # what torch gives AccumulateGrad, so that it runs as soon as it can


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for backward.

    name: as in the node's attribute `_saved_<name>`. shape is None where it cannot be read any
    more, and `note` then says why. shares: the name of the tensor whose storage it lies in, or "".
    fresh: no earlier node and no named tensor holds this storage.
    """

    name: str
    shape: tuple[int, ...] | None
    nbytes: int
    shares: str
    fresh: bool
    note: str = ""

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.note}"
        owner = say(", in the storage of {name}", name=self.shares) if self.shares else ""
        return f"{self.name} {self.shape}, {say('{n:,} bytes', n=self.nbytes)}{owner}"


@dataclass(frozen=True)
class Node:
    """One node. `sequence` counts the nodes of this graph in the order of the forward, None for a
    leaf's; `leaf` names the leaf; `next` are places in the list of nodes, None for nobody."""

    name: str
    sequence: int | None
    leaf: str
    saved: tuple[Saved, ...]
    next: tuple[int | None, ...]


def graph_of(
    output: torch.Tensor, names: Mapping[str, torch.Tensor] | None = None
) -> tuple[Node, ...]:
    """The nodes behind `output`, its own first; `names` says what leaves and storages are called.

    Raises TypeError for what is not a tensor, ValueError without a graph or for over 100 nodes.
    """
    if not isinstance(output, torch.Tensor):
        raise TypeError(say("a graph hangs on a tensor, got {kind}", kind=type(output).__name__))
    if output.grad_fn is None:
        raise ValueError(
            say("this tensor has no grad_fn: no operation that is recorded has made it")
        )
    nodes = _walk(output.grad_fn)
    order = sorted({node._sequence_nr() for node in nodes} - {_LEAF_SEQUENCE})
    owners = {t.untyped_storage().data_ptr(): name for name, t in (names or {}).items()}
    place, held = {node: k for k, node in enumerate(nodes)}, set(owners)
    return tuple(
        Node(
            name=node.name().rpartition("::")[2],
            sequence=None if _is_leaf(node) else order.index(node._sequence_nr()),
            leaf=_leaf(node, names or {}),
            saved=tuple(_saved(node, owners, held)),
            next=tuple(None if after is None else place[after] for after, _ in node.next_functions),
        )
        for node in nodes
    )


def _walk(root: Any) -> list[Any]:
    """Every node once, the root first, then level by level."""
    nodes = [root]
    seen = {root}
    for node in nodes:
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                nodes.append(after)
                seen.add(after)
        if len(nodes) > _LIMIT:
            raise ValueError(say("more than {most} nodes are too many to look at", most=_LIMIT))
    return nodes


def _is_leaf(node: Any) -> bool:
    return hasattr(node, "variable")


def _leaf(node: Any, names: Mapping[str, torch.Tensor]) -> str:
    if not _is_leaf(node):
        return ""
    known = [name for name, t in names.items() if t is node.variable]
    return known[0] if known else str(tuple(node.variable.shape))


def _saved(node: Any, owners: Mapping[int, str], held: set[int]) -> list[Saved]:
    """What the node keeps; storages that nobody held before go into `held`."""
    found = []
    for name in _saving_attributes(node):
        short = name.removeprefix("_saved_")
        try:
            value = getattr(node, name)
        except RuntimeError as error:
            found.append(Saved(short, None, 0, "", False, _reason(error)))
            continue
        for t in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(t, torch.Tensor):
                found.append(_one(short, t, owners, held))
    return found


def _saving_attributes(node: Any) -> list[str]:
    """`_saved_self` and its like; a Python Function keeps all in `saved_tensors`."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return ["saved_tensors"]
    return sorted(name for name in dir(node) if name.startswith("_saved_"))


def _one(name: str, t: torch.Tensor, owners: Mapping[int, str], held: set[int]) -> Saved:
    address = t.untyped_storage().data_ptr()
    fresh = address not in held
    held.add(address)
    nbytes = min(t.numel() * t.element_size(), t.untyped_storage().nbytes())  # expanded: stride 0
    return Saved(name, tuple(t.shape), nbytes, owners.get(address, ""), fresh)


def _reason(error: RuntimeError) -> str:
    text = str(error)
    if "modified by an inplace operation" in text:
        return say("changed in place since it was saved")
    return say("freed by an earlier backward") if "freed" in text else text.partition("\n")[0]
