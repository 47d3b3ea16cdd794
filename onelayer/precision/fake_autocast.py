"""What a region of autocast does on a device that this machine may not have.

Fake tensors carry the keys of the device that they name, and no numbers: the dispatcher calls the
autocast kernels of that device, and what they cast can be read from the result.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode


def dtype_under_autocast(
    act: Callable[..., Tensor],
    *shapes: tuple[int, ...],
    device: str,
    region: torch.dtype = torch.float16,
    inputs: torch.dtype = torch.float32,
) -> torch.dtype:
    """The dtype of `act(*tensors)` inside `torch.autocast(device, region)`; nothing is computed.

        dtype_under_autocast(torch.mm, (2, 3), (3, 4), device="cuda")   # torch.float16

    A tensor of dtype `inputs` for each of `shapes`. The device's driver is not asked for.
    """
    with FakeTensorMode():
        tensors = [torch.empty(shape, device=device, dtype=inputs) for shape in shapes]
        with _region(device, region):
            return act(*tensors).dtype


@contextmanager
def _region(device: str, dtype: torch.dtype) -> Iterator[None]:
    """`torch.autocast(device, dtype)`, which refuses a device that is not there."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
