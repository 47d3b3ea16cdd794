"""A Function in two halves: the first lists what it saves, the second gets that list alone."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from autograder.judge import Wrong, describe

FREE = 8
"""Tensors beside the arguments whose metadata nobody counts; each further one is METADATA bytes."""
METADATA = 16


def handed_on(saved: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor]:
    """What of `saved` reaches the second half: an argument as it was given, or its transpose; of
    all others the elements, one after the other. Strides, offsets and the sizes of what is empty
    could carry numbers, and nobody would count them."""
    return [_handed(t, arguments) for t in saved]


def _handed(t: Tensor, arguments: Sequence[Tensor]) -> Tensor:
    found = _as_argument(t, arguments)
    if found is None:
        elements = t.detach().new_empty(t.shape).copy_(t.detach())
        return (elements if t.numel() else elements.flatten()).requires_grad_(t.requires_grad)
    return found.detach().requires_grad_(t.requires_grad)


def _as_argument(t: Tensor, arguments: Sequence[Tensor]) -> Tensor | None:
    """The argument, or its transpose, that `t` is, in the shape of `t`; None for another tensor."""
    whole = (view for a in arguments for view in ((a, a.T) if a.dim() == 2 else (a,)))
    return next((view.reshape(t.shape) for view in whole if _is_same(t, view)), None)


def _is_same(t: Tensor, view: Tensor) -> bool:
    """The same elements in the same order; where a dimension has one element, its stride says
    nothing."""
    if t.untyped_storage().data_ptr() != view.untyped_storage().data_ptr():
        return False
    if (t.dtype, t.numel(), t.storage_offset()) != (
        view.dtype,
        view.numel(),
        view.storage_offset(),
    ):
        return False
    if t.shape != view.shape:
        return t.is_contiguous() and view.is_contiguous()
    strides = zip(t.shape, t.stride(), view.stride(), strict=True)
    return all(mine == theirs or size == 1 for size, mine, theirs in strides)


def _begins(t: Tensor) -> tuple[object, ...]:
    return t.untyped_storage().data_ptr(), t.storage_offset(), t.dtype


def new_bytes(saved: Sequence[Tensor], arguments: Sequence[Tensor]) -> int:
    """Bytes of the distinct storages of `saved`, of each part of an argument, and of the metadata
    of many tensors."""
    known = {t.untyped_storage().data_ptr() for t in arguments}
    others = [t for t in saved if _as_argument(t, arguments) is None]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in others}
    new = sum(nbytes for address, nbytes in storages.items() if address not in known)
    parts = sum(t.nbytes for t in others if t.untyped_storage().data_ptr() in known)
    many = max(0, len(saved) - len(arguments) - FREE)
    return new + parts + METADATA * many


def expect_few_bytes(
    saved: Sequence[Tensor], arguments: Sequence[Tensor], allowed: int, why: str
) -> None:
    """At most `allowed` bytes beside the arguments; raises Wrong with what was saved, and `why`."""
    nbytes = new_bytes(saved, arguments)
    if nbytes > allowed:
        listed = "; ".join(describe(t) for t in saved)
        raise Wrong(
            expected=f"at most {allowed:,} bytes beside the arguments",
            got=f"{nbytes:,} bytes",
            where=f"in what was saved: {listed}",
            why=f"{why} (A tensor counts with its whole storage, unless it is an argument.)",
        )
