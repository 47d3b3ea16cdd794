"""Asking: what a verdict says of an answer, of a stub, of a fault of ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autograder.judge import (
    Cause,
    Draw,
    GraderFault,
    Lab,
    LocalStudent,
    Packed,
    Question,
    Reply,
    State,
    Student,
    Verdict,
    Wrong,
    ask,
    expect_close,
    expect_equal,
    expect_view,
    pack,
    text,
)
from autograder.judge.answer import Raised
from autograder.judge.ask import unasked
from autograder.judge.flagged import NotAdmitted
from autograder.judge.student import MOST_LINES
from tests.judge.small_questions import HINTS, judged, judged_sum, sum_question, transpose_question


def test_a_right_answer_earns_all_points() -> None:
    verdict = judged(lambda x: x.mT.contiguous())
    assert (verdict.state, verdict.points, verdict.max_points) == (State.PASS, 3, 3)
    assert verdict.sentence == verdict.misconception == ""


def test_it_is_the_failing_call_that_returned_nothing() -> None:
    """Not one that was asked afterwards, to tell two known mistakes apart."""
    lab = Lab("07_test", "A lab for tests")

    @lab.question("same", points=1, minutes=1, difficulty=1, hints=HINTS)
    def same(student: Student, draw: Draw) -> None:
        """n -> n."""
        for n in (1, 2, 3):
            expect_equal(student.call("same", n), n)

    same.wrong("nothing", "Nothing came.")(lambda n: None)
    same.wrong("late", "The third is another.")(lambda n: n + (n == 3))
    verdict = ask(same, LocalStudent({"same": lambda n: None if n == 1 else n + 7}), seed=1)
    assert (verdict.misconception, verdict.sentence) == ("", text("no_return"))


@pytest.mark.parametrize("kind", ["none", "raised"])
def test_what_is_no_value_at_all_is_told_so(kind: str) -> None:
    verdict = judged(lambda x: x / "two" if kind == "raised" else None)
    assert verdict.expected == (text("no_error") if kind == "raised" else verdict.expected)
    assert verdict.sentence == (text("no_return") if kind == "none" else "")


def test_an_error_that_says_where_it_happened_is_not_told_where_it_was_raised() -> None:
    class Elsewhere(RuntimeError):
        says_where = True

    def far(x: Any) -> Any:
        raise Elsewhere("rank 1 raised ValueError: line 3, in step")

    verdict = judged(far)
    assert verdict.got.facts["message"] == "rank 1 raised ValueError: line 3, in step"
    assert verdict.where == ""


def test_the_same_seed_asks_the_same_and_another_asks_something_else() -> None:
    def wrong(x: torch.Tensor) -> int:
        return 0

    assert judged(wrong).asked == judged(wrong).asked
    asked = {
        ask(transpose_question(), LocalStudent({"swap": wrong}), seed=s).asked for s in range(9)
    }
    assert len(asked) > 1


def test_more_rounds_ask_more() -> None:
    student = LocalStudent({"swap": lambda x: x.mT})
    ask(transpose_question(), student, seed=1)
    once = len(student.calls)
    ask(transpose_question(), student, seed=1, rounds=4)
    assert len(student.calls) == 4 * once


def test_a_stub_is_not_answered_rather_than_wrong() -> None:
    def stub(x: torch.Tensor) -> None:
        raise NotImplementedError("Lab 7.1: swap, about 1 line")

    verdict = judged(stub)
    assert verdict.cause is Cause.BLANK
    assert verdict.sentence == text("not_answered", title="Lab 7.1")
    assert verdict.asked == verdict.got == ""


def test_a_stub_that_the_answer_calls_is_not_the_answers_own() -> None:
    def calls_another(x: torch.Tensor) -> None:
        raise NotImplementedError("Lab 7.10: other, about 2 lines")

    verdict = judged(calls_another)
    assert (verdict.cause, verdict.sentence) == (Cause.RAISED, text("calls_a_stub"))
    assert verdict.got.facts["message"] == "Lab 7.10: other, about 2 lines"


def test_an_operator_without_a_kernel_is_wrong_and_no_stub() -> None:
    def kernel_missing(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(2, 3, device="meta").cpu()

    verdict = judged(kernel_missing)
    assert verdict.cause is Cause.RAISED
    assert verdict.got.facts["error"] == "NotImplementedError"


def test_an_operator_without_a_kernel_and_without_a_word_is_no_stub_either() -> None:
    def silent(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    verdict = judged(silent)
    assert (verdict.cause, verdict.mark) == (Cause.RAISED, "fail")
    assert verdict.asked.startswith("x (")


def test_a_function_that_is_not_there_is_missing() -> None:
    verdict = ask(transpose_question(), LocalStudent({}), seed=1)
    assert (verdict.cause, verdict.got) == (Cause.MISSING, text("missing", function="swap"))


def test_an_answer_that_writes_into_its_input_is_told_which() -> None:
    verdict = judged(lambda x: x.zero_())
    assert verdict.cause is Cause.WROTE_INPUT
    assert verdict.got == text("overwritten", name="x")


def test_what_is_no_answer_is_told_what_it_is() -> None:
    verdict = judged(lambda x: {1, 2})
    assert verdict.cause is Cause.UNSENDABLE
    assert verdict.got.facts["message"].facts["what"] == text("unsendable.kind", kind="set")


def test_a_name_that_nobody_defined_is_a_fact() -> None:
    student = LocalStudent({"swap": lambda x: undefined_name})  # noqa: F821
    assert ask(transpose_question(), student, seed=1).cause is Cause.RAISED
    assert student.calls[-1].outcome.name == "undefined_name"


def test_a_nan_never_passes() -> None:
    verdict = judged(lambda x: x.mT * float("nan"))
    assert verdict.state is State.FAIL


@pytest.mark.parametrize(
    "lie", [lambda x: x.mT[None], lambda x: x.mT.double(), lambda x: x.mT[:0], lambda x: True]
)
def test_another_shape_or_dtype_never_passes(lie: Any) -> None:
    assert judged(lie).state is State.FAIL


def broken_question(check: Any) -> Question:
    return Lab("07_test", "").question("q", points=1, minutes=1, difficulty=1, hints=HINTS)(check)


def test_a_fault_of_the_check_is_ungradable_and_costs_nothing() -> None:
    def check(student: Student, draw: Draw) -> None:
        raise ZeroDivisionError("ours")

    verdict = ask(broken_question(check), LocalStudent({}), seed=0)
    assert (verdict.cause, verdict.state) == (Cause.CHECK_FAULT, State.UNGRADABLE)
    assert verdict.sentence == text("check_fault", error="ZeroDivisionError", message="ours")


def test_a_check_that_asks_nothing_is_a_fault() -> None:
    verdict = ask(broken_question(lambda student, draw: None), LocalStudent({}), seed=0)
    assert verdict.state is State.UNGRADABLE


def test_a_fault_of_the_machine_is_ungradable() -> None:
    class Gone(Student):
        def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
            raise GraderFault("the jail is gone")

    verdict = ask(transpose_question(), Gone(), seed=0)
    assert (verdict.cause, verdict.state) == (Cause.GRADER_FAULT, State.UNGRADABLE)
    assert verdict.sentence == text("grader_fault", reason="the jail is gone")


def test_asking_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    judged(lambda x: x.mT)
    assert torch.get_rng_state().equal(before)


def test_answers_that_fill_the_memory_are_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.judge.student.MAX_BYTES", 4_000)
    verdict = judged(lambda x: x.mT.repeat(1, 1).expand(9, *x.mT.shape).clone()[0], rounds=9)
    assert verdict.cause is Cause.UNSENDABLE
    assert verdict.got.facts["message"] == text("answers_too_large")


def test_failing_only_where_the_cost_is_measured_costs_the_cost_line() -> None:
    question = transpose_question()

    @question.cost
    def _(student: Student, draw: Draw) -> str:
        return str(student.call("swap", "no tensor"))

    verdict = ask(question, LocalStudent({"swap": lambda x: x.mT}), seed=1)
    assert (verdict.state, verdict.cost) == (State.PASS, "")


def test_what_only_the_students_process_can_tell_is_marked() -> None:
    lab = Lab("00_told", "Told")

    @lab.question("same", points=1, minutes=1, difficulty=1, hints=("", "", ""))
    def same(student: Student, draw: Draw) -> None:
        expect_view(student.call("same", x := draw.tensor(3)), x)

    @lab.question("plus", points=1, minutes=1, difficulty=1, hints=("", "", ""), may_write=True)
    def plus(student: Student, draw: Draw) -> None:
        expect_close(student.call("plus", x := draw.tensor(3)), x + 1)

    @lab.question("four", points=1, minutes=1, difficulty=1, hints=("", "", ""))
    def four(student: Student, draw: Draw) -> None:
        expect_equal(student.call("four", 2), 4)

    student = LocalStudent({"same": lambda x: x, "plus": lambda x: x + 1, "four": lambda n: 2 * n})
    told = {question.name: ask(question, student, seed=1) for question in lab}
    assert {verdict.state for verdict in told.values()} == {State.PASS}
    assert told["four"].witnessed == told["plus"].witnessed == ()
    assert told["same"].witnessed == ("not_written", "shared")
    assert Verdict.from_mapping(json.loads(told["same"].to_json())) == told["same"]


def test_a_verdict_says_where_the_answer_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU; on a GPU that the CPU plays; on the GPU that a notebook's own process has."""
    lab = Lab("07_test", "A lab for tests")
    for name, simulated in (("here", False), ("there", True)):

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS, simulated=simulated)
        def one(student: Student, draw: Draw, name: str = name) -> None:
            expect_equal(student.call(name), 1)

    here, there = lab
    answers = LocalStudent({"here": lambda: 1, "there": lambda: 1})
    assert ask(here, answers, seed=1).place.startswith("on cpu, torch")
    assert ask(there, answers, seed=1).device == "simulated"
    assert ask(there, answers, seed=1).place.startswith("on a simulated GPU, torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU 9000")
    assert ask(there, answers, seed=1).place.startswith("on GPU 9000, torch")
    assert ask(here, answers, seed=1).device == "cpu"


