"""`python -m onelayer.model.train`: from random numbers to the shipped weights, in minutes on
two cores.

The weights are written once, at the end, and only if the model knows the sentences that it never
saw. Until then, and whatever interrupts the training, the old weights stay whole.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import functional as F

from . import weights
from .evaluation import scores
from .gpt import GPT, padded
from .grammar import Sentence, Split, encode, split
from .weights.model_card import Run, card

STEPS = 5000
BATCH = 64
PEAK_RATE = 3e-3
WEIGHT_DECAY = 1.0  # ten times the usual: what one sentence taught fades, what many share stays
NO_WORD = -100  # the target after the end of a sentence, which F.cross_entropy passes over

Report = Callable[[int, float, GPT], None]


def train(
    sentences: Sequence[Sentence],
    *,
    steps: int = STEPS,
    seed: int = 0,
    report: Report | None = None,
) -> GPT:
    """A model trained on `sentences`, in eval mode. Same seed, torch and threads, same bits.

    report(step, loss, model) is called after each step, with the steps counted from 1.
    """
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not disturbed
        torch.manual_seed(seed)
        model = GPT()
        optimizer = _optimizer(model)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, PEAK_RATE, total_steps=steps, pct_start=0.1
        )
        stream = islice(batches(sentences, size=BATCH, seed=seed), steps)
        for step, (words, targets) in enumerate(stream, start=1):
            loss = _step(model, optimizer, words, targets)
            schedule.step()
            if report:
                report(step, loss, model)
    return model.eval()


def batches(
    sentences: Sequence[Sentence], *, size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Without end: words (B, T) and for each word the next (B, T), both int64, B up to `size`.

    Each round visits every sentence once, in a new order that the seed decides.
    """
    tokens = padded([encode(str(sentence)) for sentence in sentences])  # (S, T+1)
    lengths = torch.tensor([len(sentence.words) for sentence in sentences])  # (S,)
    words, targets = tokens[:, :-1], tokens[:, 1:].clone()  # (S, T) each
    places = torch.arange(1, tokens.shape[1])  # (T,)
    targets[places >= lengths[:, None]] = NO_WORD
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(tokens), generator=generator)  # (S,)
        for start in range(0, len(order), size):
            rows = order[start : start + size]  # (B,)
            yield words[rows], targets[rows]


def _optimizer(model: GPT) -> torch.optim.Optimizer:
    """AdamW that lets only matrices decay: biases and gains have nothing to learn by heart."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.99), fused=True)


def _step(model: GPT, optimizer: torch.optim.Optimizer, words: Tensor, targets: Tensor) -> float:
    logits = model(words)  # (B, T, V)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NO_WORD)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@click.command()
@click.option("--steps", default=STEPS, show_default=True, type=click.IntRange(min=20))
@click.option("--seed", default=0, show_default=True, help="Of the split, the weights, the order.")
@click.option(
    "--threads",
    default=1,  # these matrices are so small that a second thread costs more than it brings
    show_default=True,
    type=click.IntRange(min=1),
)
@click.option(
    "--out",
    default=weights.FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the weights go; the card goes beside them.  [default: the shipped ones]",
)
def main(*, steps: int, seed: int, threads: int, out: Path) -> None:
    """Train the grammar model, measure it on held-out sentences, and write weights and card."""
    torch.set_num_threads(threads)
    data = split(seed)
    console = Console(emoji=False)
    _refuse_unless_writable(out)
    console.print(f"{len(data.train):,} sentences to learn, {len(data.held_out)} held out.")
    start = time.perf_counter()
    with _bar(console) as bar:
        model = train(data.train, steps=steps, seed=seed, report=_reporter(bar, data, steps))
    run = Run(steps, seed, threads, seconds=time.perf_counter() - start)
    result = scores(model, data.held_out)
    if not result.good_enough:
        raise click.ClickException(
            f"held out: {result}. That is below 99% and 95%, so {out} stays as it was. "
            f"Train for {STEPS:,} steps or more."
        )
    sha256 = weights.save(model.state_dict(), out)
    text = card(model, data, result=result, run=run, sha256=sha256)
    weights.replace(out.with_name("MODEL_CARD.md"), text.encode())
    console.print(f"Held out: {result}. {run.seconds:.0f} s.")
    console.print(f"Wrote {out} and its card.", soft_wrap=True)


def _refuse_unless_writable(out: Path) -> None:
    """Say before the training, not after it, that its result would have no place."""
    try:
        weights.replace(out.with_name(".writable"), b"")
        out.with_name(".writable").unlink(missing_ok=True)
    except OSError as error:
        raise click.ClickException(f"{out.parent} cannot be written ({error.strerror}).") from None


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
        console=console,
    )


def _reporter(bar: Progress, data: Split, steps: int) -> Report:
    """Move the bar at each step; ten times on the way, say how well the held-out sentences go."""
    task = bar.add_task("", total=steps, loss=float("nan"))

    def report(step: int, loss: float, model: GPT) -> None:
        bar.update(task, completed=step, loss=loss)
        if step % (steps // 10) == 0:
            model.eval()
            bar.console.print(
                f"step {step:>5,}  loss {loss:.3f}  held out: {scores(model, data.held_out)}"
            )
            model.train()

    return report


if __name__ == "__main__":
    main()
