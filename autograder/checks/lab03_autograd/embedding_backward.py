"""The gradient of an embedding table."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, expect_close

from . import lab

SEVERAL = (
    "Every wrong row is one of a word that occurs more than once. Each of its places is a path, "
    "and adds all of its dy."
)
MISPLACED = (
    "The sum over the rows is right, so no gradient is lost, but some lie in the rows of other "
    "words. dy[b, t] belongs to row tokens[b, t]: flatten both in the same order."
)

OF_THE_TABLE = "dw has the shape of the table: `rows` rows, read or not, and the D features of dy."
GAPS = "gaps"
"""Between the sentences of dy; within one its rows lie close together."""


@lab.question(
    "embedding_backward",
    points=3,
    minutes=7,
    difficulty=2,
    hints=(
        "A row of the table was read once for every place where its word stands. What do paths do?",
        "Start from zeros (rows, D), flatten the two leading dimensions, and add each dy to the "
        "row of its token. `dw[tokens] += dy` loses additions; chapter 01 has the call that does "
        "not.",
        "dw.index_add_(0, tokens.flatten(), dy.flatten(0, 1))",
    ),
)
def embedding_backward(student: Student, draw: Draw) -> None:
    """The gradient of `F.embedding(tokens, w)` for the table w.

    dy (B, T, D) in any memory layout, tokens (B, T) int64, rows (how many rows the table has) ->
    dw (rows, D).
    """
    twice = torch.tensor([[1, 4, 2], [0, 1, 1]])
    asked = [(twice, draw.integer(2, 5), layout) for layout in draw.layouts()]
    for _ in draw.cases(2):
        tokens = draw.integers(draw.integer(1, 4), draw.integer(2, 9), low=0, high=4)
        asked.append((tokens, draw.integer(1, 5), draw.layout()))
    # One place in each of several sentences, one word in all places, and one place.
    for d, places in ((2, [[3], [0], [3]]), (1, [[2, 2, 2, 2, 2, 2]]), (2, [[4]])):
        asked.append((torch.tensor(places), d, "contiguous"))
    # The last two are float64, and at last there is no sentence.
    asked += [(twice, 1, "contiguous"), (twice[:0], 2, "contiguous")]
    asked.insert(5, (twice, 3, GAPS))
    for k, (tokens, d, layout) in enumerate(asked, start=1):
        dtype = torch.float64 if k > len(asked) - 2 else torch.float32
        rows = 5 if k == 1 else draw.integer(6, 9)  # at first the last row is read too
        dy = _drawn_gradient(draw, tokens, d, layout, dtype)
        got = student.call("embedding_backward", dy, tokens, rows)
        want = _torchs_embedding(dy, tokens, rows)
        tolerance = 1e-5 if dtype is torch.float32 else 1e-12
        # Many a mistake begins with a table of float32, and parts from its like in the last calls.
        known = known_by_this_call(embedding_backward, student, got, dy, tokens, rows)
        with saying(_by_the_rows(got, want, tokens, tolerance)), known:
            expect_close(got, want, tolerance=tolerance)


def _drawn_gradient(draw: Draw, tokens: Tensor, d: int, layout: str, dtype: torch.dtype) -> Tensor:
    """dy (B, T, D); with GAPS the first T places of longer sentences."""
    b, t = tokens.shape
    if layout == GAPS:
        return draw.tensor(b, t + 2, d, dtype=dtype)[:, :t]
    return draw.tensor(b, t, d, layout=layout, dtype=dtype)


def _by_the_rows(got: Any, want: Tensor, tokens: Tensor, tolerance: float) -> str:
    """A sentence where only the rows of words that occur more than once are wrong, or all are
    right together, and one for any row that is wrong."""
    if not isinstance(got, Tensor) or got.dtype != want.dtype:
        return ""
    if got.shape != want.shape:
        return OF_THE_TABLE
    off, room = got.detach() - want, tolerance * want.abs().max()
    wrong = ~(off.abs() <= room).all(dim=1)  # nan too
    once = tokens.flatten().bincount(minlength=len(want)) <= 1
    if not bool(wrong.any()):
        return ""
    if not bool(wrong[once].any()):
        return SEVERAL
    if bool((off.sum(dim=0).abs() <= len(want) * room).all()):
        return MISPLACED
    row = int(wrong.nonzero()[0])
    return (
        f"Row {row} of dw is another one: it adds up dy[b, t] over the places where tokens[b, t] "
        f"is {row}, and nothing else."
    )


def _torchs_embedding(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    table = torch.zeros(rows, dy.shape[-1], dtype=dy.dtype, requires_grad=True)
    (dw,) = torch.autograd.grad(F.embedding(tokens, table), table, dy)
    return dw


LAST_WRITE = (
    "A word that occurs twice keeps only its last gradient. Each occurrence is a path, and paths "
    "add up."
)


@embedding_backward.wrong(
    "last_write_wins",
    LAST_WRITE,
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = dy.new_zeros(rows, dy.shape[-1])
    for token, row in zip(tokens.flatten().tolist(), dy.flatten(0, 1), strict=True):
        dw[token] = row
    return dw


@embedding_backward.wrong(
    "always_float32",
    "The gradient has the dtype of dy. What torch.zeros makes is float32 unless it is told.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy.float(), tokens, rows)


@embedding_backward.wrong(
    "averaged",
    "The occurrences of a word are averaged here. They add up: a frequent word moves more.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    counts = torch.bincount(tokens.flatten(), minlength=rows).clamp(min=1)
    return _torchs_embedding(dy, tokens, rows) / counts[:, None]


@embedding_backward.wrong(
    "only_words_that_occur",
    "This has a row for each word that occurs. dw has the shape of the table: rows that nobody "
    "read are 0.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows)[tokens.flatten().bincount().nonzero()[:, 0]]


embedding_backward.wrong(
    "last_sentence_only",
    "Only the last sentence of the batch has left a gradient. Flatten batch and time, or add up "
    "over the sentences.",
    embedding_backward=lambda dy, tokens, rows: _torchs_embedding(dy[-1:], tokens[-1:], rows),
)


@embedding_backward.wrong(
    "table_ends_at_the_last_word",
    "The table ends with the largest word that occurs. It has `rows` rows, and those that nobody "
    "read have a gradient of 0.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, int(tokens.max()) + 1)


@embedding_backward.wrong(
    "one_table_per_sentence",
    "This is a table for each sentence. All sentences read the same table: add up over the batch "
    "too.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    hot = F.one_hot(tokens, rows).to(dy.dtype)  # (B, T, rows)
    return hot.mT @ dy


@embedding_backward.wrong(
    "first_column_only",
    "Only the first feature has a gradient. `scatter_add_` moves as many elements as its index "
    "has: expand the index over the D features, or use `index_add_`, which adds whole rows.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = dy.new_zeros(rows, dy.shape[-1])
    return dw.scatter_add_(0, tokens.flatten()[:, None], dy.flatten(0, 1))


VIEWED = (
    "dy may have any memory layout, and `view` refuses to flatten some. `flatten` and `reshape` "
    "copy where they must."
)


@embedding_backward.wrong(
    "viewed_flat",
    VIEWED,
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = dy.new_zeros(rows, dy.shape[-1])
    return dw.index_add_(0, tokens.view(-1), dy.view(-1, dy.shape[-1]))


@embedding_backward.wrong(
    "tokens_turned",
    "The tokens were flattened down the columns and dy along the rows, so gradients went to the "
    "words of other places. Flatten both the same way.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    turned = tokens.T.reshape(tokens.shape)
    return _torchs_embedding(dy, turned, rows)


@embedding_backward.wrong(
    "dy_turned",
    "dy was flattened down the columns and the tokens along the rows, so gradients went to the "
    "words of other places. Flatten both the same way.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy.transpose(0, 1).reshape(dy.shape), tokens, rows)


@embedding_backward.wrong(
    "first_sentence_only",
    "Only the first sentence of the batch has left a gradient. Flatten batch and time, or add up "
    "over the sentences.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy[:1], tokens[:1], rows)


@embedding_backward.wrong(
    "word_0_left_out",
    "Row 0 of the table has no gradient. It is a word like the others; only `padding_idx` takes "
    "one out, and F.embedding(tokens, w) sets none.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = _torchs_embedding(dy, tokens, rows)
    dw[0] = 0
    return dw


@embedding_backward.wrong(
    "began_with_ones",
    "The table of gradients did not begin at 0: what nobody read has a gradient, and what was read "
    "has too much.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows) + 1


@embedding_backward.wrong(
    "read_as_if_contiguous",
    "dy was read as if its rows lay one after the other in memory. It may have any layout: "
    "as_strided believes the strides that you give it. `reshape` and `flatten` ask the tensor.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    d = dy.shape[-1]
    flat = dy.as_strided((tokens.numel(), d), (d, 1))
    return _torchs_embedding(flat, tokens.flatten(), rows)


@embedding_backward.wrong(
    "last_write_wins_within_a_sentence",
    "Within a sentence a word that occurs twice keeps only its last gradient; sentences add up, "
    "places in one do not. `index_add_` adds them all.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = dy.new_zeros(rows, dy.shape[-1])
    for sentence, row in zip(tokens, dy, strict=True):
        dw.index_copy_(0, sentence, dw[sentence] + row)
    return dw


@embedding_backward.wrong(
    "last_write_wins_in_float32",
    LAST_WRITE,
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = torch.zeros(rows, dy.shape[-1])
    dw[tokens] = dy
    return dw


@embedding_backward.wrong(
    "last_addition_wins_in_float32",
    LAST_WRITE,
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = torch.zeros(rows, dy.shape[-1])
    dw[tokens] += dy
    return dw


@embedding_backward.wrong(
    "viewed_flat_in_float32",
    VIEWED,
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = torch.zeros(rows, dy.shape[-1])
    return dw.index_add_(0, tokens.view(-1), dy.view(-1, dy.shape[-1]))


@embedding_backward.wrong(
    "dtypes_mixed",
    "dy may be float64, and torch.zeros makes float32: index_add refuses to mix them. Make the "
    "table with dtype=dy.dtype.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = torch.zeros(rows, dy.shape[-1])
    return dw.index_add_(0, tokens.flatten(), dy.flatten(0, 1))


@embedding_backward.wrong(
    "one_hot_in_float32",
    "A matrix product refuses to mix dtypes, and dy may be float64: bring the one-hot rows to "
    "dy's, with `.to(dy.dtype)`.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return F.one_hot(tokens.flatten(), rows).float().T @ dy.flatten(0, 1)


@embedding_backward.wrong(
    "one_hot_of_integers",
    "F.one_hot gives int64, and a matrix product refuses to mix that with floats: `.to(dy.dtype)`.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return F.one_hot(tokens.flatten(), rows).T @ dy.flatten(0, 1)


@embedding_backward.wrong(
    "averaged_over_all_tokens",
    "The table was divided by the number of tokens. The rule takes no mean; where the loss has "
    "one, dy brings it along.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows) / tokens.numel()


@embedding_backward.wrong(
    "averaged_over_the_batch",
    "The table was divided by the number of sentences. The rule takes no mean; where the loss has "
    "one, dy brings it along.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows) / len(tokens)


@embedding_backward.wrong(
    "first_occurrence_only",
    "A word that occurs twice keeps only its first gradient. Each occurrence is a path, and paths "
    "add up.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = dy.new_zeros(rows, dy.shape[-1])
    for token, row in reversed(list(zip(tokens.flatten(), dy.flatten(0, 1), strict=True))):
        dw[token] = row
    return dw


@embedding_backward.wrong(
    "turned",
    "This is dw transposed: the table has a row for each word, (rows, D).",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(dy, tokens, rows).T


@embedding_backward.wrong(
    "occurrences_counted",
    "This counts how often each word occurs. What each place adds is its dy.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return _torchs_embedding(torch.ones_like(dy), tokens, rows)


@embedding_backward.wrong(
    "addition_lost",
    "The table is still all zeros: nothing was written into it. `dw.index_add(...)` and "
    "`dw[tokens].add_(...)` leave dw as it is, for both add to a copy; `dw.index_add_(...)` writes "
    "into it.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    return dy.new_zeros(rows, dy.shape[-1])


@embedding_backward.wrong(
    "last_row_left_out",
    "The last row of the table has no gradient. It is a word like the others: words run from 0 to "
    "rows - 1.",
)
def _(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    dw = _torchs_embedding(dy, tokens, rows)
    dw[-1] = 0
    return dw


@embedding_backward.cost
def _(student: Student, draw: Draw) -> str:
    tokens = draw.integers(4, 8, low=0, high=99)
    dw = student.call("embedding_backward", draw.tensor(4, 8, 64), tokens, 600)
    touched = int((dw != 0).any(dim=1).sum())
    return (
        f"{touched} rows of {len(dw)} touched, {dw.nbytes:,} bytes written all the same: the "
        "gradient of a table is dense unless you ask for sparse=True"
    )
