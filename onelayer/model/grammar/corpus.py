"""Every sentence that the grammar can say. All have one form: `<from> task <to> answer <end>`.

translate  en-es   <en> she has eaten <es> ella ha comido <end>
translate  es-en   <es> ella ha comido <en> she has eaten <end>
analyse    en-en   <en> she has eaten <en> <perfect> eat <end>
analyse    es-es   <es> ella ha comido <es> <perfect> comer <end>
conjugate  en-en   <en> <perfect> eat <en> she has eaten <end>
conjugate  es-es   <es> <perfect> comer <es> ella ha comido <end>
conjugate  en-es   <en> <perfect> eat <es> ella ha comido <end>
conjugate  es-en   <es> <perfect> comer <en> she has eaten <end>
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from .clauses import PERSONS, TENSES, Clause, Person, Tense
from .clauses import english_clause as english
from .clauses import spanish_clause as spanish
from .verbs import VERBS, Verb
from .vocabulary import END, ENGLISH, SPANISH


@dataclass(frozen=True)
class Sentence:
    """One sentence and the five coordinates that name it.

    template: "translate", "conjugate" or "analyse". verb: the English base form. tense: its mark.
    person: the Spanish pronoun, which tells all eight apart.
    direction: the languages of task and answer, as in "en-es".
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
        """The task and the mark of the answer's language; a conjugation also gives the pronoun."""
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
    """The sentences for one cell of the table: at most eight, one of each kind."""
    here, there = english(verb, tense, person), spanish(verb, tense, person)
    base, infinitive = (tense.mark, verb.name), (tense.mark, verb.infinitive)

    def say(template: str, task: Clause, answer: Clause, *, given: int = 0) -> Sentence:
        direction = f"{task[0]}-{task[-1]}".replace("<", "").replace(">", "")
        words = (*task, *answer, END)
        name = (template, verb.name, tense.mark, person.spanish, direction)
        return Sentence(*name, words, given=len(task) + given)

    yield say("conjugate", (SPANISH, *infinitive, SPANISH), there, given=1)
    yield say("conjugate", (ENGLISH, *base, SPANISH), there, given=1)
    if to_english()[there] == {here}:
        yield say("translate", (SPANISH, *there, ENGLISH), here)
        yield say("analyse", (SPANISH, *there, SPANISH), infinitive)
    if _is_default(person):
        yield say("conjugate", (ENGLISH, *base, ENGLISH), here, given=1)
        yield say("conjugate", (SPANISH, *infinitive, ENGLISH), here, given=1)
        if _to_spanish()[here] == {there}:
            yield say("translate", (ENGLISH, *here, SPANISH), there)
            yield say("analyse", (ENGLISH, *here, ENGLISH), base)


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
def to_english() -> dict[Clause, set[Clause]]:
    """Each Spanish clause with all that it says in English; `nosotros hablamos` says two things."""
    meanings: dict[Clause, set[Clause]] = defaultdict(set)
    for verb, tense, person in product(VERBS, TENSES, PERSONS):
        meanings[spanish(verb, tense, person)].add(english(verb, tense, person))
    return meanings
