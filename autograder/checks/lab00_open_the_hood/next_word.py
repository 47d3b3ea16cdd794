"""The word that the head finds likeliest."""

from __future__ import annotations

from typing import Any

import torch

import onelayer
from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, numbers_apart

from . import lab
from .sentences import SENTENCES

Head = tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[str]]  # h, W, b and the words

_RAISED = {
    **dict.fromkeys(
        ("NameError: name 'onelayer'", "NameError: name 'head'"),
        "All that the answer hangs on is among the arguments: h, W, b and words.",
    ),
    "RuntimeError: both arguments to matmul": "A product was asked of a number alone. The last row "
    "of h has D numbers. Where T is 1, a squeeze() before it leaves one of them.",
}


@lab.question(
    "next_word",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "One row of W belongs to each word. Which row of h knows the whole sentence?",
        "The logits of the last position are W @ h[-1] + b. The next word is where they are "
        "largest.",
        "return words[(W @ h[-1] + b).argmax()]",
    ),
)
def next_word(student: Student, draw: Draw) -> None:
    """The word that the head finds likeliest after the last position.

    h (T, D) hidden states, W (V, D), b (V,), words (list of V) -> one of the words.
    """
    real, tokens = onelayer.head(), list(onelayer.grammar.TOKENS)
    weight, bias = real.weight.detach(), real.bias.detach()
    for text in SENTENCES:
        h = onelayer.hidden(text)
        _expect_likeliest(student, (h, weight, bias, tokens))
    made = [_a_long_row(), _one_position(), _too_large_for_exp(), _a_bias_decides()]
    made += [*_rows_of_zeros(), _a_narrow_lead(draw), _as_many_words_as_features()]
    for head in made + _apart(draw):
        _expect_likeliest(student, head)
    for _ in draw.cases(3):
        h, weight = draw.tensor(draw.integer(2, 6), 8), draw.tensor(12, 8)
        words = [f"word{k}" for k in draw.shuffled(range(12))]
        favoured = draw.integer(0, 11)  # whatever h says, this word's bias decides
        bias = torch.zeros(12).index_fill(0, torch.tensor([favoured]), 100.0)
        for b in (torch.zeros(12), bias):
            _expect_likeliest(student, (h, weight, b, words))


def _a_long_row() -> Head:
    """A mark is likeliest: it is a word as any other. Its row has another direction than h, and is
    longer than the others but for one, whose logit is far below zero. The largest bias is another
    word's, and twice it would decide."""
    h, bias = torch.tensor([[0.0, 1.0], [1.0, 2.0]]), torch.tensor([0.0, 0.0, 4.0, 0.0])
    weight = torch.tensor([[0.5, 1.0], [4.0, 1.0], [-1.0, 0.0], [-4.0, -4.0]])
    return h, weight, bias, ["short", "<end>", "biased", "unlikely"]


def _one_position() -> Head:
    """The last word is likeliest, and another has the largest bias."""
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]]), torch.tensor([0.0, 2.0, 0.0])
    return torch.tensor([[1.0, 2.0]]), weight, bias, ["first", "biased", "last"]


def _too_large_for_exp() -> Head:
    """e to the power of either of two logits is infinite; the second is larger."""
    return torch.tensor([[150.0, 190.0]]), torch.eye(2), torch.zeros(2), ["infinite", "larger"]


