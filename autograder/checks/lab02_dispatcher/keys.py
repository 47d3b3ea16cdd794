"""Dispatch keys by their names, and torch's own functions about them."""

from __future__ import annotations

from typing import Any

import torch

Names = list[str]
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
C: Any = torch._C  # its _dispatch names are private to PyTorch
