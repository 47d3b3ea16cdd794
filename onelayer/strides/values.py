"""The numbers that a tensor holds, where they can be read, and in few characters."""

from collections.abc import Mapping

import torch

from .layout import Layout, Scalar


def drawn_values(tensor: torch.Tensor, layout: Layout) -> Mapping[int, Scalar]:
    """The value of each element that is drawn, by the cell where it starts.

    Empty where there is nothing to read: on meta, in memory that was freed, and for a subclass that
    answers for itself, as to read of a DTensor is a collective.
    """
    own = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if own or layout.numel == 0 or tensor.device.type == "meta" or not _holds(tensor):
        return {}
    plain = tensor.detach()
    return {cell: plain[index].item() for index, cell in layout.drawn_elements}


def _holds(tensor: torch.Tensor) -> bool:
    """Whether the storage is as long as the tensor says: reading a freed one would crash."""
    steps = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + steps + 1) * tensor.element_size()
    return end <= tensor.untyped_storage().nbytes()
