"""A number is a number, whether torch or Python holds it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def as_number(got: Any) -> Any:
    """A tensor of one real number as that number; anything else as it came."""
    if isinstance(got, Tensor) and got.numel() == 1 and not got.is_complex():
        return got.item()
    return got


def as_scalar(got: Any) -> Any:
    """A Python float as a tensor () of float32, which is how a loss is compared; anything else as
    it came."""
    return torch.tensor(got) if isinstance(got, float) else got
