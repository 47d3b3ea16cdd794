"""What real GPUs needed, as others published it, beside what the mocked device needs for the same.

    python -m bench.published_memory

Prints the rows of the table in docs/mock_cuda.md. Runs on a CUDA build of torch; no GPU is needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from bench.published_programs import (
    Bytes,
    forty_layers,
    head_losses,
    min_gpt,
    vision_transformer,
)

MIB = 2**20


@dataclass(frozen=True)
class Published:
    """One program and its figures. program: what runs, on a mocked device of that name; unit: bytes
    of what `real` counts; real: name -> the figure; within: the relative difference that is known
    and explained on the page."""

    what: str
    source: str
    device: str
    program: Callable[[], Bytes]
    unit: float
    real: dict[str, float]
    within: float


_APPLE = "https://github.com/apple/ml-cross-entropy#training-and-reproducing-the-benchmark-results"
_FORUM = "https://discuss.pytorch.org/t/why-doesn-t-my-tensor-offloading-strategy-reduce-gpu-memory-usage-in-forward-pass/208243"
_LOGS = "https://github.com/rasbt/pytorch-memory-optim/blob/main/logs.md"
_MINGPT = "https://github.com/karpathy/minGPT/pull/106"

FIGURES = (
    Published(
        what="loss of Gemma 2's head, 8,192 tokens: peak, MiB",
        source=_APPLE,
        device="A100",
        program=head_losses,
        unit=MIB,
        real={
            "plain, forward": 24_000.0,
            "plain, backward": 16_000.0,
            "plain, both": 28_000.0,
            "compiled, forward": 4_000.1,
        },
        within=0.005,
    ),
    Published(
        what="40 layers of 4,096 by 4,096, forward: allocated, MiB",
        source=_FORUM,
        device="A100",
        program=forty_layers,
        unit=MIB,
        real={"before": 2576.62, "after": 3224.75, "peak": 3240.75},
        within=0.0001,
    ),
    Published(
        what="training ViT-L/16, batch of 64, float32: reserved, GB",
        source=_LOGS,
        device="A100",
        program=partial(vision_transformer, 64, torch.float32),
        unit=1e9,
        real={"reserved": 26.79},
        within=0.005,
    ),
    Published(
        what="the same, float16 by autocast",
        source=_LOGS,
        device="A100",
        program=partial(vision_transformer, 64, torch.float32, mixed=True),
        unit=1e9,
        real={"reserved": 18.21},
        within=0.06,
    ),
    Published(
        what="the same, bfloat16",
        source=_LOGS,
        device="A100",
        program=partial(vision_transformer, 64, torch.bfloat16),
        unit=1e9,
        real={"reserved": 13.82},
        within=0.06,
    ),
    Published(
        what="the same, bfloat16, batch of 16",
        source=_LOGS,
        device="A100",
        program=partial(vision_transformer, 16, torch.bfloat16),
        unit=1e9,
        real={"reserved": 5.69},
        within=0.06,
    ),
    *(
        Published(
            what=f"minGPT's {name}, gradients freed {'early' if early else 'late'}: peak, bytes",
            source=_MINGPT,
            device="A100",
            program=partial(min_gpt, *sizes, early=early),
            unit=1,
            real={"peak": float(peak)},
            within=within,
        )
        for name, sizes, early, peak, within in (
            ("gpt2-xl", (48, 25, 1600), False, 30_634_800_640, 0.005),
            ("gpt2-xl", (48, 25, 1600), True, 24_607_903_232, 0.005),
            ("gpt-nano", (3, 3, 48), True, 31_666_688, 0.005),
            ("gpt-nano", (3, 3, 48), False, 32_019_456, 0.005),
        )
    ),
)


@dataclass(frozen=True)
class Compared:
    """A figure and its mocked twin, both in the figure's own unit."""

    name: str
    real: float
    mocked: float

    @property
    def difference(self) -> float:
        return self.mocked / self.real - 1


def _with_one_workspace(program: Callable[[], Bytes]) -> Bytes:
    """With one workspace for all matrix products, kept from the first one on, as the torches had it
    that the figures come from. torch 2.11 keeps 1 MiB more, for products with a bias, unless it is
    told not to; torch 2.15 gives the workspace back after each product, unless it is told not to.
    """
    os.environ["TORCH_CUBLASLT_UNIFIED_WORKSPACE"] = "1"
    os.environ["TORCH_CUBLAS_WORKSPACE_CACHE"] = "1"
    return program()


def compared(published: Published) -> list[Compared]:
    """Each figure of a program with what the mocked device gave. Raises what on_mock_gpu raises."""
    from onelayer.mock_cuda.run import on_mock_gpu

    program = partial(_with_one_workspace, published.program)
    run = on_mock_gpu(program, device=published.device, memory=None, trace=False, show=False)
    found: Bytes = run.result
    return [Compared(n, real, found[n] / published.unit) for n, real in published.real.items()]


def rows(published: Published) -> Iterator[str]:
    """Of the table, in Markdown."""
    for n, one in enumerate(compared(published)):
        what = f"[{published.what}]({published.source})" if n == 0 else "the same"
        named = f"{what}; {one.name}" if len(published.real) > 1 else what
        digits = 0 if published.unit == 1 else 2
        figures = f"{one.real:,.{digits}f} | {one.mocked:,.{digits}f}"
        yield f"| {named} | {figures} | {one.difference:+.3%} |"


def main() -> int:
    """0 where every figure is within what the page says of it."""
    for published in FIGURES:
        for row in rows(published):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
