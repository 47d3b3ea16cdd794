"""The grammar: its forms are right, there are 600 of them, and what is held out is still taught."""

import os
import subprocess
import sys
import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onelayer import grammar
from onelayer.model.grammar.clauses import PERSONS, TENSES, english_clause, spanish_clause
from onelayer.model.grammar.verbs import VERBS, Verb

SENTENCES = grammar.sentences()
BY_NAME = {verb.name: verb for verb in VERBS}
BY_MARK = {tense.mark: tense for tense in TENSES}

# Written from a grammar book, not from the program: yo, tú, él, nosotros, vosotros, ellos.
SPANISH_TABLE = {
    ("go", "<present>"): "voy vas va vamos vais van",
    ("go", "<past>"): "fui fuiste fue fuimos fuisteis fueron",
    ("go", "<future>"): "iré irás irá iremos iréis irán",
    ("come", "<present>"): "vengo vienes viene venimos venís vienen",
    ("come", "<past>"): "vine viniste vino vinimos vinisteis vinieron",
    ("come", "<future>"): "vendré vendrás vendrá vendremos vendréis vendrán",
    ("make", "<past>"): "hice hiciste hizo hicimos hicisteis hicieron",
    ("make", "<future>"): "haré harás hará haremos haréis harán",
    ("say", "<present>"): "digo dices dice decimos decís dicen",
    ("say", "<past>"): "dije dijiste dijo dijimos dijisteis dijeron",
    ("say", "<future>"): "diré dirás dirá diremos diréis dirán",
    ("see", "<present>"): "veo ves ve vemos veis ven",
    ("see", "<past>"): "vi viste vio vimos visteis vieron",
    ("give", "<present>"): "doy das da damos dais dan",
    ("give", "<past>"): "di diste dio dimos disteis dieron",
    ("bring", "<past>"): "traje trajiste trajo trajimos trajisteis trajeron",
    ("sleep", "<past>"): "dormí dormiste durmió dormimos dormisteis durmieron",
    ("play", "<present>"): "juego juegas juega jugamos jugáis juegan",
    ("play", "<past>"): "jugué jugaste jugó jugamos jugasteis jugaron",
    ("begin", "<past>"): "empecé empezaste empezó empezamos empezasteis empezaron",
    ("choose", "<present>"): "elijo eliges elige elegimos elegís eligen",
    ("choose", "<past>"): "elegí elegiste eligió elegimos elegisteis eligieron",
    ("eat", "<perfect>"): "he,comido has,comido ha,comido hemos,comido habéis,comido han,comido",
    ("write", "<pluperfect>"): (
        "había,escrito habías,escrito había,escrito habíamos,escrito habíais,escrito habían,escrito"
    ),
    ("sleep", "<progressive>"): (
        "estoy,durmiendo estás,durmiendo está,durmiendo "
        "estamos,durmiendo estáis,durmiendo están,durmiendo"
    ),
    ("bring", "<past-progressive>"): (
        "estaba,trayendo estabas,trayendo estaba,trayendo "
        "estábamos,trayendo estabais,trayendo estaban,trayendo"
    ),
}
PARTICIPLES = {
    "write": "escrito escribiendo",
    "open": "abierto abriendo",
    "go": "ido yendo",
    "come": "venido viniendo",
    "make": "hecho haciendo",
    "say": "dicho diciendo",
    "see": "visto viendo",
    "give": "dado dando",
    "bring": "traído trayendo",
    "choose": "elegido eligiendo",
}
ENGLISH_TABLE = {
    ("go", "<past>"): "went went went went went went",
    ("go", "<present>"): "go go goes go go go",
    ("teach", "<present>"): "teach teach teaches teach teach teach",
    ("choose", "<perfect>"): (
        "have,chosen have,chosen has,chosen have,chosen have,chosen have,chosen"
    ),
    ("begin", "<progressive>"): (
        "am,beginning are,beginning is,beginning are,beginning are,beginning are,beginning"
    ),
    ("run", "<past-progressive>"): (
        "was,running were,running was,running were,running were,running were,running"
    ),
    ("come", "<future>"): "will,come will,come will,come will,come will,come will,come",
    ("drink", "<pluperfect>"): "had,drunk had,drunk had,drunk had,drunk had,drunk had,drunk",
}
REGULAR = ["speak", "eat", "live", "drink", "run", "sing", "buy", "teach"]
ENDINGS = {
    "ar": ("o as a amos áis an", "é aste ó amos asteis aron", "ado", "ando"),
    "er": ("o es e emos éis en", "í iste ió imos isteis ieron", "ido", "iendo"),
    "ir": ("o es e imos ís en", "í iste ió imos isteis ieron", "ido", "iendo"),
}


