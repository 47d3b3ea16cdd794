"""Asking: verdicts, their texts, and the diagnosis of known wrong answers."""

from __future__ import annotations

import itertools
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
    WrongAnswer,
    ask,
    describe,
    expect_close,
    expect_equal,
    expect_view,
    pack,
    text,
)
from autograder.judge.answer import Raised
from autograder.judge.ask import (
    Doubles,
    unasked,
)
from autograder.judge.flagged import NotAdmitted

HINTS = ("a nudge", "the idea", "the line")


def transpose_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("swap", points=3, minutes=1, difficulty=1, hints=HINTS)
    def swap(student: Student, draw: Draw) -> None:
        """x (N, D) -> (D, N)."""
        for _ in draw.cases(3):
            x = draw.tensor(draw.integer(2, 5), draw.integer(6, 9))
            expect_close(student.call("swap", x), x.mT)

    @swap.wrong("reshaped", "reshape does not exchange dimensions.")
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.mT.shape)

    @swap.wrong("untouched", "Nothing was exchanged.")
    def _(x: torch.Tensor) -> torch.Tensor:
        return x

    return swap


def judged(function: Any, **options: Any) -> Verdict:
    return ask(transpose_question(), LocalStudent({"swap": function}), seed=8841, **options)


def test_a_right_answer_earns_all_points() -> None:
    verdict = judged(lambda x: x.mT.contiguous())
    assert (verdict.state, verdict.points, verdict.max_points) == (State.PASS, 3, 3)
    assert verdict.sentence == verdict.misconception == ""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.reshape(x.shape[1], x.shape[0]), "reshaped"),
        (lambda x: x + 0, "untouched"),
        (lambda x: torch.zeros(x.shape[1], x.shape[0]), ""),
    ],
)
def test_a_wrong_answer_is_named_only_if_it_is_that_one(function: Any, name: str) -> None:
    verdict = judged(function)
    assert (verdict.state, verdict.points) == (State.FAIL, 0)
    assert verdict.misconception == name
    assert (verdict.sentence == text("relation.zero")) is not bool(name)
    assert verdict.next_step == HINTS[0]


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: {"sum": x.sum(), "parts": [x, (x, 1)]},
        lambda x: x / 0,
        lambda x: torch.full_like(x, float("nan")),
        lambda x: x.bool(),
        lambda x: x.to(torch.complex64),
    ],
    ids=["nested", "infinite", "nan", "bool", "complex"],
)
def test_a_wrong_answer_of_any_kind_is_recognised(answer: Any) -> None:
    question = transpose_question()
    question.wrong("odd", "An odd answer.")(answer)
    verdict = ask(question, LocalStudent({"swap": answer}), seed=3)
    assert (verdict.state, verdict.sentence) == (State.FAIL, "An odd answer.")


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda n: 0.1 * 3 * n, "thrice"),  # rounds otherwise than 3 * n / 10
        (lambda n: 3 * n // 10, "thrice"),
        (lambda n: 0.3 * n + 1e-3, ""),
        (lambda n: 10**400, ""),
        (lambda n: True, ""),
    ],
)
def test_a_number_is_recognised_however_it_was_rounded(answer: Any, name: str) -> None:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("tenth", points=1, minutes=1, difficulty=1, hints=HINTS)
    def tenth(student: Student, draw: Draw) -> None:
        """n -> n / 10."""
        for n in (10, 70):
            if student.call("tenth", n) != n / 10:
                raise Wrong(expected="a tenth", got="another number")

    @tenth.wrong("thrice", "This is thrice a tenth.")
    def _(n: int) -> float:
        return 3 * n / 10

    assert ask(tenth, LocalStudent({"tenth": answer}), seed=1).misconception == name


@pytest.mark.parametrize(("more", "name"), [(0, "doubled"), (1, ""), (0.5, "doubled")])
def test_a_count_is_the_same_or_it_is_not(more: float, name: str) -> None:
    """However large: one byte more of forty million is another answer. Half a byte is rounding."""
    lab = Lab("07_test", "A lab for tests")

    @lab.question("bytes", points=1, minutes=1, difficulty=1, hints=HINTS)
    def count(student: Student, draw: Draw) -> None:
        """n -> n."""
        for n in (22_062_260, 30_000_000):
            expect_equal(student.call("bytes", n), n)

    count.wrong("doubled", "Read and written.")(lambda n: 2 * n)
    answer = {"bytes": lambda n: 2 * n + more}
    assert ask(count, LocalStudent(answer), seed=1).misconception == name


