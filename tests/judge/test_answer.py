"""The student's side of a call: what it wrote into, and what it raised, as its author sees it."""

import linecache

import pytest
import torch

from autograder.judge import Cause, Raised, answer, pack, raised_by, text
from autograder.judge.answer import MAX_LINES, MAX_MESSAGE, OURS

CELL = "<cell mine>"


def cell(source, name=CELL):
    """What a cell of the student's defines; its lines are found where tracebacks look."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names = {}
    exec(compile(source, name, "exec"), names)
    return names


def raised(call):
    try:
        call()
    except Exception as error:
        return raised_by(error)
    raise AssertionError("nothing was raised")


def replied(function, *args):
    return answer({"f": function}, "f", pack((args, {})))


def test_the_last_lines_of_the_students_own_are_shown():
    f = cell("def f(n):\n    return f(n - 1) if n else 1 / 0\n\n\ndef g(n):\n    return f(n)\n")
    lines = (6, "return f(n)"), (2, "return f(n - 1) if n else 1 / 0")
    assert raised(lambda: f["g"](0)).lines == lines
    chain = "".join(f"def h{k}():\n    h{k - 1}()\n" for k in range(1, 9))
    shown = raised(cell(f"def h0():\n    1 / 0\n{chain}")["h8"]).lines
    assert MAX_LINES == 6
    assert shown == (*((2 * k + 2, f"h{k - 1}()") for k in range(5, 0, -1)), (2, "1 / 0"))


def test_a_harness_is_not_the_students():
    f = cell("def f():\n    1 / 0\n")["f"]
    run = cell("def run(f):\n    return f()\n", f"<cell {OURS}>")["run"]
    assert raised(lambda: run(f)).lines == ((2, "1 / 0"),)


def test_a_kernels_cell_is_the_students_and_a_library_is_not():
    names = cell("def f():\n    1 / 0\n", "/tmp/ipykernel_7/1.py")
    assert raised(names["f"]).lines == ((2, "1 / 0"),)
    assert raised(cell("def f():\n    1 / 0\n", "/lib/theirs.py")["f"]).lines == ()


def test_an_error_that_says_where_needs_no_lines():
    names = cell("class E(Exception): says_where = True\ndef f():\n    raise E('rank 1, line 3')\n")
    assert raised(names["f"]).lines == ()
    assert raised(names["f"]).message == "rank 1, line 3"


def test_a_message_is_cut():
    assert MAX_MESSAGE == 2_000
    assert raised_by(ValueError("x" * 2_001)).message == "x" * 2_000


def test_only_a_stub_is_blank():
    stub = raised_by(NotImplementedError("Lab 1.2: address"))
    assert (stub.kind, stub.stub) == (Cause.BLANK, "Lab 1.2")
    for error in (
        ValueError("Lab 1.2: address"),
        NotImplementedError("later"),
        NotImplementedError(),
    ):
        assert (raised_by(error).kind, raised_by(error).stub) == (Cause.RAISED, "")
    assert Raised(Cause.BLANK, "NotImplementedError", "later").stub == ""


def test_the_name_that_was_missed():
    assert raised(cell("def f():\n    return helper\n")["f"]).name == "helper"
    assert raised_by(NameError("made by hand")).name == ""
    assert raised_by(UnboundLocalError("local", name="x")).name == ""


def test_what_is_told_of_an_error():
    assert Raised(Cause.RAISED, "ValueError").told == "ValueError"
    assert str(Raised(Cause.RAISED, "ValueError", "no").told) == "ValueError: no"
    assert Raised(Cause.MISSING, "NameError").told == "NameError"
    missing = Raised(Cause.MISSING, "NameError", why=text("missing", function="f"))
    assert missing.told == missing.why
    assert Raised(Cause.RAISED, "ValueError").where == ""
    assert "line 3" in str(Raised(Cause.RAISED, "ValueError", lines=((3, "x"),)).where)


@pytest.mark.parametrize("holder", [dict, list, tuple])
def test_numbers_written_into_an_argument_are_of_its_memory_alone(holder):
    def write(held):
        (held["w"] if holder is dict else held[0]).add_(1)

    w = torch.zeros(2)
    assert set(replied(write, {"w": w} if holder is dict else holder([w])).written) == {0}


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ([1], lambda a: a.__setitem__(0, 2)),
        ([1], lambda a: a.append(2)),
        ({"a": 1}, lambda a: a.update(a=2)),
        ({"a": [1]}, lambda a: a["a"].append(2)),
    ],
)
@pytest.mark.parametrize("beside", [(), (torch.zeros(2),)])
def test_a_list_or_dict_that_was_changed_is_named_by_its_place(given, change, beside):
    written = replied(lambda *args: change(args[-1]), *beside, given).written
    assert written == {-1 - len(beside): b""}


def test_what_a_tensor_is_can_be_changed_too():
    assert replied(lambda t: [t.t_()], torch.zeros(1, 2)).written == {-1: b""}