def naive(verb: Verb) -> tuple[str, str, str]:
    """A regular verb's rows from its infinitive by the schoolbook's endings."""
    stem, ending = verb.infinitive[:-2], verb.infinitive[-2:]
    present, past, participle, gerund = ENDINGS[ending]
    rows = [" ".join(stem + e for e in row.split()) for row in (present, past)]
    return rows[0], rows[1], f"{verb.infinitive} {stem}{participle} {stem}{gerund}"


# ---- the forms ----


@pytest.mark.parametrize(("verb", "mark"), SPANISH_TABLE)
def test_spanish_forms_are_those_of_the_grammar_book(verb: str, mark: str) -> None:
    said = {
        p.column: ",".join(spanish_clause(BY_NAME[verb], BY_MARK[mark], p)[1:]) for p in PERSONS
    }
    assert " ".join(said[column] for column in range(6)) == SPANISH_TABLE[verb, mark]


@pytest.mark.parametrize(("verb", "mark"), ENGLISH_TABLE)
def test_english_forms_are_those_of_the_grammar_book(verb: str, mark: str) -> None:
    said = {
        p.column: ",".join(english_clause(BY_NAME[verb], BY_MARK[mark], p)[1:]) for p in PERSONS
    }
    assert " ".join(said[column] for column in range(6)) == ENGLISH_TABLE[verb, mark]


@pytest.mark.parametrize("verb", PARTICIPLES)
def test_irregular_participles_and_gerunds(verb: str) -> None:
    assert BY_NAME[verb].spanish.split()[1:] == PARTICIPLES[verb].split()


@pytest.mark.parametrize("name", REGULAR)
def test_regular_verbs_follow_the_rule(name: str) -> None:
    verb = BY_NAME[name]
    assert (verb.present, verb.past, verb.spanish) == naive(verb)


def test_the_rule_tells_regular_from_irregular() -> None:
    irregular = {v.name for v in VERBS if (v.present, v.past, v.spanish) != naive(v)}
    assert irregular == set(BY_NAME) - set(REGULAR)


def test_pronouns_of_both_languages() -> None:
    assert " ".join(p.spanish for p in PERSONS) == ("yo tú él ella nosotros vosotros ellos ellas")
    assert " ".join(p.english for p in PERSONS) == "I you he she we you-all they they"


# ---- the words ----


def test_exactly_600_words_and_all_of_them_are_said() -> None:
    assert len(grammar.TOKENS) == len(set(grammar.TOKENS)) == 600
    assert {word for sentence in SENTENCES for word in sentence.words} == set(grammar.TOKENS)


def test_words_are_single_composed_words() -> None:
    for word in grammar.TOKENS:
        assert word.split() == [word]
        assert unicodedata.is_normalized("NFC", word)


def test_the_rows_of_the_head_keep_their_words() -> None:
    # The shipped weights depend on this order: a change here asks for a new training.
    assert grammar.encode("<end> I he hablo") == [0, 10, 12, 60]


@given(st.lists(st.integers(0, 599)))
def test_decode_then_encode_changes_nothing(indices: list[int]) -> None:
    assert grammar.encode(grammar.decode(indices)) == indices


@pytest.mark.parametrize("text", ["", " ", "\n\t  \r\n"])
def test_no_words_no_tokens(text: str) -> None:
    assert grammar.encode(text) == []