def test_a_name_needs_more_than_one_call_to_agree_on() -> None:
    """The first case cannot tell two mistakes apart, and those that come further do."""
    lab = Lab("07_test", "A lab for tests")

    @lab.question("area", points=1, minutes=1, difficulty=1, hints=HINTS)
    def area(student: Student, draw: Draw) -> None:
        """n, m -> n * m."""
        for n, m in ((2, 2), (2, 3), (3, 5)):
            expect_equal(student.call("area", n, m), n * m)

    area.wrong("perimeter", "This is the way around.")(lambda n, m: 2 * (n + m) - (n == m) * n)
    area.wrong("added", "They were added.")(lambda n, m: n * m + (n != m))
    assert ask(area, LocalStudent({"area": lambda n, m: n + m + n}), seed=1).misconception == ""
    around = LocalStudent({"area": lambda n, m: n + m + n + m - (n if n == m else 0)})
    assert ask(area, around, seed=1).misconception == "perimeter"


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


def halves_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("halves", points=1, minutes=1, difficulty=1, hints=HINTS)
    def halves(student: Student, draw: Draw) -> None:
        """keep(x, w) -> tensors; use(those) -> (x * w, w)."""
        x, w = draw.tensor(3), draw.tensor(3)
        product, other = student.call("use", student.call("keep", x, w))
        expect_close(product, x * w)
        expect_close(other, w)

    halves.wrong_answers.append(
        WrongAnswer(
            "added",
            "They were added.",
            {"keep": lambda x, w: [x, w], "use": lambda kept: (kept[0] + kept[1], kept[1])},
        )
    )
    return halves


@pytest.mark.parametrize(
    ("keep", "use", "name"),
    [
        (lambda x, w: [x, w], lambda kept: (kept[0] + kept[1], kept[1]), "added"),
        (lambda x, w: (w, x), lambda kept: (kept[0] + kept[1], kept[0]), "added"),
        (lambda x, w: (w, x), lambda kept: (kept[0], kept[0] + kept[1]), ""),
        (lambda x, w: [x, x], lambda kept: (kept[0] + kept[1], kept[1]), ""),
    ],
)
def test_the_order_in_which_a_half_keeps_its_tensors_is_its_own(
    keep: Any, use: Any, name: str
) -> None:
    verdict = ask(halves_question(), LocalStudent({"keep": keep, "use": use}), seed=3)
    assert (verdict.state, verdict.misconception) == (State.FAIL, name)


def test_an_error_that_says_where_it_happened_is_not_told_where_it_was_raised() -> None:
    class Elsewhere(RuntimeError):
        says_where = True

    def far(x: Any) -> Any:
        raise Elsewhere("rank 1 raised ValueError: line 3, in step")

    verdict = judged(far)
    assert verdict.got.facts["message"] == "rank 1 raised ValueError: line 3, in step"
    assert verdict.where == ""


def test_tensors_in_a_list_are_told_by_their_shapes() -> None:
    assert describe([torch.ones(2, 3), torch.ones(4, dtype=torch.int64)]) == "[(2, 3), (4,) int64]"


ASSERT = "CUDA error: device-side assert triggered"


