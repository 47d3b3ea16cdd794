"""Every sentence that the grammar can say. Three templates, each in two directions:

translate  en-es   <en> she has eaten <es> ella ha comido <end>
translate  es-en   <es> ella ha comido <en> she has eaten <end>
conjugate  en      <en> <perfect> eat she has eaten <end>
conjugate  es      <es> <perfect> comer ella ha comido <end>
analyse    en      <en> she has eaten <perfect> eat <end>
analyse    es      <es> ella ha comido <perfect> comer <end>
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from onelayer.grammar.clauses import PERSONS, TENSES, Clause, Person, Tense
from onelayer.grammar.clauses import english_clause as english
from onelayer.grammar.clauses import spanish_clause as spanish
from onelayer.grammar.verbs import VERBS, Verb
from onelayer.grammar.vocabulary import END, ENGLISH, SPANISH


@dataclass(frozen=True)
class Sentence:
    """One sentence and the five coordinates that name it.

    template: "translate", "conjugate" or "analyse". verb: the English base form. tense: its mark.
    person: the Spanish pronoun, which tells all eight apart.
    direction: "en-es" or "es-en" for a translation, otherwise "en" or "es".
    words: the sentence with its `<end>`. given: how many words pose the task; the rest answer it.
    """

    template: str
    verb: str
    tense: str
    person: str
    direction: str
    words: Clause
    given: int

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def prompt(self) -> Clause:
        """The task: a clause with its language marks, or the tense, verb and pronoun of one."""
        return self.words[: self.given]

    @property
    def answer(self) -> Clause:
        """The words that solve it, `<end>` included."""
        return self.words[self.given :]

    def pairs(self) -> frozenset[tuple[Clause, Clause]]:
        """What a translation shows to mean the same, English first: pronouns, and verb phrases.

        The phrases (has eaten, ha comido) contain the forms (eaten, comido). The other templates
        speak one language and show no pairs.
        """
        if self.template != "translate":
            return frozenset()
        source, target = self.prompt[1:-1], self.answer[:-1]
        here, there = (source, target) if self.direction == "en-es" else (target, source)
        return frozenset({(here[:1], there[:1]), (here[1:], there[1:])})


@cache
def sentences() -> tuple[Sentence, ...]:
    """All sentences, verb by verb, in the order of the tables."""
    return tuple(
        sentence
        for verb in VERBS
        for tense in TENSES
        for person in PERSONS
        for sentence in _sentences(verb, tense, person)
    )


def _sentences(verb: Verb, tense: Tense, person: Person) -> Iterator[Sentence]:
    """The sentences for one cell of the table: at most six, in the order of the list above."""
    here, there = english(verb, tense, person), spanish(verb, tense, person)
    name = (verb.name, tense.mark, person.spanish)

    def say(template: str, direction: str, prompt: Clause, answer: Clause) -> Sentence:
        words = (*prompt, *answer, END)
        return Sentence(template, *name, direction, words, given=len(prompt))

    if _is_default(person):
        yield say("conjugate", "en", (ENGLISH, tense.mark, verb.name, here[0]), here[1:])
        if _to_spanish()[here] == {there}:
            yield say("translate", "en-es", (ENGLISH, *here, SPANISH), there)
            yield say("analyse", "en", (ENGLISH, *here), (tense.mark, verb.name))
    yield say("conjugate", "es", (SPANISH, tense.mark, verb.infinitive, there[0]), there[1:])
    if _to_english()[there] == {here}:
        yield say("translate", "es-en", (SPANISH, *there, ENGLISH), here)
        yield say("analyse", "es", (SPANISH, *there), (tense.mark, verb.infinitive))


def _is_default(person: Person) -> bool:
    """Whether English means this person when it says no more than the pronoun."""
    return next(p for p in PERSONS if p.english == person.english) == person


@cache
def _to_spanish() -> dict[Clause, set[Clause]]:
    """Each English clause with all that it says in Spanish."""
    meanings: dict[Clause, set[Clause]] = defaultdict(set)
    for verb, tense, person in product(VERBS, TENSES, filter(_is_default, PERSONS)):
        meanings[english(verb, tense, person)].add(spanish(verb, tense, person))
    return meanings


@cache
def _to_english() -> dict[Clause, set[Clause]]:
    """Each Spanish clause with all that it says in English; `nosotros hablamos` says two things."""
    meanings: dict[Clause, set[Clause]] = defaultdict(set)
    for verb, tense, person in product(VERBS, TENSES, PERSONS):
        meanings[spanish(verb, tense, person)].add(english(verb, tense, person))
    return meanings