def test_code_that_raised_is_told_its_line_and_no_nudge() -> None:
    """A nudge is for who has an answer; here there is none yet."""
    names: dict[str, object] = {}
    exec(
        compile("def swap(x):\n    y = x.mT\n    return y.no_such_name\n", "<cell 3>", "exec"),
        names,
    )
    verdict = ask(transpose_question(), LocalStudent(names), seed=1)
    assert verdict.cause is Cause.RAISED
    assert verdict.sentence == text("your_code_raised", line=3)
    assert verdict.next_step == ""
    assert "Your code raised, line 3" in str(verdict)
    assert "hint(" not in str(verdict)


def test_a_program_that_was_asked_stands_in_its_lines_behind_all_else() -> None:
    def of_text(source: str) -> str:
        question = sum_question([(source, "2")])
        question.wrong("a", "A.", add=lambda source, n: 0)
        return str(judged_sum(question, lambda source, n: 0).asked)

    lines = "\n│ \n│ def f(x):\n│     return x"
    assert of_text("\ndef f(x):\n    return x\n") == f"n '2'\nsource:{lines}"
    assert of_text("x\r\n\u2028y") == "n '2'\nsource:\n│ x\n│ \n│ y"  # wherever a line may end
    assert of_text("one line\n") == "source 'one line\\n', n '2'"
    whole = "\n".join(["x"] * MOST_LINES)
    assert of_text(whole).count("\n│ x") == MOST_LINES
    assert of_text(f"{whole}\ny").startswith("source 'x\\nx")
    assert MOST_LINES == 32  # what fits a screen
    assert of_text("x\ny").endswith("source:\n│ x\n│ y")
    longest = f"x\n{'y' * (32 * 100 - 2)}"
    assert of_text(longest).endswith("y" * 3000)
    assert of_text(f"{longest}y").startswith("source 'x\\nyy")