def counted_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("counted", points=1, minutes=1, difficulty=1, hints=HINTS)
    def counted(student: Student, draw: Draw) -> None:
        """target (N,), -1 in rows that do not count -> (N, 3), 1 at the targets."""
        for target in ([0, 2], [0, -1, 2]):
            want = torch.tensor([[float(t == v) for v in range(3)] for t in target])
            expect_close(student.call("counted", torch.tensor(target)), want)

    @counted.wrong("of_another_shape", "The target is no matrix.")
    def _(target: torch.Tensor) -> torch.Tensor:
        return target.new_ones(3, 3) @ target if (target < 0).any() else torch.eye(3)[target]

    @counted.wrong("encoded", "A target of -1 is no column.")
    def _(target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(target, 3).float()

    return counted


@pytest.mark.parametrize(
    ("message", "first", "name"),
    [
        (ASSERT, torch.eye(3), "encoded"),
        (ASSERT, torch.ones(3, 3), ""),
        ("CUDA error: an illegal memory access was encountered", torch.eye(3), ""),
    ],
)
def test_an_index_that_ends_the_gpu_is_the_one_that_the_cpu_would_name(
    message: str, first: torch.Tensor, name: str
) -> None:
    """Where the known answer raises on the CPU, and all calls before agree."""

    def on_a_gpu(target: torch.Tensor) -> torch.Tensor:
        if (target < 0).any():
            raise RuntimeError(message)
        return first[target]

    verdict = ask(counted_question(), LocalStudent({"counted": on_a_gpu}), seed=1)
    assert (verdict.state, verdict.misconception) == (State.FAIL, name)


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


def views_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("turned", points=1, minutes=1, difficulty=1, hints=HINTS)
    def turned(student: Student, draw: Draw) -> None:
        """x (N, D) -> what nobody says."""
        student.call("turned", draw.tensor(3, 4))
        raise Wrong(expected="something", got="else")

    turned.wrong("view", "This is a view.")(lambda x: x.mT)
    return turned


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda x: x.mT, "view"),
        (lambda x: x.mT.contiguous(), ""),
        (lambda x: torch.cat([x.flatten(), x.flatten()])[12:].view(3, 4).mT, ""),
    ],
    ids=["the view", "a copy", "at another offset"],
)
def test_a_copy_is_not_taken_for_the_view_it_was_made_from(answer: Any, name: str) -> None:
    """The values are the same: only how they lie in memory tells the two answers apart."""
    verdict = ask(views_question(), LocalStudent({"turned": answer}), seed=1)
    assert (verdict.cause, verdict.misconception) == (Cause.WRONG, name)


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


def test_one_name_is_asked_once() -> None:
    lab = Lab("07_test", "")
    asked = lab.question("q", points=1, minutes=1, difficulty=1, hints=HINTS)
    asked(lambda student, draw: None)
    with pytest.raises(ValueError, match="twice"):
        lab.question("q", points=1, minutes=1, difficulty=1, hints=HINTS)


def test_an_answer_that_stands_for_billions_of_numbers_is_told_in_a_line() -> None:
    vast = torch.zeros(1, dtype=torch.uint8).expand(*[2] * 27)
    strange = torch.empty_strided((1,), (2**62,), dtype=torch.complex128)
    for value in ([vast], {"a": (vast, [vast])}, [strange], ["x" * 90_000] * 40, [[0] * 999] * 99):
        assert len(describe(value)) <= 160


def test_a_view_of_another_dtype_is_not_the_view() -> None:
    x = torch.arange(6.0)
    with pytest.raises(Wrong, match="float32"):
        expect_view(x.unfold(0, 2, 1).view(torch.int32), x.unfold(0, 2, 1))


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


def plans_question(*, by_effect: bool) -> Question:
    """A plan of steps of 1 to 9 that is 10 long."""

    def check(student: Student, draw: Draw) -> None:
        expect_equal(sum(student.call("plan")), 10)

    question = Question(
        "plan", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=("", "", ""),
        by_effect=by_effect,
    )  # fmt: skip
    question.wrong("too_long", "It is one too long.", plan=lambda: [5, 6])
    question.wrong("too_short", "It is one too short.", plan=lambda: [4, 5])
    question.wrong("short_too", "It is one too short, and odd.", plan=lambda: [9])
    return question


@pytest.mark.parametrize(
    ("plan", "by_effect", "name"),
    [
        ([1, 10], True, "too_long"),
        ([1, 10], False, ""),
        ([8, 1], True, ""),
        ([9], True, "short_too"),
    ],
    ids=["does the same", "is not told by that", "two mistakes do the same", "is the same"],
)
def test_a_plan_is_named_by_what_it_does(plan: list[int], by_effect: bool, name: str) -> None:
    question = plans_question(by_effect=by_effect)
    verdict = ask(question, LocalStudent({"plan": lambda: plan}), seed=1)
    assert verdict.misconception == name


def test_of_mistakes_that_begin_alike_the_one_is_named_that_goes_on_alike() -> None:
    def check(student: Student, draw: Draw) -> None:
        for n in (1, 2, 3):
            expect_equal(student.call("same", n), n)

    question = Question(
        "same", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=("", "", "")
    )
    question.wrong("one_more", "One too many.", same=lambda n: n + 1)
    question.wrong("twice", "Twice as many.", same=lambda n: 2 * n)
    question.wrong("late", "The third is wrong.", same=lambda n: n if n < 3 else 0)
    verdict = ask(question, LocalStudent({"same": lambda n: n * 2}), seed=1)
    assert verdict.misconception == "twice"


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


