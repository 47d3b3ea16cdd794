"""Two steps of training the grammar model, as CUDA's caching allocator saw them."""

import gc
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.cuda import memory
from torch.nn import functional as F

from onelayer.memory.allocator_history import AllocatorHistory, read_snapshots
from onelayer.model.gpt import GPT, padded
from onelayer.model.grammar import encode, split

SENTENCES = 1024  # so many that activations weigh more than parameters
_MOST_LINES = 100_000


def record_step_memory(device: str, *, sentences: int = SENTENCES) -> AllocatorHistory:
    """What the allocator is asked for, from the model's arrival to the end of the second step.

    A small step goes before, so that the workspaces of libraries, which stay, are there already;
    they are in the history as what was held before. Only CUDA's allocator keeps such a trace:
    with device="cpu" there is none, and torch raises.
    """
    rows = padded([encode(str(sentence)) for sentence in split().train[:sentences]])  # (B, T)
    for _ in _two_steps(rows[:8], device):
        pass
    gc.collect()
    torch.cuda.empty_cache()
    memory._record_memory_history(enabled="all", context=None, max_entries=_MOST_LINES)
    try:
        before = memory._snapshot()
        phases = [(phase, memory._snapshot()) for phase in _two_steps(rows, device)]
    finally:
        memory._record_memory_history(enabled=None)
    index = torch.cuda.current_device() if device == "cuda" else 0
    return read_snapshots(before, phases, device=index)


def _two_steps(rows: Tensor, device: str) -> Iterator[str]:
    """Runs them, and stops at the end of each phase to say its name.  rows (B, T) on the CPU."""
    model, tokens = GPT().to(device), rows.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    yield "model"
    for again in ("", " 2"):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])  # (B, T - 1, V)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        yield "forward" + again
        loss.backward()  # type: ignore[no-untyped-call]
        yield "backward" + again
        optimizer.step()
        del logits, loss  # as at the end of a function that does a step
        yield "optimizer" + again