def test_decomposed_accents_are_the_same_word() -> None:
    text = "<es> él comió"
    assert grammar.encode(unicodedata.normalize("NFD", text)) == grammar.encode(text)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("She has eaten", "she"),
        ("ella comio", "comió"),
        ("<EN>", "<en>"),
        ("eaten.", "eaten"),
        ("qqq", "none"),
    ],
)
def test_an_unknown_word_is_named_with_its_neighbours(text: str, near: str) -> None:
    with pytest.raises(grammar.UnknownWordError, match=near) as caught:
        grammar.encode(text)
    assert "600 words" in str(caught.value)


@pytest.mark.parametrize("index", [-1, 600, 10**9])
def test_decode_refuses_what_is_no_token(index: int) -> None:
    with pytest.raises(IndexError, match=str(index)):
        grammar.decode([0, index])


# ---- the sentences ----


@pytest.mark.parametrize(
    "text",
    [
        "<en> she has eaten <es> ella ha comido <end>",
        "<es> ella ha comido <en> she has eaten <end>",
        "<en> <perfect> eat <en> she has eaten <end>",
        "<en> <perfect> eat <es> ella ha comido <end>",
        "<es> <perfect> comer <es> ella ha comido <end>",
        "<es> <perfect> comer <en> she has eaten <end>",
        "<en> she has eaten <en> <perfect> eat <end>",
        "<es> ella ha comido <es> <perfect> comer <end>",
        "<en> we spoke <es> nosotros hablamos <end>",
        "<en> you-all were coming <es> vosotros estabais viniendo <end>",
        "<es> ellas irán <en> they will go <end>",
    ],
)
def test_the_grammar_says(text: str) -> None:
    assert text in {str(sentence) for sentence in SENTENCES}


@pytest.mark.parametrize(
    "text",
    [
        "<es> nosotros hablamos <en> we speak <end>",  # or we spoke
        "<es> nosotros hablamos <es> <past> hablar <end>",  # or the present
        "<en> they ate <es> ellas comieron <end>",  # or ellos
    ],
)
def test_the_grammar_never_asks_what_has_two_answers(text: str) -> None:
    assert text not in {str(sentence) for sentence in SENTENCES}


def test_sentences_and_their_names_are_unique() -> None:
    names = {(s.template, s.verb, s.tense, s.person, s.direction) for s in SENTENCES}
    assert len(names) == len({s.words for s in SENTENCES}) == len(SENTENCES)


def test_prompt_and_answer_make_the_sentence() -> None:
    for sentence in SENTENCES:
        assert sentence.prompt + sentence.answer == sentence.words
        assert sentence.words.count(grammar.END) == 1 == sentence.answer.count(grammar.END)
        assert sentence.words[-1] == grammar.END


# ---- what the grammar determines ----


def test_following_agrees_with_a_search_through_all_sentences() -> None:
    for sentence in SENTENCES[::97]:
        for i in range(len(sentence.words) + 1):
            prefix = sentence.words[:i]
            want = {s.words[i] for s in SENTENCES if len(s.words) > i and s.words[:i] == prefix}
            assert grammar.following(prefix) == want


def test_every_word_of_a_translation_is_determined() -> None:
    translations = [s for s in SENTENCES if s.template == "translate"]
    assert len(translations) > 2000
    for sentence in translations:
        assert all(grammar.determined(sentence.words)[sentence.given :]), str(sentence)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 2),  # <en> or <es>
        ("<en>", 14),  # 7 pronouns or 7 tenses
        ("<en> she has", 22),  # participles
        ("<en> she has eaten", 2),  # translate or analyse
        ("<en> she has eaten <es>", 1),
        ("<es> nosotros hablamos", 0),  # a question that is never asked
        ("she", 0),
        ("<en> she has eaten <es> ella ha comido <end>", 0),
    ],
)
def test_how_many_words_can_follow(text: str, count: int) -> None:
    assert len(grammar.following(text.split())) == count


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("<es> nosotros hablamos <en>", {"we speak", "we spoke"}),
        ("<es> nosotros comemos <en>", {"we eat"}),
        ("<es> <past> hablar <en>", set()),
        ("<en> we speak <es>", set()),
        ("", set()),
    ],
)
def test_what_a_spanish_question_may_mean(text: str, means: set[str]) -> None:
    assert grammar.readings(text.split()) == means