def test_a_wrong_answer_keeps_its_nudge() -> None:
    assert judged(lambda x: x + 1).next_step


def test_what_comes_next_fits_the_wrong_answer() -> None:
    """A line of its own; none, where its sentence says all; the nudge, where nothing is known."""
    question = transpose_question()
    question.next_lines = {"reshaped": "Read about strides.", "untouched": ""}
    answers = {
        "Read about strides.": lambda x: x.reshape(x.mT.shape),
        "": lambda x: x + 0,
        HINTS[0]: lambda x: x.mT + 1,
    }
    for line, answer in answers.items():
        assert ask(question, LocalStudent({"swap": answer}), seed=1).next_step == line


def sum_question(cases: Sequence[tuple[Any, ...]], **options: Any) -> Question:
    """The sum of two numbers, asked with these cases."""

    def check(student: Student, draw: Draw) -> None:
        for a, b in cases:
            expect_equal(student.call("add", a, b), a + b)

    told = {"points": 2, "minutes": 1, "difficulty": 1, "hints": HINTS} | options
    return Question("add", "Lab 0.1", check, **told)


def judged_sum(question: Question, answer: Any) -> Verdict:
    return ask(question, LocalStudent({"add": answer}), seed=5)


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


@pytest.mark.parametrize(
    ("options", "asked"),
    [({}, 3), ({"may_write": True}, 1), ({"budget_s": 9.0}, 1), ({"alone": True}, 1)],
)
def test_what_is_dear_is_asked_no_more_than_the_check_asks(
    options: dict[str, Any], asked: int
) -> None:
    """To tell two mistakes apart, a cheap answer is asked what the check asks of those that come
    further."""
    question, seen = sum_question([(1, 2), (3, 4), (5, 6)], **options), []
    question.wrong("late", "The third is wrong.", add=lambda a, b: a + b + (a == 5))
    question.wrong("first", "Only the first.", add=lambda a, b: a)

    def first(a: int, b: int) -> int:
        seen.append((a, b))
        return a if a < 5 else b

    verdict = judged_sum(question, first)
    assert seen == [(1, 2), (3, 4), (5, 6)][:asked]
    assert verdict.misconception == ("" if asked == 3 else "first")


def test_beyond_is_asked_with_so_many_calls_and_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(n, 1) for n in range(40)]
    question, seen = sum_question(cases), []
    question.wrong("late", "The last is wrong.", add=lambda a, b: a + b + (a == 39))
    question.wrong("first", "Only the first.", add=lambda a, b: a)

    def first(a: int, b: int) -> int:
        seen.append(a)
        return a

    assert judged_sum(question, first).misconception == "first"
    assert seen == list(range(25))  # the one that failed, and MAX_BEYOND more
    seen.clear()
    monkeypatch.setitem(ask.__globals__, "BEYOND_S", -1.0)
    assert judged_sum(question, first).misconception == "first"
    assert seen == [0]


def test_an_answer_that_raises_or_writes_beyond_is_compared_too() -> None:
    question = sum_question([(1, 2), (3, 4)])
    question.wrong("late", "The second is wrong.", add=lambda a, b: a + b + (a == 3))
    question.wrong("gives_up", "It gives up.", add=lambda a, b: a if a < 3 else [][0])
    assert judged_sum(question, lambda a, b: a if a < 3 else [][0]).misconception == "gives_up"
    assert judged_sum(question, lambda a, b: a if a < 3 else {}[0]).misconception == ""


def test_what_two_functions_give_each_other_is_not_asked_again() -> None:
    def check(student: Student, draw: Draw) -> None:
        for n in (1, 2, 3):
            expect_equal(student.call("use", student.call("keep", n)), n)

    question = Question(
        "use", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=("", "", "")
    )
    question.wrong("late", "Late.", keep=lambda n: n, use=lambda n: n + (n == 3))
    question.wrong("more", "One more.", keep=lambda n: n, use=lambda n: n + 1)
    seen: list[int] = []

    def use(n: int) -> int:
        seen.append(n)
        return n + 1 if n < 2 else 0

    verdict = ask(question, LocalStudent({"keep": lambda n: n, "use": use}), seed=1)
    assert (verdict.misconception, seen) == ("more", [1])


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


