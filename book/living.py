"""The trained weights as a script that the first page can load, from a disk as from a server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onelayer.model import weights
from onelayer.model.grammar import TOKENS

NAME = "living_weights.js"
PLACES = 2**23 - 1  # a weight is a whole number of 24 bits, times its tensor's scale


def write(site: Path) -> None:
    """Put the words and the weights of the grammar model beside the scripts of `site`."""
    text = f"window.LIVING = {json.dumps(script_data(), ensure_ascii=False)};\n"
    (site / "_static" / NAME).write_text(text, "utf-8")


def script_data() -> dict[str, Any]:
    """`words`: the 600; `tensors`: by name its `shape`, its `scale`, its numbers in base64."""
    tensors = {name: packed(value) for name, value in sorted(weights.load().items())}
    return {"words": TOKENS, "tensors": tensors}


def packed(tensor: Tensor) -> dict[str, Any]:
    """float32 of any shape as whole numbers of 3 bytes, lowest first, and what to multiply by.

    No number moves by more than half a scale, a 2**24th of the tensor's largest: a quarter of the
    bytes less than float32, which a page that is read on a phone notices.
    """
    scale = tensor.abs().max().item() / PLACES or 1.0
    whole = (tensor.double() / scale).round().to(torch.int32).contiguous()
    octets = (
        whole.view(torch.uint8).view(-1, 4)[:, :3].contiguous()
    )  # little-endian, as x86 and ARM
    data = base64.b64encode(octets.numpy().tobytes()).decode()
    return {"shape": list(tensor.shape), "scale": scale, "data": data}