def test_a_list_that_is_too_long_for_a_line_stands_entry_by_entry() -> None:
    def of(given: Any, *beside: int) -> str:
        question = Question(
            "add",
            "Lab 0.1",
            lambda student, draw: expect_equal(student.call("add", given, *beside), 0),
            points=1,
            minutes=1,
            difficulty=1,
            hints=HINTS,
        )
        question.wrong("a", "A.", add=lambda rows, n=0: 0)
        return str(judged_sum(question, lambda rows, n=0: 1).asked)

    rows = [("a" * 50, k) for k in range(3)]
    each = "".join(f"\n│ ('{'a' * 50}', {k})" for k in range(3))
    assert of(rows, 7) == of(tuple(rows), 7) == f"n 7\nrows:{each}"
    assert of(rows) == f"rows:{each}"
    assert of(rows[:2], 7) == f"rows {rows[:2]}, n 7"
    fits = ["a" * 76, "b" * 76]
    assert len(str(fits)) == 160
    assert of(fits).startswith("rows ['a")
    assert of([f"{fits[0]}a", fits[1]]).startswith("rows:\n│ 'a")
    many = {f"{'b' * 50}\n{k}": [k] for k in range(MOST_LINES)}
    assert of(many).splitlines()[1:3] == [f"│ '{'b' * 50}\\n{k}': [{k}]" for k in range(2)]
    assert len(of(many).splitlines()) == 1 + MOST_LINES
    assert of({**many, "c": [0]}).startswith(f"rows {{'{'b' * 50}\\n0': [0], ")
    assert of(["d" * 200]).startswith("rows ['dd")  # one entry is no list of entries