def _a_bias_decides() -> Head:
    """In whole numbers, so that it decides for whoever rounds the logits as well."""
    h, weight = torch.tensor([[0.0, 1.0], [1.0, 2.0]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    return h, weight, torch.tensor([0.0, 8.0]), ["nearest", "favoured"]


def _rows_of_zeros() -> list[Head]:
    """A hidden state of zeros is a row as any other: the last one, one further up, and all. Whoever
    takes them for padding, or counts the others to find the last row, reads another row."""
    words, bias = ["one", "favoured", "three"], torch.tensor([0.0, 1.0, 0.0])
    rows = (
        [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 4.0, 0.0], [4.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    )
    return [(torch.tensor(h), torch.eye(3), bias, words) for h in rows]


def _as_many_words_as_features() -> Head:
    """W @ h and W.T @ h have one shape here, and another word is likeliest in each."""
    weight = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    h = torch.tensor([[2.0, 1.0, 0.0], [1.0, 2.0, 4.0]])
    return h, weight, torch.zeros(3), ["turned", "right", "last"]


def _a_narrow_lead(draw: Draw) -> Head:
    """Two hundred words of which one is ahead, by little: whoever draws one draws another."""
    words, bias = [f"word{k}" for k in draw.shuffled(range(200))], torch.zeros(200)
    bias[draw.integer(1, 198)] = 0.5
    return draw.tensor(3, 4), torch.zeros(200, 4), bias, words


def _apart(draw: Draw) -> list[Head]:
    """Few positions, a weight or an h that lies column by column; then logits all below zero, and
    so close that half of the digits do not tell them apart, by the bias or by the product."""
    words, h = [f"word{k}" for k in draw.shuffled(range(9))], draw.tensor(3, 4)
    wide = draw.tensor(9, 4, layout="transposed")
    heads = [(draw.tensor(n, 4), wide, draw.tensor(9), words) for n in (1, 1, 2, 9)]
    turned = draw.tensor(5, 4, layout="transposed")
    heads.append((turned, draw.tensor(9, 4), draw.tensor(9), words))
    heads.append((draw.tensor(1, 4), draw.tensor(1, 4), torch.ones(1), ["only"]))
    many = [f"word{k}" for k in range(700)]  # more than the real head has, and the last is ahead
    heads.append((h, torch.zeros(700, 4), torch.arange(700.0), many))
    order = torch.tensor([3.0, 1.0, 4.0, 0.0, 2.0, 5.0, 7.0, 6.0, 8.0])
    for shift, step in ((-30.0, 1.0), (-0.9, 0.05), (30.002, 1e-3)):
        heads.append((h, torch.zeros(9, 4), shift + step * order, words))
    close = (30.002 + 1e-3 * order)[:, None]
    heads.append((torch.ones(2, 1), close, torch.zeros(9), words))
    return heads


def _expect_likeliest(student: Student, head: Head) -> None:
    logits = _last_logits(*head)
    want = max(logits, key=logits.__getitem__)
    with explaining(_RAISED):
        got = student.call("next_word", *head)
    expect_equal(got, want, why=_because(got, want, logits, head[0][-1]))


def _last_logits(
    h: torch.Tensor, w: torch.Tensor, b: torch.Tensor, words: list[str]
) -> dict[str, float]:
    """The slow definition: one word after the other, one product after the other."""
    last = h[-1].tolist()
    return {
        word: sum(x * y for x, y in zip(row, last, strict=True)) + bias
        for word, row, bias in zip(words, w.tolist(), b.tolist(), strict=True)
    }


def _because(got: Any, want: str, logits: dict[str, float], last: torch.Tensor) -> str:
    """By how much another word is less likely, and what the last row or exp has to do with it; ""
    for what is none of the words."""
    if not isinstance(got, str) or got not in logits:
        return ""
    mine, right = numbers_apart(logits[got], logits[want], digits=4)
    if not last.any():
        return (
            "The last row of h holds zeros here, and is a row as any other: each logit is its "
            f"word's bias. That of {got!r} is {mine}, and that of {want!r} is {right}."
        )
    if min(logits.values()) > _INFINITE_FROM:
        return (
            f"In the last row the logit of {got!r} is {mine}, and that of {want!r} is {right}. exp "
            "of either is infinite in float32, and the sigmoid of either is 1: compare the logits."
        )
    if len(set(torch.tensor([logits[got], logits[want]]).bfloat16().tolist())) == 1:
        return (
            f"In the last row the logit of {got!r} is {mine}, and that of {want!r} is {right}. "
            "Rounded, as to bfloat16, they are one number: compare them as they are."
        )
    return (
        "A word's logit is the product of its row of W and the last row of h, plus its bias. That "
        f"of {got!r} is {mine}, and that of {want!r} is {right}."
    )


_INFINITE_FROM = 88.8  # exp of it, and of whatever is larger


next_word.wrong(
    "first_position",
    "You read the first row of h. That position has seen one word only; the last one has seen all.",
    next_word=lambda h, W, b, words: words[int((W @ h[0] + b).argmax())],
)
next_word.wrong(
    "bias_forgotten",
    "Without the bias this word would be the likeliest. The bias is part of each logit, and can "
    "turn the decision.",
    next_word=lambda h, W, b, words: words[int((W @ h[-1]).argmax())],
)
next_word.wrong(
    "largest_of_all_positions",
    "This is the largest logit of the whole sentence. Each row predicts the word after its own "
    "position: take the last row first.",
    next_word=lambda h, W, b, words: words[int((h @ W.T + b).argmax()) % len(words)],
)
next_word.wrong(
    "smallest_logit",
    "This is the unlikeliest word: the logit wants to be large, not small.",
    next_word=lambda h, W, b, words: words[int((W @ h[-1] + b).argmin())],
)
next_word.wrong(
    "index_returned",
    "This is the row's number. The word stands in `words[number]`.",
    next_word=lambda h, W, b, words: int((W @ h[-1] + b).argmax()),
)
next_word.wrong(
    "index_tensor_returned",
    "This is the row's number, as a tensor. The word stands in `words[number]`.",
    next_word=lambda h, W, b, words: (W @ h[-1] + b).argmax(),
)
next_word.wrong(
    "every_position",
    "This is a word for each position. Only the last one knows the whole sentence: its word is "
    "asked for.",
    next_word=lambda h, W, b, words: [words[int(k)] for k in (h @ W.T + b).argmax(dim=1)],
)
next_word.wrong(
    "mean_of_the_positions",
    "You mixed the positions. Each row predicts the word after its own position: only the last one "
    "stands where the next word goes.",
    next_word=lambda h, W, b, words: words[int((W @ h.mean(dim=0) + b).argmax())],
)
next_word.wrong(
    "weight_not_transposed",
    "The shapes do not fit: W keeps a row for each word, so a product over features needs W.T "
    "behind h, or W in front of one row of h.",
    next_word=lambda h, W, b, words: words[int((h @ W + b)[-1].argmax())],
)


next_word.wrong(
    "bias_added_to_the_positions",
    "W @ h.T has a row for each word and a column for each position. b, (V,), stands beside the "
    "columns there; beside h @ W.T it gives each word its own.",
    next_word=lambda h, W, b, words: words[int((W @ h.T + b)[:, -1].argmax())],
)
next_word.wrong(
    "in_a_list",
    "The word is right, and it stands in a list. Return the word alone.",
    next_word=lambda h, W, b, words: [words[int((W @ h[-1] + b).argmax())]],
)
next_word.wrong(
    "last_but_one",
    "This row predicts the last word of the sentence, which is known already. The next word is "
    "the last row's.",
    next_word=lambda h, W, b, words: words[int((W @ h[-2] + b).argmax())],
)
next_word.wrong(
    "index_of_the_table",
    "There are only V words, and the index is none of theirs. An argmax over the whole table "
    "counts through all T * V logits: take the last row first.",
    next_word=lambda h, W, b, words: words[int((h @ W.T + b).argmax())],
)
next_word.wrong(
    "along_the_positions",
    "argmax(dim=0) compares positions: it says where in the sentence a word is likeliest. "
    "Compare the words of the last position.",
    next_word=lambda h, W, b, words: words[int((h @ W.T + b).argmax(dim=0)[-1])],
)
next_word.wrong(
    "softmax_over_positions",
    "A softmax over dim 0 compares the positions of the sentence, not its words. The largest logit "
    "of the last row needs no softmax.",
    next_word=lambda h, W, b, words: words[int((h @ W.T + b).softmax(dim=0)[-1].argmax())],
)
next_word.wrong(
    "words_of_the_course",
    "This word is from the course's own list. Row k of W belongs to words[k], and `words` is an "
    "argument.",
    next_word=lambda h, W, b, words: onelayer.grammar.TOKENS[int((W @ h[-1] + b).argmax())],
)
next_word.wrong(
    "largest_magnitude",
    "The sign was dropped. A logit far below zero belongs to a very unlikely word.",
    next_word=lambda h, W, b, words: words[int((W @ h[-1] + b).abs().argmax())],
)
next_word.wrong(
    "second_best",
    "This is the word with the second largest logit. The largest was asked for.",
    next_word=lambda h, W, b, words: words[int((W @ h[-1] + b).topk(2).indices[1])],
)
next_word.wrong(
    "one_row_before",
    "This is the word before the right one. Row k of W belongs to words[k]: both count from 0.",
    next_word=lambda h, W, b, words: words[int((W @ h[-1] + b).argmax()) - 1],
)
next_word.wrong(
    "one_row_behind",
    "This is the word behind the right one. Row k of W belongs to words[k]: both count from 0.",
    next_word=lambda h, W, b, words: words[(int((W @ h[-1] + b).argmax()) + 1) % len(words)],
)
next_word.wrong(
    "weight_turned",
    "The shapes do not fit: W (V, D) has a row for each word already. W @ h[-1] takes it as it is.",
    next_word=lambda h, W, b, words: words[int((W.T @ h[-1] + b).argmax())],
)
next_word.wrong(
    "as_in_the_example",
    "This is the example's word. Another sentence goes on with another one.",
    next_word=lambda h, W, b, words: "ha",
)


@next_word.cost
def _(student: Student, draw: Draw) -> str:
    head, text = onelayer.head(), SENTENCES[0]
    given = (onelayer.hidden(text), head.weight.detach(), head.bias.detach())
    word = student.call("next_word", *given, list(onelayer.grammar.TOKENS))
    return f"{head.weight.numel():,} multiplications to say {word!r} after {text!r}"
