"""The first page's model: its trained weights as a script that the page can load, from a disk as
from a server, and its texts in the page's language."""

from __future__ import annotations

import base64
import json
import tomllib
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autograder.authoring.language import ENGLISH, Language
from book.unit import ROOT
from onelayer.model import weights
from onelayer.model.grammar import TOKENS
from onelayer.model.grammar.corpus import to_english

NAME = "living_weights.js"
FRONT = ROOT / "book" / "front"
"""What the first page has in it, with a field for each of the words in `en.toml`."""
PLACES = 2**23 - 1  # a weight is a whole number of 24 bits, times its tensor's scale


def write(site: Path) -> None:
    """Put the words and the weights of the grammar model beside the scripts of `site`."""
    text = f"window.LIVING = {json.dumps(script_data(), ensure_ascii=False)};\n"
    (site / "_static" / NAME).write_text(text, "utf-8")


def script_data() -> dict[str, Any]:
    """`words`: the 600; `tensors`: by name its `shape`, its `scale`, its numbers in base64;
    `ambiguous`: each Spanish clause that means two things, and what it means."""
    tensors = {name: packed(value) for name, value in sorted(weights.load().items())}
    return {"words": TOKENS, "tensors": tensors, "ambiguous": ambiguous()}


def ambiguous() -> dict[str, list[str]]:
    """The Spanish clauses about which the grammar asks nothing: `complete` refuses them too."""
    return {
        " ".join(clause): sorted(map(" ".join, means))
        for clause, means in to_english().items()
        if len(means) > 1
    }


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


def sentences(language: Language) -> dict[str, Any]:
    """What the model and its picture say, from `book/front/en.toml` or its like. Raises ValueError
    where a language does not say exactly what English does."""
    english = tomllib.loads((FRONT / "en.toml").read_text("utf-8"))
    if language == ENGLISH:
        return english
    path = ROOT / language.code / "front.toml"
    said = tomllib.loads(path.read_text("utf-8"))
    odd = said.keys() ^ english.keys() | said["sentences"].keys() ^ english["sentences"].keys()
    if odd:
        raise ValueError(f"{path} lacks or has too much: {sorted(odd)}")
    return said


def parts(language: Language) -> dict[str, str]:
    """The files of FRONT that are a part of the page, by name, in `language`."""
    fields = sentences(language)
    script = json.dumps(fields.pop("sentences"), ensure_ascii=False).replace("<", "\\u003c")
    down = fields.pop("down")  # HTML, with a piece of code in it
    fields = {name: escape(said) for name, said in fields.items()}
    return {
        path.name: path.read_text("utf-8").format(**fields, down=down, sentences=script)
        for kind in ("*.html", "*.svg")
        for path in sorted(FRONT.glob(kind))
    }
