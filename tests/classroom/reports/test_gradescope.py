"""A student's verdicts as Gradescope takes them."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.intake.submissions import (
    NO_NOTEBOOK,
)
from autograder.classroom.reports.gradescope import at_once, gradescope, refused
from autograder.classroom.reports.results import Mark, Result
from autograder.judge import State, say
from autograder.selftest import english_in
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    class_of,
    late,
    marked,
    record,
    result,
    verdict,
)

FIRST, SECOND, *OTHERS = LAB.questions

GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": {"enum": ["text", "html", "simple_format", "md", "ansi"]},
        "visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "stdout_visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": {"type": "string"},
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}
"""What https://gradescope-autograders.readthedocs.io/en/latest/specs/ lists under Output format."""


@pytest.mark.parametrize(
    "one",
    [
        result("ada"),
        marked(result("ada"), 4.0),
        replace(result("ada"), reason="It was cut off."),
        *(one for one in class_of(3) if one.grade),
    ],
)
def test_it_is_what_gradescope_takes(one: Result) -> None:
    jsonschema.validate(json.loads(gradescope(one)), GRADESCOPE)


def test_the_schema_would_catch_what_is_not() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tests": [{"points": 3}]}, GRADESCOPE)


def test_it_adds_up_and_lateness_is_told() -> None:
    one = marked(result("ada", record("ada", **{FIRST: verdict(FIRST, State.FAIL)})), 4.0)
    one = late(one, 2.0)
    made = json.loads(gradescope(one))
    assert sum(test["score"] for test in made["tests"]) - 2.0 == made["score"]
    assert made["tests"][-1] == {"name": FREE_TEXT, "score": 4.0, "max_score": 5.0}
    assert made["output"] == "Handed in late: 2 points less, already taken off."
    assert made["tests"][0]["number"] == "1.1"


def test_in_spanish_no_word_of_it_is_english() -> None:
    """Lateness, an earlier hand-in, an open text, and each kind of verdict."""
    wrong = LAB.questions[FIRST].wrong_answers[0]
    failed = verdict(FIRST, State.FAIL, misconception=wrong.name, sentence=wrong.sentence)
    blank = verdict(SECOND, State.FAIL, blank=True)
    looked_at = dict(zip(OTHERS, (State.FLAGGED, State.UNGRADABLE), strict=False))
    held = {name: verdict(name, state) for name, state in looked_at.items()}
    one = result("ada", record("ada", **{FIRST: failed, SECOND: blank, **held}))
    one = replace(late(one, 2.0), reason=NO_NOTEBOOK)
    for language in ("es", "en"):
        made = json.loads(gradescope(one, language))
        told = [made["output"], *(test["output"] for test in made["tests"])]
        texts = "\n".join(told).replace(FREE_TEXT, "")
        left = [word for word in english_in(texts) if word not in LAB.questions]
        assert (left == []) is (language == "es"), left
        assert len(set(told)) == len(told)


def test_no_seed_is_in_it() -> None:
    assert b"77777" in record("ada").to_json().encode()
    assert b"77777" not in gradescope(result("ada"))


def test_what_a_person_gave_counts() -> None:
    one = result("ada", record("ada", **{FIRST: verdict(FIRST, State.FLAGGED)}))
    made = json.loads(gradescope(marked(one, 2.0, f"{FIRST}_check")))
    assert made["tests"][0]["score"] == 2.0


def test_a_question_is_worth_what_the_gradebook_says() -> None:
    one = result("ada")
    assert one.grade is not None
    one.grade.marks[f"{FIRST}_check"] = Mark(6.5, 7.0, False)
    first, *_ = json.loads(gradescope(one))["tests"]
    assert (first["score"], first["max_score"]) == (6.5, 7.0)


