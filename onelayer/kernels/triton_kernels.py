"""The three kernels of the Triton version. Sizes in capitals are compile-time constants.

    forward     one program: ROWS tokens, all words in tiles of WORDS  -> lse (N,), row_loss (N,)
    backward_x  one program: ROWS tokens, all words in tiles           -> dx (N, D)
    backward_w  one program: WORDS words, one slice of the tokens      -> dw, db: a part per slice

No program writes a logit. Each computes the tile z = x w^T + b that it needs, again, from x and w:
D multiply-adds for a number that would cost four bytes to read. The log-sum-exp is the online one
of Milakov and Gimelshein (https://arxiv.org/abs/1805.02867): when the maximum grows, what has been
added so far is scaled down. D is a power of two, from 16; V and N are any numbers: 600 = 9 tiles of
64 and 24 words, so the last tile is masked.
"""

from __future__ import annotations

from typing import Any

from triton import language as tl

from onelayer.kernels.triton_jit import kernel

# mypy: disable-error-code="no-untyped-def,untyped-decorator"


@kernel
def _x_tile(x_ptr, rows, N, row_stride, column_stride, D: tl.constexpr):
    """x (ROWS, D), zero beyond the last token."""
    at = rows.to(tl.int64)[:, None] * row_stride + tl.arange(0, D)[None, :] * column_stride
    return tl.load(x_ptr + at, mask=(rows < N)[:, None], other=0.0)


@kernel
def _w_tile(w_ptr, words, V, D: tl.constexpr):
    """w (WORDS, D), zero beyond the vocabulary."""
    at = words[:, None] * D + tl.arange(0, D)[None, :]
    return tl.load(w_ptr + at, mask=(words < V)[:, None], other=0.0)


@kernel
def _logits(x, w, b_ptr, words, V, PRECISION: tl.constexpr):
    """z = x w^T + b (ROWS, WORDS) float32, -inf beyond the vocabulary."""
    z = tl.dot(x, tl.trans(w), input_precision=PRECISION)
    z += tl.load(b_ptr + words, mask=words < V, other=0.0).to(tl.float32)[None, :]
    return tl.where((words < V)[None, :], z, float("-inf"))


@kernel
def _dz(z, lse, target, words, IGNORED: tl.constexpr):
    """softmax(z) - onehot(target) of the tile z, 0 in rows whose target is ignored. The factor
    dloss / count is multiplied into the float32 sums: of many tokens it is so small that a dz in
    float16 would be lost."""
    p = tl.exp(z - lse[:, None])
    hit = (words[None, :] == target[:, None]).to(tl.float32)
    return tl.where((target == IGNORED)[:, None], 0.0, p - hit)


@kernel
def forward(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, loss_ptr, N, V, row_stride, column_stride,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
    IGNORED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """lse (N,) and row_loss (N,), float32. A target outside the vocabulary makes its row NaN."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = _x_tile(x_ptr, rows, N, row_stride, column_stride, D)
    target = tl.load(t_ptr + rows, mask=rows < N, other=IGNORED)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0.0, tl.float32)
    at_target = tl.full((ROWS,), 0.0, tl.float32)
    for first in range(0, V, WORDS):
        words = first + tl.arange(0, WORDS)
        z = _logits(x, _w_tile(w_ptr, words, V, D), b_ptr, words, V, PRECISION)
        higher = tl.maximum(top, tl.max(z, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher[:, None]), 1)
        at_target += tl.sum(tl.where(words[None, :] == target[:, None], z, 0.0), 1)
        top = higher
    lse = top + tl.log(total)
    row_loss = tl.where((target < 0) | (target >= V), float("nan"), lse - at_target)
    tl.store(lse_ptr + rows, lse, mask=rows < N)
    tl.store(loss_ptr + rows, tl.where(target == IGNORED, 0.0, row_loss), mask=rows < N)


@kernel
def backward_x(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, scale_ptr, dx_ptr, N, V, row_stride, column_stride,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
    IGNORED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dx (N, D), contiguous, in x's dtype."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = _x_tile(x_ptr, rows, N, row_stride, column_stride, D)
    target = tl.load(t_ptr + rows, mask=rows < N, other=IGNORED)
    lse = tl.load(lse_ptr + rows, mask=rows < N, other=float("inf"))
    dx = tl.full((ROWS, D), 0.0, tl.float32)
    for first in range(0, V, WORDS):
        words = first + tl.arange(0, WORDS)
        w = _w_tile(w_ptr, words, V, D)
        dz = _dz(_logits(x, w, b_ptr, words, V, PRECISION), lse, target, words, IGNORED)
        dx += tl.dot(dz.to(w.dtype), w, input_precision=PRECISION)
    at = rows.to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :]
    dx *= tl.load(scale_ptr)
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=(rows < N)[:, None])


@kernel
def backward_w(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, scale_ptr, dw_ptr, db_ptr, N, V, slice_rows,
    row_stride, column_stride,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
    IGNORED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dw (SLICES, V, D) and db (SLICES, V), float32: what each slice of the tokens adds."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    part = tl.program_id(1).to(tl.int64)
    w = _w_tile(w_ptr, words, V, D)
    dw = tl.full((WORDS, D), 0.0, tl.float32)
    db = tl.full((WORDS,), 0.0, tl.float32)
    begin = tl.program_id(1) * slice_rows
    for first in range(begin, tl.minimum(begin + slice_rows, N), ROWS):
        rows = first + tl.arange(0, ROWS)
        x = _x_tile(x_ptr, rows, N, row_stride, column_stride, D)
        target = tl.load(t_ptr + rows, mask=rows < N, other=IGNORED)
        lse = tl.load(lse_ptr + rows, mask=rows < N, other=float("inf"))
        dz = _dz(_logits(x, w, b_ptr, words, V, PRECISION), lse, target, words, IGNORED)
        db += tl.sum(dz, 0)
        dw += tl.dot(tl.trans(dz.to(x.dtype)), x, input_precision=PRECISION)
    at = part * V * D + words[:, None] * D + tl.arange(0, D)[None, :]
    scale = tl.load(scale_ptr)
    tl.store(dw_ptr + at, dw * scale, mask=(words < V)[:, None])
    tl.store(db_ptr + part * V + words, db * scale, mask=words < V)


KERNELS: tuple[Any, ...] = (forward, backward_x, backward_w)
