"""Programs whose memory other people published from real GPUs, as far as it decides that memory.

Each returns bytes by name. They run on a device without numbers, so no weight is drawn: it is
written once, and only its place counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Bytes = dict[str, int]
Model = TypeVar("Model", bound=nn.Module)


def head_losses() -> Bytes:
    """The loss of a head as large as Gemma 2's (2B): plain and compiled, forward, backward, both.

    Measured as apple/ml-cross-entropy's benchmark/memory.py does it: the peak of a call over the
    peak before it. Its batch is 8,192 tokens, its logits are capped at 30.
    """
    torch.set_float32_matmul_precision("high")
    x = torch.empty(8192, 2304, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    w = torch.empty(256_000, 2304, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.zeros(8192, device="cuda", dtype=torch.int64)
    found: Bytes = {}
    for name, loss in {"plain": _capped_loss, "compiled": torch.compile(_capped_loss)}.items():
        for part in ("forward", "backward", "both"):
            for _ in range(2):  # the first one compiles, and takes cuBLAS's workspaces
                found[f"{name}, {part}"] = _over_the_peak(loss, (x, w, target), part)
    return found


def _capped_loss(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
    z = x @ w.T
    z = torch.tanh(z / 30.0) * 30.0
    return F.cross_entropy(z.float(), target)


def _over_the_peak(
    loss: Callable[..., Tensor], given: tuple[Tensor, Tensor, Tensor], part: str
) -> int:
    x, w, _ = given
    x.grad = w.grad = None
    torch.cuda.empty_cache()
    before = _from_here()
    value = loss(*given)
    if part == "backward":
        before = _from_here()
    if part != "forward":
        value.backward()
    return torch.cuda.max_memory_allocated() - before


def _from_here() -> int:
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated()


def forty_layers() -> Bytes:
    """40 layers of 4,096 by 4,096 and their ReLUs, forward, with a batch of 1,024."""
    layers = [_placed(lambda: nn.Linear(4096, 4096)) for _ in range(40)]
    x = torch.empty(1024, 4096, device="cuda")
    before = _from_here()
    for layer in layers:
        x = F.relu(layer(x))
    return {
        "before": before,
        "after": torch.cuda.memory_allocated(),
        "peak": torch.cuda.max_memory_allocated(),
    }


class _EncoderBlock(nn.Module):
    """As torchvision's: norm, attention, norm, a network of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, width // 64, batch_first=True)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.network(self.second(x))


class _VisionTransformer(nn.Module):
    """ViT-L/16 of torchvision, with ten classes.  images (B, 3, 224, 224) -> (B, 10)."""

    def __init__(self, width: int = 1024, layers: int = 24) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=16, stride=16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(_EncoderBlock(width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).permute(0, 2, 1)  # (B, 196, D)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1)  # (B, 197, D)
        return self.head(self.norm(self.blocks(x + self.place))[:, 0])


def vision_transformer(batch: int, dtype: torch.dtype, *, mixed: bool = False) -> Bytes:
    """The most that was reserved in four steps of training ViT-L/16 with Adam."""
    model = _placed(_VisionTransformer, dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    scaler = torch.amp.GradScaler("cuda", enabled=mixed)
    for _ in range(4):
        images = torch.empty(batch, 3, 224, 224, dtype=dtype, device="cuda")
        target = torch.zeros(batch, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", torch.float16, enabled=mixed):
            logits = model(images)
        loss = F.cross_entropy(logits.float() if mixed else logits, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return {"reserved": torch.cuda.max_memory_reserved()}


class _GptBlock(nn.Module):
    """As minGPT's: attention with all its scores, a GELU of five operators, dropout of 0.1."""

    def __init__(self, width: int, heads: int, room: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.split, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(room, room).tril()[None, None])

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(_linear(self.join, self._attended(self.first(x))), 0.1)
        h = _linear(self.wide, self.second(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h.pow(3.0))))
        return x + F.dropout(_linear(self.narrow, h), 0.1)

    def _attended(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        parts = _linear(self.split, x).split(d, dim=2)
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in parts)  # (B, H, T, D/H)
        score = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        score = score.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = F.dropout(F.softmax(score, dim=-1), 0.1) @ v
        return y.transpose(1, 2).contiguous().view(b, t, d)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    y = layer(x)
    torch.empty(2**20, dtype=torch.uint8, device=x.device)  # the workspace, and it is gone
    return y


class _Gpt(nn.Module):
    """minGPT, with the sizes of its demo: 3 words, 11 places.  tokens (B, 11) -> (B, 11, 3)."""

    def __init__(self, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(3, width), nn.Embedding(11, width)
        self.blocks = nn.Sequential(*(_GptBlock(width, heads, 11) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        place = torch.arange(11, device=tokens.device)[None]
        x = F.dropout(self.word(tokens) + self.place(place), 0.1)
        return self.head(self.norm(self.blocks(x)))


def min_gpt(layers: int, heads: int, width: int, *, early: bool) -> Bytes:
    """The peak of four steps. early: whether gradients go before forward, and not after it.

    As torch was in January 2023: optimizer and clipping without foreach, and for each matrix
    product with a bias a workspace of 1 MiB, which goes when it is done (CUDABlas.cpp,
    gemm_and_bias).
    """
    model = _placed(lambda: _Gpt(layers, heads, width))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(4):
        tokens = torch.zeros(64, 11, dtype=torch.int64).cuda()
        target = torch.zeros(64, 11, dtype=torch.int64).cuda()
        if early:
            model.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, 3), target.view(-1), ignore_index=-1)
        if not early:
            model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
    return {"peak": torch.cuda.max_memory_allocated()}


def _placed(make: Callable[[], Model], dtype: torch.dtype = torch.float32) -> Model:
    with torch.device("meta"):
        model = make()
    return model.to(dtype).to_empty(device="cuda")
