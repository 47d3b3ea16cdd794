"""What a lab's cell says where an answer above it is blank, or stops it."""

from __future__ import annotations

import pytest

from autograder import answered
from autograder.judge import in_language

STUB = "Lab 0.5: flops_per_byte, about 3 lines"


def said(capsys: pytest.CaptureFixture[str], error: BaseException | None) -> str:
    with answered():
        if error is not None:
            raise error
    out, err = capsys.readouterr()
    assert not err
    return out


def test_an_answer_that_is_there_is_used_and_nothing_is_said(capsys):
    assert said(capsys, None) == ""


def test_a_blank_one_is_named(capsys):
    assert said(capsys, NotImplementedError(STUB)) == "Answer 0.5 first.\n"
    with in_language("es"):
        assert said(capsys, NotImplementedError(STUB)) == "Responde antes la 0.5.\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TypeError("no\nnumber"), "TypeError: no"),
        (NotImplementedError("no kernel"), "NotImplementedError: no kernel"),
        (NotImplementedError(), "NotImplementedError"),
        (ZeroDivisionError("\x1b[2J"), "ZeroDivisionError:  [2J"),
    ],
    ids=str,
)
def test_one_that_stops_the_cell_is_one_line_and_the_next_cell_runs(capsys, error, words):
    start = "This cell goes on with an answer above, and stopped; the answer's check says more. "
    assert said(capsys, error) == f"{start}{words}\n"


def test_an_error_of_a_thousand_words_is_cut(capsys):
    assert len(said(capsys, ValueError("x" * 9_999))) < 500


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whoever_stops_a_cell_stops_it(error):
    with pytest.raises(error), answered():
        raise error
