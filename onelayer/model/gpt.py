"""The model: a two-layer GPT over the 600 words, and the looks into it that the course takes.

    head = onelayer.head()                                # nn.Linear(64, 600), trained
    x = onelayer.hidden("<en> she has eaten <es> ella")   # (6, 64), what enters the head
    onelayer.next_words(head(x))                          # ha, then everything less likely

In the comments B is sentences, T words in a sentence, N words in all, D = 64, V = 600, H = 4 heads.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onelayer.drawing.words import say

from . import weights
from .grammar import END, TOKENS, V, decode, encode, readings

D = 64
LAYERS = 2
HEADS = 4
CONTEXT = 16  # words; the longest sentence of the grammar has 9
DROPOUT = 0.1
PAD = encode(END)[0]  # what follows the end of a sentence in a batch; no word before it can see it


class Attention(nn.Module):
    """Each word asks itself and the words before it, in H ways at once.  (B, T, D) -> same."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        qkv = self.qkv(x).view(B, T, 3, HEADS, D // HEADS)  # (B, T, 3, H, D/H)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # three of (B, H, T, D/H)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D/H)
        joined: Tensor = self.out(mixed.transpose(1, 2).reshape(B, T, D))  # (B, T, D)
        return joined


class Block(nn.Module):
    """Ask the other words, then think alone; add both to what was there.  (B, T, D) -> same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(D), Attention()
        self.norm2 = nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        asked: Tensor = x + self.drop(self.attention(self.norm1(x)))
        thought: Tensor = asked + self.drop(self.mlp(self.norm2(asked)))
        return thought


class GPT(nn.Module):
    """Token indices to logits.  (B, T) int64 -> (B, T, V), T at most CONTEXT."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(V, D)
        self.place = nn.Embedding(CONTEXT, D)
        self.drop = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, V)
        for matrix in (p for p in self.parameters() if p.dim() == 2):
            # nn.Embedding starts at N(0, 1), so far apart that learning by heart beats the rules.
            nn.init.normal_(matrix, std=0.02)

    def hidden(self, tokens: Tensor) -> Tensor:
        """What enters the head.  (B, T) -> (B, T, D)."""
        x = self.word(tokens)  # (B, T, D)
        x = self.drop(x + self.place.weight[: tokens.shape[1]])
        states: Tensor = self.norm(self.blocks(x))  # (B, T, D)
        return states

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(tokens))  # (B, T, V)
        return logits


def trained() -> GPT:
    """The trained model, a fresh copy at each call, in eval mode: do with it what you like.

    Raises weights.WeightsError if the file is missing or damaged.
    """
    with torch.random.fork_rng(devices=[]):  # draws nothing from your random generator
        model = GPT()  # building it on the meta device would import torch._dynamo, for a second
    state = {name: value.clone() for name, value in _state().items()}
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError:
        raise weights.WeightsError(weights.FILE, say("holds another model than this one")) from None
    return model.eval()


def head() -> nn.Linear:
    """The trained `nn.Linear(64, 600)`, a fresh copy at each call. Row i belongs to `TOKENS[i]`.

    Raises weights.WeightsError if the file is missing or damaged.
    """
    return trained().head


@torch.no_grad()
def hidden(text: str) -> Tensor:
    """The activations that enter the head: one row for each word.  -> (N, 64) float32.

    A line is a sentence and sees no other line. Text without words gives (0, 64).
    Raises UnknownWordError for a word outside the 600 and ValueError for a line over 16 words.
    """
    rows = [encode(line) for line in text.splitlines() if line.strip()]
    if not rows:
        return torch.empty(0, D)
    states = _frozen().hidden(padded(rows))  # (B, T, D)
    return torch.cat([state[: len(row)] for state, row in zip(states, rows, strict=True)])  # (N, D)


class NextWords(tuple[tuple[str, float], ...]):
    """Words with their probabilities, most probable first: `(("ha", 0.99), ("come", 0.01))`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"{word:<17} {p:6.1%}  {_bar(p)}".rstrip() for word, p in self)


def next_words(logits: Tensor, k: int = 5) -> NextWords:
    """The `k` most probable next words.  logits (600,), or (N, 600) for what follows the last row.

    Raises ValueError for other shapes, for no rows, and for k outside 1..600.
    """
    shape = tuple(logits.shape)
    if len(shape) not in (1, 2) or shape[-1] != V or 0 in shape:
        raise ValueError(
            say("next_words takes logits (600,) or (N, 600) with N > 0, got {shape}", shape=shape)
        )
    if not 1 <= k <= V:
        raise ValueError(say("k is how many words to show, 1 to {v}, got {k}", v=V, k=k))
    last = logits if logits.dim() == 1 else logits[-1]  # (V,)
    values, indices = last.detach().float().softmax(dim=0).topk(k)  # (k,) each
    words = [TOKENS[i] for i in indices.tolist()]
    return NextWords(zip(words, values.tolist(), strict=True))


@torch.no_grad()
def complete(model: GPT, prompts: Sequence[str]) -> list[str]:
    """Each prompt with the words that the model adds, the likeliest at each step, up to `<end>`.

    Raises UnknownWordError for a word outside the 600, and ValueError for a prompt without words
    and for a question about a clause that means two things, which the model was never asked.
    """
    rows = [encode(prompt) for prompt in prompts]
    for prompt in prompts:
        if len(means := readings(prompt.split())) > 1:
            answers = say(" or ").join(sorted(means))
            raise ValueError(
                say("{prompt!r} has no one answer: {answers}", prompt=prompt, answers=answers)
            )
    if [] in rows:
        raise ValueError(say("a prompt needs at least one word, for instance <en>"))
    while growing := [row for row in rows if row[-1] != PAD and len(row) < CONTEXT]:
        last = torch.tensor([len(row) - 1 for row in growing])
        logits = model(padded(growing))[torch.arange(len(growing)), last]  # (B, T, V) -> (B, V)
        for row, word in zip(growing, logits.argmax(dim=-1).tolist(), strict=True):
            row.append(word)
    return [decode(row) for row in rows]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Token indices of sentences as one rectangle, short ones filled up with PAD.  -> (B, T) int64.

    Raises ValueError for a sentence of more than CONTEXT words, and for no sentence at all.
    """
    T = max(len(row) for row in rows)
    if T > CONTEXT:
        raise ValueError(
            say("a sentence has {t} words; the model reads at most {most}", t=T, most=CONTEXT)
        )
    return torch.tensor([[*row, *[PAD] * (T - len(row))] for row in rows])


@cache
def _state() -> dict[str, Tensor]:
    return weights.load()


@cache
def _frozen() -> GPT:
    return trained().requires_grad_(False)


def _bar(p: float) -> str:
    return "█" * round(20 * p) if p == p else ""  # NaN has no bar
