"""The model card: what the weights are, from numbers measured in the run that made them."""

import platform
from collections import Counter
from dataclasses import dataclass
from datetime import date

import torch

from ..evaluation import Scores
from ..gpt import CONTEXT, GPT, HEADS, LAYERS, D
from ..grammar import TOKENS, Sentence, Split


@dataclass(frozen=True)
class Run:
    """How a model was trained: steps, seed, CPU threads, and the wall time in seconds."""

    steps: int
    seed: int
    threads: int
    seconds: float


def card(model: GPT, data: Split, *, result: Scores, run: Run, sha256: str) -> str:
    """Markdown for `model`, trained by `run` on `data.train`, scored on `data.held_out`."""
    parameters = sum(p.numel() for p in model.parameters())
    verbs = len({sentence.verb for sentence in data.train})
    return f"""\
---
license: cc-by-4.0
language: [en, es]
---
# The grammar model

A two-layer GPT that conjugates {verbs} verbs in English and Spanish, translates between
the two, and analyses what it reads. The course One Layer Deep looks at PyTorch through its last
layer, `nn.Linear({D}, {len(TOKENS)})`. It is made to be looked into; it knows no word beyond its {len(TOKENS)}.

| | |
|---|---|
| architecture | {LAYERS} layers, width {D}, {HEADS} heads, context {CONTEXT}, head with bias, not tied to the embedding |
| parameters | {parameters:,} float32, of which the head holds {sum(p.numel() for p in model.head.parameters()):,} |
| file | `grammar_gpt.safetensors`, sha256 (its own places read as zeros) `{sha256}` |
| licence | CC BY 4.0, the One Layer Deep authors |

## Data
Every sentence of `onelayer.grammar`, made by rules; no text was collected from anyone.
The sentences of `split({run.seed})`:

| template | direction | training | held out |
|---|---|---|---|
{_sentence_table(data)}

Held out are whole sentences (a template, verb, tense, person and direction). All {len(TOKENS)} words, and
all pairs of an English and a Spanish verb phrase, occur in training in another sentence.

## Measured
On the {len(data.held_out)} held-out sentences:

| | |
|---|---|
| next word, where the grammar allows only one | {result.next_word:.2%} |
| translation, greedy, word for word | {result.translation:.2%} |

The settings of the training were chosen on splits 1 to 4, before split 0 was first measured.

## Training
`python -m onelayer.model.train --steps {run.steps} --seed {run.seed} --threads {run.threads}` on {date.today().isoformat()}: {run.seconds:.0f} s of wall time with
{run.threads} CPU thread{"s" if run.threads > 1 else ""}, torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}. The same command gives the
same bits on the same machine and torch. Elsewhere it gives other weights: a retraining with the
same versions differed by 38 to 85 percent from these, and was as good a model.

## Limits
- Seven tenses of each language, statements only, no objects: `she has eaten`, never `what`.
- `you` is always `tú`, `you-all` always `vosotros`; there is no `usted`. `they` becomes `ellos`.
- `nosotros hablamos` means two things, `we speak` and `we spoke`, so the model was never asked to
  translate or analyse it. It answers with nonsense, and `onelayer.model.complete` refuses to ask.
- A sentence outside the grammar gives some answer, with no warning.
"""  # noqa: E501


def _sentence_table(data: Split) -> str:
    def kinds(sentences: tuple[Sentence, ...]) -> Counter[tuple[str, str]]:
        return Counter((s.template, s.direction) for s in sentences)

    train, held_out = kinds(data.train), kinds(data.held_out)
    return "\n".join(
        f"| {a} | {b} | {n:,} | {held_out[a, b]} |" for (a, b), n in sorted(train.items())
    )