def test_no_question_of_the_grammar_means_two_things() -> None:
    asked = [s for s in grammar.sentences() if s.template != "conjugate"]
    assert asked
    assert max(len(grammar.readings(s.prompt)) for s in asked) == 1


def test_only_what_follows_the_task_is_determined_in_a_translation() -> None:
    words = ("<en>", "she", "has", "eaten", "<es>", "ella", "ha", "comido", "<end>")
    assert grammar.determined(words) == [False] * 5 + [True] * 4
    words = ("<es>", "<perfect>", "comer", "<es>", "ella", "ha", "comido", "<end>")
    assert grammar.determined(words) == [False] * 5 + [True] * 3


# ---- what is held out ----


def untaught(train: tuple[grammar.Sentence, ...]) -> set[object]:
    """Words and pairs of the whole grammar that no sentence of `train` asks for or shows."""
    everything = {thing for s in SENTENCES for thing in (*s.words[1:], *s.pairs())}
    return everything - {thing for s in train for thing in (*s.words[1:], *s.pairs())}


@pytest.mark.parametrize("seed", [0, 1, 2026])
def test_nothing_held_out_is_left_untaught(seed: int) -> None:
    data = grammar.split(seed)
    assert untaught(data.train) == set()
    read = {word for s in data.train for word in s.prompt}
    asked = {word for s in data.train for word in s.answer}
    for sentence in data.held_out:
        assert read.issuperset(sentence.prompt)
        assert asked.issuperset(sentence.answer)


def test_every_word_is_asked_for_in_training() -> None:
    asked = {word for s in grammar.split().train for word in s.words[1:]}
    assert asked == set(grammar.TOKENS)


def test_pairs_of_single_forms_are_all_taught() -> None:
    def forms(sentences: tuple[grammar.Sentence, ...]) -> set[tuple[str, str]]:
        return {(en[-1], es[-1]) for s in sentences for en, es in s.pairs()}

    assert ("eaten", "comido") in forms(SENTENCES)
    assert ("she", "ella") in forms(SENTENCES)
    assert forms(grammar.split().train) == forms(SENTENCES)


def test_the_check_notices_a_careless_split() -> None:
    without_one = tuple(s for s in SENTENCES if "abierto" not in s.words)
    assert "abierto" in untaught(without_one)
    one_pair_less = tuple(s for s in SENTENCES if (("ate",), ("comí",)) not in s.pairs())
    assert untaught(one_pair_less) == {(("ate",), ("comí",))}


def test_the_split_is_a_split() -> None:
    data = grammar.split()
    assert len(data.train) + len(data.held_out) == len(SENTENCES)
    assert set(data.train) | set(data.held_out) == set(SENTENCES)
    assert not {s.words for s in data.train} & {s.words for s in data.held_out}
    assert len(data.held_out) == pytest.approx(len(SENTENCES) / 10, abs=1)


@pytest.mark.parametrize("field", ["template", "verb", "tense", "person", "direction"])
def test_every_kind_of_sentence_is_held_out_somewhere(field: str) -> None:
    counts: dict[str, int] = defaultdict(int)
    for sentence in grammar.split().held_out:
        counts[getattr(sentence, field)] += 1
    assert set(counts) == {getattr(s, field) for s in SENTENCES}
    assert min(counts.values()) >= 10


def test_another_seed_another_split() -> None:
    assert set(grammar.split(0).held_out) != set(grammar.split(1).held_out)


def test_the_split_does_not_depend_on_the_process() -> None:
    program = "from onelayer import grammar; print(repr(grammar.split(0)))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].decode().strip() == repr(grammar.split(0))
