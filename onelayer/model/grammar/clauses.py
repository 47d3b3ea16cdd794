"""Clauses: a verb, a tense and a person, said in English and in Spanish.

A clause is a pronoun, an auxiliary where the tense has one, and one form of the verb:
`she has eaten`, `ella ha comido`.
"""

from dataclasses import dataclass

from .verbs import Verb

Clause = tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """A pronoun in both languages, and the column (0 to 5) that it takes in every table of six."""

    english: str
    spanish: str
    column: int


PERSONS = (
    Person("I", "yo", 0),
    Person("you", "tú", 1),
    Person("he", "él", 2),
    Person("she", "ella", 2),
    Person("we", "nosotros", 3),
    Person("you-all", "vosotros", 4),
    Person("they", "ellos", 5),
    Person("they", "ellas", 5),
)


@dataclass(frozen=True)
class Tense:
    """A tense: its mark, the row of the verb's table that each language takes, its auxiliaries.

    The auxiliaries are six words, one for each column, or none.
    """

    mark: str
    english: str
    spanish: str
    english_auxiliary: str = ""
    spanish_auxiliary: str = ""


TENSES = (
    Tense("<present>", "present", "present"),
    Tense("<past>", "past", "past"),
    Tense("<future>", "base", "future", "will will will will will will"),
    Tense(
        "<perfect>",
        "participle",
        "participle",
        "have have has have have have",
        "he has ha hemos habéis han",
    ),
    Tense(
        "<pluperfect>",
        "participle",
        "participle",
        "had had had had had had",
        "había habías había habíamos habíais habían",
    ),
    Tense(
        "<progressive>",
        "gerund",
        "gerund",
        "am are is are are are",
        "estoy estás está estamos estáis están",
    ),
    Tense(
        "<past-progressive>",
        "gerund",
        "gerund",
        "was were was were were were",
        "estaba estabas estaba estábamos estabais estaban",
    ),
)


def english_clause(verb: Verb, tense: Tense, person: Person) -> Clause:
    """`("she", "has", "eaten")`: two or three words."""
    form = verb.english_rows()[tense.english][person.column]
    return (person.english, *_auxiliary(tense.english_auxiliary, person), form)


def spanish_clause(verb: Verb, tense: Tense, person: Person) -> Clause:
    """`("ella", "ha", "comido")`: two or three words."""
    form = verb.spanish_rows()[tense.spanish][person.column]
    return (person.spanish, *_auxiliary(tense.spanish_auxiliary, person), form)


def _auxiliary(six: str, person: Person) -> Clause:
    return (six.split()[person.column],) if six else ()
