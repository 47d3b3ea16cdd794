"""Answers alike: a copy is found under other names; who merely solved the same is left alone."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

import pytest

from autograder.classroom.reports.fingerprints import (
    FEW,
    LEAST,
    MANY,
    WINDOW,
    Alike,
    K,
    Token,
    alike,
    code_tokens,
    fingerprints,
    words,
)

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


def class_of(size: int, seed: int = 3) -> dict[str, str]:
    """Most write one line, some a few of their own."""
    drawn = random.Random(seed)
    answers = {}
    for number in range(size):
        steps = drawn.sample(STEPS, drawn.randint(0, 4))
        body = "".join(f"    {step}\n" for step in sorted(steps, key=STEPS.index))
        answers[f"s{number:03d}"] = f"def row_sums(x):\n{body}{drawn.choice(SHORT)}\n"
    return answers


def found(
    answers: dict[str, str], *, is_code: bool = True, given: Sequence[str] = (STUB,)
) -> list[tuple[str, str]]:
    return [(one.one, one.other) for one in alike("q", answers, given, is_code=is_code)]


@pytest.mark.parametrize("size", [2, 30, 300])
def test_a_renamed_copy_is_found_first(size: int) -> None:
    answers = {**class_of(size), "ann": COPIED, "zoe": HIDDEN}
    first, *others = alike("q", answers, [STUB], is_code=True)
    assert (first.one, first.other) == ("ann", "zoe")
    assert first.share > 0.8
    assert {1, 2, 3, 4, 5, 6, 7} <= first.lines[0], "the lines that both have"
    assert len(others) < size / 5, "of those who drew from the same nine lines"


def test_what_the_whole_class_has_is_no_reason() -> None:
    answers = {f"s{number}": COPIED for number in range(20)}
    assert found(answers) == []


def test_what_the_release_or_our_solution_says_is_no_reason() -> None:
    both = {"ann": COPIED, "zoe": HIDDEN}
    assert found(both) == [("ann", "zoe")]
    assert found(both, given=(STUB, COPIED)) == []
    assert found({"ann": STUB, "zoe": STUB}) == []


def test_a_copied_sentence_in_free_text() -> None:
    text = "The view shares its storage, so a write through the one is seen through the other, "
    text += "until somebody asks for a copy with clone, which has floats of its own, "
    more = {
        f"s{i}": f"Number {i} says that both see {i + 1} floats and {i} strides." for i in range(9)
    }
    answers = {**more, "ann": f"{text}always.", "zoe": f"I think: {text.upper()} I am sure."}
    assert found(answers, is_code=False, given=("Why?",)) == [("ann", "zoe")]


@pytest.mark.parametrize("text", ["", "\n", "x", "def f(:\n  '''never ends", "\x00\x00", "é" * 50])
def test_what_is_no_python_is_read_too(text: str) -> None:
    assert fingerprints(code_tokens(text)) is not None
    assert fingerprints(words(text)) is not None
    assert found({"ann": text, "zoe": text}) == []


def test_broken_python_is_still_compared() -> None:
    broken = COPIED.replace("def row_sums(x):", "def row_sums(x:")
    assert found({"ann": broken, "zoe": broken.replace("acc", "s")}) == [("ann", "zoe")]


def test_a_name_that_says_what_is_done_counts_and_a_chosen_one_does_not() -> None:
    assert [t.text for t in code_tokens("a = b.sum(c)  # d\n")] == [
        "name", "=", "name", ".", "sum", "(", "name", ")"
    ]  # fmt: skip
    assert [t.text for t in code_tokens("return torch.full(range(a), self)")] == [
        "return", "torch", ".", "full", "(", "range", "(", "name", ")", ",", "self", ")"
    ]  # fmt: skip
    assert code_tokens("a\n\nb")[1].line == 2


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        (
            "a = 1\nb\n'''Never ends\nhere\n",
            ["name 0", "= 0", "1 0", "name 1", "never 2", "ends 2", "here 3"],
        ),
        ("'''Never ends\nhere\n", ["never 0", "ends 0", "here 1"]),
    ],
)
def test_from_where_it_is_no_python_its_words_are_read(source: str, tokens: list[str]) -> None:
    assert [f"{one.text} {one.line}" for one in code_tokens(source)] == tokens


def sentence(size: int, name: str = "w") -> str:
    """So many words that nobody else has, a line for each."""
    return "\n".join(f"{name}{number}" for number in range(size))


def winnowed(texts: list[str]) -> dict[int, set[int]]:
    """The definition, written out: of each window of hashes the least, of equal ones the last."""
    hashes = [zlib.crc32("\0".join(texts[i : i + K]).encode()) for i in range(len(texts) - K + 1)]
    windows = [range(s, s + WINDOW) for s in range(len(hashes) - WINDOW + 1)]
    kept = {max(window, key=lambda i: (-hashes[i], i)) for window in windows}
    found: dict[int, set[int]] = {}
    for i in kept:
        found.setdefault(hashes[i], set()).update(range(i, i + K))
    return found


@pytest.mark.parametrize("size", [K + WINDOW - 1, K + WINDOW, 41, 200])
@pytest.mark.parametrize("vocabulary", [1, 3, 1000])
def test_the_fingerprints_are_those_of_the_definition(size: int, vocabulary: int) -> None:
    drawn = random.Random(size)
    texts = [str(drawn.randrange(vocabulary)) for _ in range(size)]
    made = fingerprints([Token(text, line) for line, text in enumerate(texts)])
    assert made == winnowed(texts)


def test_a_text_shorter_than_a_window_has_one_and_one_shorter_than_that_none() -> None:
    sizes = range(K + WINDOW - 1)
    assert [len(fingerprints(words(sentence(n)))) for n in sizes] == [n >= K for n in sizes]


def test_half_a_character_has_a_fingerprint() -> None:
    assert len(fingerprints([Token("\ud800", 0)] * K)) == 1


def texts_alike(answers: dict[str, str]) -> list[Alike]:
    return list(alike("q", answers, [], is_code=False))


def test_a_few_common_words_are_no_reason() -> None:
    told = {}
    for size in range(K, 60):
        number = len(fingerprints(words(sentence(size))))
        told[number] = bool(texts_alike({"ann": sentence(size), "zoe": sentence(size)}))
    assert told == {number: number >= LEAST for number in told}
    assert {LEAST - 1, LEAST} <= set(told)


@pytest.mark.parametrize("size", [FEW + 1, int(6 / MANY)])
def test_what_more_than_a_few_of_the_class_have_is_the_classs(size: int) -> None:
    most = max(FEW, int(MANY * size))
    for holders in (most, most + 1):
        people = {f"a{n}": sentence(40) for n in range(holders)}
        people |= {f"b{n}": sentence(40, f"b{n}x") for n in range(size - holders)}
        assert len(texts_alike(people)) == (most * (most - 1) // 2 if holders == most else 0)


def test_sentences_of_the_same_shape_are_not_alike() -> None:
    """As names they would be one name after the other."""
    assert texts_alike({"ann": sentence(40, "a"), "zoe": sentence(40, "z")}) == []


def test_a_pair_says_how_much_it_shares_where_and_of_what() -> None:
    before = sentence(5, "before")
    [pair] = texts_alike({"zoe": f"{before}\n{sentence(40)}\n{before}", "ann": sentence(40)})
    prints = fingerprints(words(sentence(40)))
    covered = frozenset().union(*prints.values())
    assert (pair.one, pair.other, pair.question) == ("ann", "zoe", "q")
    assert (pair.shared, pair.share) == (len(prints), 1.0)
    assert pair.lines == (covered, frozenset(line + 5 for line in covered))


def test_the_most_striking_come_first_and_equal_ones_by_name() -> None:
    """A short answer that is another one's is more striking than a longer run in two long ones."""
    said = {"zed": sentence(40, "z"), "yan": sentence(40, "z")}
    said |= {"eve": sentence(40, "e"), "dan": sentence(40, "e")}
    said |= {who: f"{sentence(50, 'run')}\n{sentence(400, who)}" for who in ("ann", "bob")}
    found = texts_alike(said)
    assert {(one.one, one.other) for one in found[:2]} == {("dan", "eve"), ("yan", "zed")}
    assert [(one.one, one.other) for one in found[2:]] == [("ann", "bob")]
    assert found[2].shared > max(found[0].shared, found[1].shared)
    assert [one.shared for one in found[:2]] == sorted((f.shared for f in found[:2]), reverse=True)