def test_the_known_answers_are_asked_once_for_a_whole_class() -> None:
    question, asked = sum_question([(1, 2)]), []
    question.wrong("first", "Only the first.", add=lambda a, b: asked.append(a) or a)
    doubles = Doubles(question, 5)
    for _ in range(3):
        student = LocalStudent({"add": lambda a, b: a})
        assert ask(question, student, seed=5, doubles=doubles).misconception == "first"
    assert asked == [1]
    assert (doubles.draw().seed, doubles.draw().rounds) == (5, 1)
    assert Doubles(question, 5, 4).draw().rounds == 4
    for _ in range(2):
        list(doubles.each())
    assert asked == [1]


def test_a_known_answer_may_write_where_the_student_may() -> None:
    def check(student: Student, draw: Draw) -> None:
        x = torch.ones(2)
        student.call("add", x)
        expect_close(x, torch.full((2,), 3.0))

    question = Question(
        "add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS, may_write=True
    )
    question.wrong("once", "One was added.", add=lambda x: x.add_(1))
    assert judged_sum(question, lambda x: x.add_(1)).misconception == "once"


def variant_question(**options: Any) -> Question:
    """The product with `more`, which is 2 in the public text."""

    def check(student: Student, draw: Draw, *, more: int = 2) -> None:
        for n in (1, 5):
            expect_equal(student.call("times", n), n * more)

    told = {"points": 1, "minutes": 1, "difficulty": 1, "hints": HINTS} | options
    return Question("times", "Lab 0.1", check, variant={"more": (2, 3, 4)}, **told)


@pytest.mark.parametrize(
    ("own", "answered", "theirs"), [(2, 3, 3), (2, 4, 4), (3, 2, 2), (2, 5, None), (4, 7, None)]
)
def test_who_answers_with_other_numbers_is_told_whose(
    own: int, answered: int, theirs: int | None
) -> None:
    question, calls = variant_question(), []

    def times(n: int) -> int:
        calls.append(n)
        return n * answered

    student = LocalStudent({"times": times})
    verdict = ask(question, student, seed=1, numbers={"more": own})
    assert (verdict.cause, verdict.asked) == (Cause.WRONG, f"1; more = {own}")
    if theirs is None:
        assert verdict.sentence == "" or verdict.sentence.key != "other_numbers"  # type: ignore[union-attr]
    else:
        said = text("other_numbers", theirs=f"more = {theirs}", own=f"more = {own}")
        assert (verdict.sentence, verdict.misconception) == (said, "")
        assert verdict.next_step == HINTS[0]
    assert [call.args for call in student.calls][:1] == [(1,)]
    assert len(student.calls) == 1


@pytest.mark.parametrize("options", [{"budget_s": 9.0}, {"alone": True}])
def test_a_dear_answer_is_not_asked_for_other_numbers(options: dict[str, Any]) -> None:
    calls: list[int] = []
    question = variant_question(**options)
    verdict = ask(
        question,
        LocalStudent({"times": lambda n: calls.append(n) or n * 3}),
        seed=1,
        numbers={"more": 2},
    )
    assert (verdict.cause, calls) == (Cause.WRONG, [1])


def test_what_raises_is_not_asked_for_other_numbers() -> None:
    calls: list[int] = []

    def times(n: int) -> Any:
        calls.append(n)
        raise ValueError("no")

    verdict = ask(variant_question(), LocalStudent({"times": times}), seed=1, numbers={"more": 2})
    assert (verdict.cause, calls) == (Cause.RAISED, [1])


def test_an_error_is_no_effect() -> None:
    def check(student: Student, draw: Draw) -> None:
        sum(student.call("plan"))
        student.call("finish")

    question = Question(
        "plan", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS, by_effect=True
    )

    def finish() -> None:
        raise ValueError("no plan")

    question.wrong("too_long", "It is one too long.", plan=lambda: [5, 6], finish=finish)
    student = LocalStudent({"plan": lambda: [1, 10], "finish": finish})
    assert ask(question, student, seed=1).misconception == ""


