"""What Inductor writes for the head's loss of chapter 08: Triton on a GPU, C++ on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from onelayer.compiler.inductor_reader import read_inductor_file
from onelayer.compiler.story import CompileStory, compile_story
from onelayer.drawing.words import say
from onelayer.model.gpt import head

TOKENS = 3584  # words in the batch, as in chapter 08


@dataclass(frozen=True)
class HeadCode:
    """What Inductor wrote for each side: "forward", "backward" -> a Python file."""

    files: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.summary:
            raise ValueError("no file of Inductor's")

    @property
    def summary(self) -> str:
        """Each file's kernels, with the bytes that they read and write."""
        read = {side: read_inductor_file(source) for side, source in self.files.items()}
        return "\n".join(f"{side}: {file}" for side, file in read.items())

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        return cls(dict(plain))

    def plain(self) -> dict[str, Any]:
        return dict(self.files)

    def __str__(self) -> str:
        sources = [f"# {side}\n{source.strip()}" for side, source in self.files.items()]
        return "\n\n".join([self.summary, *sources])


def page_of(code: HeadCode, device: str = "") -> str:
    """The kernels at once, the files behind a fold each, which says for which device."""
    written = say(", written for {device}", device=escape(device)) if device else ""
    folds = [
        f"<details><summary>{escape(side)}: {say('the whole file')}{written}</summary>"
        f"<pre>{escape(source.strip())}</pre></details>"
        for side, source in code.files.items()
    ]
    return f"<pre>{escape(code.summary)}</pre>" + "".join(folds)


def head_loss(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """Chapter 08's function.  x (N, 64), weight (600, 64), bias (600,), target (N,) -> ()."""
    z = F.linear(x, weight, bias)
    z = z.clamp(-30, 30)
    return F.cross_entropy(z, target)


def record_head_code(device: str) -> HeadCode:
    """Both files that this machine's Inductor writes for `head_loss` on `device`."""
    layer = head().to(device)
    x = torch.randn(TOKENS, 64, device=device)
    target = torch.randint(600, (TOKENS,), device=device)
    return code_of(compile_story(head_loss, x, layer.weight, layer.bias, target))


def code_of(story: CompileStory) -> HeadCode:
    """The files of a story in one piece. Raises ValueError for a story without generated files."""
    (piece,) = story.pieces
    files = {"forward": piece.forward_file, "backward": piece.backward_file}
    return HeadCode({side: file.source for side, file in files.items() if file})