def test_the_summary_tells_lateness_an_earlier_hand_in_and_what_is_open() -> None:
    one = result("ada", record("ada", **{FIRST: verdict(FIRST, State.FLAGGED)}))
    assert one.grade is not None
    mark = one.grade.marks[f"{FIRST}_check"]
    one.grade.marks[f"{FIRST}_check"] = replace(mark, is_open=True)
    held = {"cells": f"{FIRST}, {FREE_TEXT}", "points": mark.max_points + 5}
    made = json.loads(gradescope(replace(late(one, 1.5), reason="Cut off.")))
    assert made["output"].splitlines() == [
        say("page.late", penalty="1.5"),
        say("gradescope.earlier", reason="Cut off."),
        say("gradescope.open", **held),
    ]
    assert FREE_TEXT not in [test["name"] for test in made["tests"]]
    assert json.loads(gradescope(marked(result("ada"), 4.0)))["output"] == ""


def test_each_question_is_told_as_it_was_judged() -> None:
    failed = verdict(FIRST, State.FAIL, misconception="transposed", got="3")
    untitled = verdict(SECOND, title="")
    looked_at = dict(zip(OTHERS, (State.FLAGGED, State.UNGRADABLE), strict=False))
    held = {name: verdict(name, state) for name, state in looked_at.items()}
    made = json.loads(
        gradescope(result("ada", record("ada", **{FIRST: failed, SECOND: untitled, **held})))
    )
    by_name = {test["name"]: test for test in made["tests"]}
    assert list(by_name) == list(LAB.questions)
    assert by_name[FIRST]["tags"] == ["transposed"]
    assert by_name[SECOND]["tags"] == []
    assert by_name[SECOND]["number"] == SECOND
    waiting = {n for n, t in by_name.items() if say("gradescope.for_a_person") in t["output"]}
    assert waiting == set(looked_at)
    assert all(say("score", points=t["score"], n=t["max_score"]) in t["output"]
               for t in by_name.values())  # fmt: skip


def test_a_question_that_the_gradebook_does_not_have_yet_counts_as_it_was_judged() -> None:
    one = result("ada")
    assert one.grade is not None
    del one.grade.marks[f"{FIRST}_check"]
    first, *_ = json.loads(gradescope(one))["tests"]
    assert first["score"] == first["max_score"] == LAB.questions[FIRST].points


def test_numbers_have_two_decimals_and_letters_are_letters() -> None:
    one = marked(result("ada"), 1 / 3)
    assert one.record is not None
    made = gradescope(replace(one, record=replace(one.record, wall_s=1 / 3), reason="Sí."))
    told = json.loads(made)
    assert (told["score"], told["execution_time"]) == (round(LAB.max_points + 1 / 3, 2), 0.33)
    assert "Sí." in made.decode()


def test_who_waits_on_gradescope_reads_what_was_judged_at_once() -> None:
    one = result("ada")
    told = {code: json.loads(at_once(one, code) or b"null") for code in ("en", "es")}
    for code, made in told.items():
        assert made == {**json.loads(gradescope(one, code)), "visibility": "visible"}
    assert told["en"] != told["es"]
    assert json.loads(gradescope(one))["visibility"] == "after_published"


@pytest.mark.parametrize(
    "one",
    [
        replace(result("ada"), record=None),
        replace(result("ada"), grade=None),
        replace(result("ada"), reason="It was cut off."),
        result("ada", record("ada", **{FIRST: verdict(FIRST, State.FLAGGED)})),
        result("ada", record("ada", **{FIRST: verdict(FIRST, State.UNGRADABLE)})),
    ],
)
def test_no_score_is_told_at_once_on_which_a_person_has_to_look(one: Result) -> None:
    assert at_once(one) is None


def test_who_cannot_be_graded_reads_why_and_has_no_score() -> None:
    made = json.loads(refused(NAME, "It was cut off."))
    jsonschema.validate(made, GRADESCOPE)
    assert made["output"] == say("gradescope.refused", reason="It was cut off.")
    assert made["tests"] == [{"name": NAME, "status": "failed", "output": "It was cut off."}]
    assert made["visibility"] == "visible"
    assert "score" not in made
    english, spanish = (json.loads(refused(NAME, NO_NOTEBOOK, code)) for code in ("en", "es"))
    assert NO_NOTEBOOK in english["output"]
    assert english["tests"][0]["output"] == NO_NOTEBOOK != spanish["tests"][0]["output"]