def test_what_was_answered_in_a_room_is_not_asked_again() -> None:
    def check(student: Student, draw: Draw) -> None:
        with student.clean_room("def add(a, b): SEEN.append(a); return a\nSEEN = []") as room:
            for n in (1, 2, 3):
                expect_equal(room.call("add", n, 1), n + 1)

    question = Question("add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)
    question.wrong("late", "The third is wrong.", add=lambda a, b: a + b + (a == 3))
    question.wrong("first", "Only the first.", add=lambda a, b: a)
    asked: list[int] = []
    student = LocalStudent({"add": lambda a, b: asked.append(a)})
    assert (ask(question, student, seed=1).misconception, asked) == ("first", [])


def test_a_lost_gpu_is_not_asked_again() -> None:
    asked: list[int] = []

    def on_a_gpu(target: torch.Tensor) -> torch.Tensor:
        asked.append(len(target))
        if (target < 0).any():
            raise RuntimeError(ASSERT)
        return torch.eye(3)[target]

    question = counted_question()
    more = question.check

    def check(student: Student, draw: Draw) -> None:
        more(student, draw)
        student.call("counted", torch.tensor([1]))

    question.check = check
    question.wrong(
        "late",
        "Late.",
        counted=lambda t: (
            torch.tensor([[float(a == v) for v in range(3)] for a in t.tolist()])
            if len(t) > 1
            else 1 / 0
        ),
    )
    verdict = ask(question, LocalStudent({"counted": on_a_gpu}), seed=1)
    assert (verdict.misconception, asked) == ("encoded", [2, 3])


def test_an_index_beyond_is_the_one_that_the_cpu_would_name() -> None:
    """Where the first call was wrong as well."""

    def check(student: Student, draw: Draw) -> None:
        for n in (1, 9):
            expect_equal(student.call("at", n), n)

    def on_a_gpu(n: int) -> int:
        if n == 9:
            raise RuntimeError(ASSERT)
        return 0

    question = Question("at", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)
    question.wrong("late", "The second is wrong.", at=lambda n: n + (n == 9))
    question.wrong("indexed", "Nine is no index.", at=lambda n: int(torch.zeros(3)[n]))
    assert ask(question, LocalStudent({"at": on_a_gpu}), seed=1).misconception == "indexed"


@pytest.mark.parametrize(
    ("mine", "name"), [("x", "writes_x"), ("y", ""), ("", "")], ids=["same", "another", "none"]
)
def test_a_write_beyond_is_compared_too(mine: str, name: str) -> None:
    def check(student: Student, draw: Draw) -> None:
        for n in (1, 2):
            expect_equal(student.call("add", torch.ones(n), torch.ones(n)), n)

    def add(x: torch.Tensor, y: torch.Tensor) -> int:
        if len(x) == 2 and mine:
            {"x": x, "y": y}[mine].zero_()
        return 0

    def writes_x(x: torch.Tensor, y: torch.Tensor) -> int:
        if len(x) == 2:
            x.zero_()
        return 0

    question = Question("add", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)
    question.wrong("late", "The second is wrong.", add=lambda x, y: len(x) + (len(x) == 2))
    question.wrong("writes_x", "It writes.", add=writes_x)
    assert judged_sum(question, add).misconception == name


@pytest.mark.parametrize("several", ["calls", "functions"])
def test_what_takes_several_functions_is_believed_at_once(several: str) -> None:
    """One may give what another takes: its calls cannot be asked apart."""

    def check(student: Student, draw: Draw) -> None:
        for n in (1, 2, 3):
            expect_equal(student.call("f", n), n)
            if several == "calls":
                expect_equal(student.call("g", n), n)

    question = Question("f", "Lab 0.1", check, points=1, minutes=1, difficulty=1, hints=HINTS)
    more = {"g": lambda n: n} if several == "functions" else {}
    question.wrong("late", "Late.", f=lambda n: n + (n == 3), g=lambda n: n)
    question.wrong("first", "The first is wrong.", f=lambda n: n + 1, **more)
    asked: list[int] = []

    def f(n: int) -> int:
        asked.append(n)
        return n + 1 if n == 1 else 7

    student = LocalStudent({"f": f, "g": lambda n: n})
    assert (ask(question, student, seed=1).misconception, asked) == ("first", [1])


def test_beyond_ends_when_its_seconds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    question, seen = sum_question([(n, 1) for n in range(9)]), []
    question.wrong("late", "The last is wrong.", add=lambda a, b: a + b + (a == 8))
    question.wrong("first", "Only the first.", add=lambda a, b: a)
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), process_time=lambda: 0.0)
    monkeypatch.setitem(ask.__globals__, "time", clock)
    verdict = judged_sum(question, lambda a, b: seen.append(a) or a)
    assert (verdict.misconception, seen) == ("first", [0, 1, 2])