def test_a_wrong_answer_keeps_its_nudge() -> None:
    assert judged(lambda x: x + 1).next_step


def test_what_was_asked_is_told_by_the_names_of_the_known_answers() -> None:
    question = sum_question([(1, 2), (3, 4)])
    wrong = judged_sum(question, lambda a, b: a + b + (a == 3))
    assert (wrong.asked, wrong.next_step, wrong.misconception) == ("3, 4", HINTS[0], "")
    question.wrong("first", "Only the first.", add=lambda first: first)
    assert judged_sum(question, lambda a, b: a).asked == "first 1, 2"
    question.wrong_answers.clear()
    question.wrong("other", "Another function.", other=lambda x, y: 0)
    question.wrong("first", "Only the first.", add=lambda first, second, third=0: first)
    assert judged_sum(question, lambda a, b: 0).asked == "first 1, second 2"
    question.wrong_answers.clear()
    question.wrong("all", "All in one.", add=lambda *numbers, **more: 0)
    assert judged_sum(question, lambda a, b: 0).asked == "1, 2"
    bare = judged_sum(sum_question([(1, 2)], hints=()), lambda a, b: 0)
    assert (bare.cause, bare.next_step) == (Cause.WRONG, "")


def test_an_argument_that_was_written_is_called_as_the_known_answers_call_it() -> None:
    def check(student: Student, draw: Draw) -> None:
        student.call("add", torch.ones(2), torch.ones(2), w=torch.ones(2))

    question = Question(
        "add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=("", "", "")
    )
    answers = {
        "x": lambda x, y, w: x.add_(1),
        "argument": lambda x, y, w: y.add_(1),
        "w": lambda x, y, w: w.add_(1),
    }
    question.wrong("only_x", "It has one.", add=lambda x: x)
    for name, answer in answers.items():
        verdict = judged_sum(question, answer)
        said = text("argument", place=2) if name == "argument" else name
        assert verdict.cause is Cause.WROTE_INPUT
        assert verdict.expected == text("as_it_was", name=said)
        assert verdict.got == text("overwritten", name=said)
        assert verdict.sentence == text("wrote_input")


def test_a_verdict_holds_how_it_came_about() -> None:
    verdict = judged_sum(sum_question([(1, 2)]), lambda a, b: a + b)
    assert (verdict.question, verdict.title, verdict.seed) == ("add", "Lab 0.1", 5)
    assert (verdict.points, verdict.max_points, verdict.evidence) == (2, 2, "computed")
    assert (verdict.tier, verdict.torch, verdict.device) == ("notebook", torch.__version__, "cpu")
    assert (verdict.cost, verdict.asked, verdict.witnessed) == ("", "", ())
    assert verdict.wall_s > 0
    assert 0 <= verdict.cpu_s < 60
    told = sum_question([(1, 2)], witnessed=True)
    assert judged_sum(told, lambda a, b: a + b).evidence == "witnessed"
    later = unasked(told, seed=3, tier="x")
    assert (later.cause, later.points, later.max_points) == (Cause.PUT_OFF, 0, 2)
    assert (later.question, later.title, later.seed, later.tier) == ("add", "Lab 0.1", 3, "x")


def test_its_cost_is_asked_with_the_same_seed() -> None:
    question, seeds = sum_question([(1, 2)]), []

    @question.cost
    def _(student: Student, draw: Draw) -> str:
        seeds.append(draw.seed)
        return f"{student.call('add', 2, 3)} us"

    assert judged_sum(question, lambda a, b: a + b).cost == "5 us"
    assert seeds == [5]
    assert judged_sum(question, lambda a, b: 0).cost == ""  # a wrong answer has none
    assert seeds == [5]


def test_a_budget_of_the_question_is_the_students() -> None:
    begun: list[dict[str, Any]] = []

    class Noted(LocalStudent):
        device = "GPU 9000"

        def begin(self, **options: Any) -> None:
            begun.append(options)
            super().begin(may_write=options["may_write"])

    options: list[tuple[dict[str, Any], str]] = [
        ({}, "GPU 9000"),
        ({"budget_s": 7.0, "may_write": True}, "GPU 9000"),
        ({"host": "It is about the CPU."}, "cpu"),
        ({"simulated": True}, "simulated"),
        ({"simulated": True, "host": "Both."}, "cpu"),
        ({"device_share": 0.5}, "GPU 9000"),
    ]
    for one, device in options:
        verdict = ask(sum_question([(1, 2)], **one), Noted({"add": lambda a, b: a + b}), seed=1)
        assert verdict.device == device
    keys = ("may_write", "budget_s", "on_host", "device_share")
    assert [tuple(one[key] for key in keys) for one in begun] == [
        (False, None, False, 0.0),
        (True, 7.0, False, 0.0),
        (False, None, True, 0.0),
        (False, None, True, 0.0),
        (False, None, True, 0.0),
        (False, None, False, 0.5),
    ]


