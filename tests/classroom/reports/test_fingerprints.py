"""Answers alike: a copy is found under other names; who merely solved the same is left alone."""

from __future__ import annotations

import random

import pytest

from autograder.classroom.reports.fingerprints import alike, code_tokens, fingerprints, words

STUB = "def row_sums(x):\n    raise NotImplementedError('row_sums')\n"
COPIED = """\
def row_sums(x):
    total = []
    for i in range(x.shape[0]):
        acc = 0.0
        for j in reversed(range(x.shape[1])):
            acc = acc + x[i, j].item() * 1.0
        total.append(acc if acc != 0 else 0.0)
    return torch.tensor(total, dtype=x.dtype)
"""
HIDDEN = """\
# my own work
def row_sums(x):
    results = []   # here they go
    for row in range(x.shape[0]):

        s = 0.0
        for column in reversed(range(x.shape[1])):
            s = s + x[row, column].item() * 1.0
        results.append(s if s != 0 else 0.0)
    print("done")
    return torch.tensor(results, dtype=x.dtype)
"""
SHORT = ["    return x.sum(1)", "    return x.sum(dim=1)", "    return torch.sum(x, 1)",
         "    return x.sum(dim=-1)", "    return x.sum(-1)"]  # fmt: skip
STEPS = ["y = x.clone()", "y = y + 0 * x", "n, m = x.shape", "y = y.contiguous().view(n, m)",
         "assert y.ndim == 2, 'rows'", "ones = torch.ones(m, dtype=x.dtype)",
         "z = torch.einsum('nm,m->n', y, ones)", "z = (y * ones[None, :]).sum(-1)",
         "z = torch.stack([r.sum() for r in y])"]  # fmt: skip


def class_of(size, seed=3):
    """Most write one line, some a few of their own."""
    drawn = random.Random(seed)
    answers = {}
    for number in range(size):
        steps = drawn.sample(STEPS, drawn.randint(0, 4))
        body = "".join(f"    {step}\n" for step in sorted(steps, key=STEPS.index))
        answers[f"s{number:03d}"] = f"def row_sums(x):\n{body}{drawn.choice(SHORT)}\n"
    return answers


def found(answers, *, is_code=True, given=(STUB,)):
    return [(one.one, one.other) for one in alike("q", answers, given, is_code=is_code)]


@pytest.mark.parametrize("size", [2, 30, 300])
def test_a_renamed_copy_is_found_first(size):
    answers = {**class_of(size), "ann": COPIED, "zoe": HIDDEN}
    first, *others = alike("q", answers, [STUB], is_code=True)
    assert (first.one, first.other) == ("ann", "zoe")
    assert first.share > 0.8
    assert {1, 2, 3, 4, 5, 6, 7} <= first.lines[0], "the lines that both have"
    assert len(others) < size / 5, "of those who drew from the same nine lines"


def test_what_the_whole_class_has_is_no_reason():
    answers = {f"s{number}": COPIED for number in range(20)}
    assert found(answers) == []


def test_what_the_release_or_our_solution_says_is_no_reason():
    both = {"ann": COPIED, "zoe": HIDDEN}
    assert found(both) == [("ann", "zoe")]
    assert found(both, given=(STUB, COPIED)) == []
    assert found({"ann": STUB, "zoe": STUB}) == []


def test_a_copied_sentence_in_free_text():
    text = "The view shares its storage, so a write through the one is seen through the other, "
    text += "until somebody asks for a copy with clone, which has floats of its own, "
    more = {
        f"s{i}": f"Number {i} says that both see {i + 1} floats and {i} strides." for i in range(9)
    }
    answers = {**more, "ann": f"{text}always.", "zoe": f"I think: {text.upper()} I am sure."}
    assert found(answers, is_code=False, given=("Why?",)) == [("ann", "zoe")]


@pytest.mark.parametrize("text", ["", "\n", "x", "def f(:\n  '''never ends", "\x00\x00", "é" * 50])
def test_what_is_no_python_is_read_too(text):
    assert fingerprints(code_tokens(text)) is not None
    assert fingerprints(words(text)) is not None
    assert found({"ann": text, "zoe": text}) == []


def test_broken_python_is_still_compared():
    broken = COPIED.replace("def row_sums(x):", "def row_sums(x:")
    assert found({"ann": broken, "zoe": broken.replace("acc", "s")}) == [("ann", "zoe")]


def test_a_name_that_says_what_is_done_counts_and_a_chosen_one_does_not():
    assert [t.text for t in code_tokens("a = b.sum(c)  # d\n")] == [
        "name", "=", "name", ".", "sum", "(", "name", ")"
    ]  # fmt: skip
    assert code_tokens("a\n\nb")[1].line == 2
