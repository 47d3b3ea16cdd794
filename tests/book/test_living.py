"""The model in the first page gives the words of torch's."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from py_mini_racer import MiniRacer

import onelayer
from autograder.authoring.language import ENGLISH, Language, others
from book import living
from book.unit import ROOT
from onelayer.model import trained
from onelayer.model.gpt import complete
from onelayer.model.grammar import TOKENS, sentences

SENTENCES = [
    "<en>",
    "<en> she has eaten <es> ella",
    "<es> nosotros hablamos <en>",
    "<en> we will speak <es> nosotros hablaremos <end>",
    " ".join(["<end>"] * 16),  # the longest that the model reads
]


@pytest.fixture(scope="module")
def page_model() -> MiniRacer:
    racer = MiniRacer()
    racer.eval((ROOT / "book" / "static" / "living_model.js").read_text("utf-8"))
    racer.eval(f"const model = LivingModel.load({json.dumps(living.script_data())})")
    return racer


def scores(racer: MiniRacer, text: str) -> torch.Tensor:
    tokens = json.dumps([TOKENS.index(word) for word in text.split()])
    rows = json.loads(
        str(racer.eval(f"JSON.stringify(model.hidden({tokens}).map((x) => [...model.scores(x)]))"))
    )
    return torch.tensor(rows)


@pytest.mark.parametrize("text", SENTENCES)
def test_every_score_is_torchs(page_model: MiniRacer, text: str) -> None:
    want = onelayer.head()(onelayer.hidden(text)).detach()
    torch.testing.assert_close(scores(page_model, text), want, rtol=0, atol=1e-4)


def unasked(racer: MiniRacer, words: Iterable[str]) -> Any:
    return racer.eval(f"model.unasked({json.dumps(list(words))})?.toString() ?? null")


def test_a_question_with_two_answers_is_refused_as_torchs_model_refuses_it(
    page_model: MiniRacer,
) -> None:
    assert living.ambiguous()["nosotros hablamos"] == ["we speak", "we spoke"]
    for clause, means in living.ambiguous().items():
        assert len(means) == 2  # the sentence of the page names two
        asked = f"<es> {clause} <en>"
        with pytest.raises(ValueError, match="has no one answer"):
            complete(trained(), [asked])
        for text in (f"<es> {clause}", asked, f"{asked} {means[0]}"):
            assert unasked(page_model, text.split()) == clause


def test_nothing_that_the_model_was_taught_is_refused(page_model: MiniRacer) -> None:
    told = [list(sentence.words) for sentence in sentences()]
    assert page_model.eval(f"{json.dumps(told)}.filter(model.unasked).length") == 0
    assert any("nosotros hablamos" in " ".join(words) for words in told)


@given(st.lists(st.floats(-(2.0**90), 2.0**90, width=32, allow_subnormal=False), min_size=1))
def test_no_weight_moves_by_more_than_half_a_step(values: list[float]) -> None:
    tensor = torch.tensor(values)
    packed = living.packed(tensor)
    racer = MiniRacer()
    script = (ROOT / "book" / "static" / "living_model.js").read_text("utf-8")
    inside = re.sub(r"return \{ load,", "return { unpack, load,", script)
    racer.eval(inside)
    got = json.loads(
        str(racer.eval(f"JSON.stringify([...LivingModel.unpack({json.dumps(packed)})])"))
    )
    worst = (torch.tensor(got, dtype=torch.float64) - tensor.double()).abs().max().item()
    assert worst <= 0.5 * packed["scale"] * (1 + 1e-6)


def test_the_script_holds_words_and_weights(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    living.write(tmp_path)
    text = (tmp_path / "_static" / living.NAME).read_text("utf-8")
    data = json.loads(text.removeprefix("window.LIVING = ").rstrip(";\n"))
    assert data["words"] == list(TOKENS)
    assert sum(len(t["data"]) for t in data["tensors"].values()) < 750_000


def said(language: Language) -> dict[str, Any]:
    every = living.sentences(language)
    return {**every.pop("sentences"), **{f"page.{name}": text for name, text in every.items()}}


def fields(sentence: str | list[str]) -> list[set[str]]:
    forms = [sentence] if isinstance(sentence, str) else sentence
    return [{name for _, name, _, _ in string.Formatter().parse(form) if name} for form in forms]


@pytest.mark.parametrize("language", others(ROOT), ids=lambda one: one.code)
def test_a_language_says_all_that_the_first_page_says(language: Language) -> None:
    english, other = said(ENGLISH), said(language)
    assert other.keys() == english.keys()
    for name, sentence in english.items():
        assert fields(other[name]) == fields(sentence), name
    same = {name for name, sentence in english.items() if other[name] == sentence}
    assert same <= {"rank", "page.ranks", "page.features"}


def test_each_sentence_of_the_first_page_is_said_by_its_script() -> None:
    script = (ROOT / "book" / "static" / "living.js").read_text("utf-8")
    asked = set(re.findall(r'say\("(\w+)"', script)) | {"rank", "rows", "largest", "part"}
    assert asked == living.sentences(ENGLISH)["sentences"].keys()


def test_a_sentence_too_few_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (language,) = (one for one in others(ROOT) if one.code == "es")
    text = (ROOT / "es" / "front.toml").read_text("utf-8")
    (tmp_path / "es").mkdir()
    (tmp_path / "es" / "front.toml").write_text(text.replace("noscript =", "more ="), "utf-8")
    monkeypatch.setattr(living, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"lacks or has too much: \['more', 'noscript'\]"):
        living.sentences(language)


@pytest.mark.parametrize("language", [ENGLISH, *others(ROOT)], ids=lambda one: one.code)
def test_the_parts_of_the_first_page_hold_no_open_field(language: Language) -> None:
    parts = living.parts(language)
    assert set(parts) == {"living.html", "layer.svg"}
    html, told = re.split(r'<script type="application/json"[^>]*>', parts["living.html"])
    assert json.loads(told.partition("</script>")[0]) == living.sentences(language)["sentences"]
    assert "{" not in html + parts["layer.svg"]