def test_the_calls_of_a_check_that_fails_itself_are_no_verdict() -> None:
    verdict = judged_sum(sum_question([("a", 2)]), lambda a, b: 0)
    assert verdict.cause is Cause.CHECK_FAULT
    assert verdict.sentence.facts["error"] == "TypeError"  # type: ignore[union-attr]
    assert "str" in verdict.sentence.facts["message"]  # type: ignore[union-attr]
    assert verdict.points == 0


class Elsewhere(Student):
    """A student in another process, which replies this to every call."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        return [self.reply for _ in requests]


def test_a_kernel_ran_where_the_students_process_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not on the grader's own GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU of the grader")
    student = Elsewhere(Reply(pack(3)))
    student.kernels_on = "GPU 9000"
    verdict = ask(sum_question([(1, 2)], simulated=True), student, seed=1)
    assert (verdict.state, verdict.device) == (State.PASS, "GPU 9000")


def test_an_answer_out_of_time_is_no_value_and_no_line_raised() -> None:
    raised = Raised(Cause.TIMED_OUT, "TimeoutError", "no answer", ((3, "while True:"),))
    verdict = ask(sum_question([(1, 2)]), Elsewhere(Reply(raised)), seed=1)
    assert (verdict.cause, verdict.expected) == (Cause.TIMED_OUT, text("a_value"))
    assert verdict.sentence == ""


def test_a_stub_that_was_called_is_told_and_not_its_line() -> None:
    names: dict[str, Any] = {}
    source = (
        "def other(): raise NotImplementedError('Lab 0.9: other')\ndef add(a, b): return other()"
    )
    exec(compile(source, "<cell add>", "exec"), names)
    verdict = ask(sum_question([(1, 2)]), LocalStudent(names), seed=1)
    assert (verdict.cause, verdict.sentence) == (Cause.RAISED, text("calls_a_stub"))


def test_time_is_what_went_by(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = iter((100.0, 103.0)), iter((50.0, 50.5))
    clock = SimpleNamespace(monotonic=lambda: next(wall), process_time=lambda: next(cpu))
    monkeypatch.setitem(ask.__globals__, "time", clock)
    verdict = judged_sum(sum_question([(1, 2)]), lambda a, b: a + b)
    assert (verdict.wall_s, verdict.cpu_s) == (3.0, 0.5)


def test_what_is_flagged_says_why_and_where_and_teaches_nothing() -> None:
    def check(student: Student, draw: Draw) -> None:
        student.call("add", 1, 2)
        raise NotAdmitted(3, "import os", "it imports what no answer here needs")

    question = Question("add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)
    verdict = judged_sum(question, lambda a, b: None)
    assert (verdict.cause, verdict.points, verdict.asked) == (Cause.NOT_ADMITTED, 0, "1, 2")
    assert verdict.sentence.key == "not_admitted"  # type: ignore[union-attr]
    assert verdict.where.key == "lines"  # type: ignore[union-attr]
    assert (verdict.next_step, verdict.misconception) == ("", "")


def wrong_of(sentence: str, *, calls: bool = True) -> Question:
    """Whatever comes is wrong."""

    def check(student: Student, draw: Draw) -> None:
        if calls:
            student.call("add", 1, 2)
        raise Wrong(expected="more", got="less", why=sentence)

    return Question("add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)


@pytest.mark.parametrize(
    ("sentence", "answer", "told"),
    [
        ("", None, text("no_return")),
        ("", 3, ""),
        ("Because.", None, "Because."),
        ("Because.", 3, "Because."),
    ],
)
def test_nothing_is_said_to_be_missing_where_nothing_else_is_known(
    sentence: str, answer: Any, told: Any
) -> None:
    assert judged_sum(wrong_of(sentence), lambda a, b: answer).sentence == told


def test_what_is_wrong_before_any_call_was_asked_nothing() -> None:
    verdict = judged_sum(wrong_of("", calls=False), lambda a, b: 0)
    assert (verdict.cause, verdict.asked, verdict.sentence) == (Cause.WRONG, "", "")
