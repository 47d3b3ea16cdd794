"""Five training loops of the grammar model's head, each slow for one reason, and repaired.

Each is a function of a device and of whether it is repaired, and returns a step: a function of the
step's number that trains once and returns the loss. The repaired loop computes the same numbers,
bit for bit on the CPU. In the comments N is rows, D = 64, V = 600.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from onelayer.model.gpt import GPT, head, padded, trained
from onelayer.model.grammar import encode, split

Step = Callable[[int], Tensor]
SENTENCES = 64
MANY = 256
"""How often the sentences come in a batch where a GPU is to have work: so few rows leave it idle,
whatever the loop."""


@cache
def _sentences() -> tuple[Tensor, Tensor]:
    """What enters the head for some sentences, and the words that follow: (N, D), (N,)."""
    rows = padded([encode(str(sentence)) for sentence in split().train[:SENTENCES]])  # (B, T)
    with torch.no_grad():
        x = trained().hidden(rows[:, :-1]).flatten(0, 1)  # (N, D)
    return x, rows[:, 1:].flatten()


def _batch(device: str) -> tuple[Tensor, Tensor]:
    """A batch in the host's memory, as large as `device` wants it: (N, D), (N,)."""
    x, target = _sentences()
    times = MANY if device == "cuda" else 1
    return x.repeat(times, 1), target.repeat(times)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)


def reads_the_loss(device: str, *, repaired: bool) -> Step:
    """The mean loss is kept for a plot. Read as a number in each step, or kept on the device."""
    model = head().to(device)
    optimizer = _sgd(model)
    x, target = (t.to(device) for t in _batch(device))
    mean = torch.zeros((), device=device)
    history: list[float] = []

    def remember(loss: Tensor) -> None:
        if repaired:
            mean.add_(loss.detach(), alpha=0.1)  # stays on the device, read once at the end
        else:
            history.append(loss.item())

    def step(number: int) -> Tensor:
        with record_function("forward"):
            loss = F.cross_entropy(model(x), target)
        remember(loss)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step


def copies_each_batch(device: str, *, repaired: bool) -> Step:
    """A batch comes from the host in each step: from pageable memory, or pinned and ahead."""
    model = head().to(device)
    optimizer = _sgd(model)
    x, target = _batch(device)
    batches = [(x + k / 64, target) for k in range(2)]
    if repaired and device == "cuda":
        batches = [(x.pin_memory(), target.pin_memory()) for x, target in batches]

    def fetch(number: int) -> list[Tensor]:
        return [t.to(device, non_blocking=repaired) for t in batches[number % 2]]

    def step(number: int) -> Tensor:
        with record_function("data"):
            x, target = fetch(number)
        with record_function("forward"):
            loss = F.cross_entropy(model(x), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step


def steps_each_parameter(device: str, *, repaired: bool) -> Step:
    """Adam over the parameters of the whole GPT: one after the other, or in lists (`foreach`).
    Of the model only the head learns from this batch; the others have gradients of an earlier
    one."""
    model: GPT = trained().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=repaired)
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e-3)
    x, target = (t.to(device) for t in _sentences())

    def step(number: int) -> Tensor:
        with record_function("forward"):
            loss = F.cross_entropy(model.head(x), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        return loss.detach()

    return step


def converts_and_recomputes(device: str, *, repaired: bool) -> Step:
    """The head in bfloat16, where each step makes its table of weights again, and goes to float32
    and back for an operator that needs neither."""
    model = head().to(device, torch.bfloat16)
    optimizer = _sgd(model)
    x, target = (t.to(device) for t in _batch(device))
    x = x.to(torch.bfloat16)  # (N, D)

    def table() -> Tensor:
        """A weight for each word: seldom words count twice.  -> (V,)"""
        return torch.tensor([1.0 + (word % 7 == 0) for word in range(600)], device=device)

    once = table()

    def capped(z: Tensor) -> Tensor:
        if repaired:
            return z.clamp(-30, 30)
        return z.float().clamp(-30, 30).to(torch.bfloat16)

    def step(number: int) -> Tensor:
        weights = once if repaired else table()
        with record_function("forward"):
            z = capped(model(x))  # (N, V)
            loss = F.cross_entropy(z.float(), target, weight=weights)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step


LOOPS: dict[str, Callable[..., Step]] = {
    "reads_the_loss": reads_the_loss,
    "copies_each_batch": copies_each_batch,
    "steps_each_parameter": steps_each_parameter,
    "converts_and_recomputes": converts_and_recomputes,
}
