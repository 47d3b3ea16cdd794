"""Which known wrong answer a wrong answer is, and what its student is told."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autograder.judge import (
    Cause,
    Draw,
    Lab,
    LocalStudent,
    Question,
    State,
    Student,
    Wrong,
    WrongAnswer,
    ask,
    expect_close,
    expect_equal,
    expect_view,
    text,
)
from autograder.judge.ask import Doubles
from tests.judge.small_questions import HINTS, judged, judged_sum, sum_question, transpose_question


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


ASSERT = "CUDA error: device-side assert triggered"


def counted_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("counted", points=1, minutes=1, difficulty=1, hints=HINTS)
    def counted(student: Student, draw: Draw) -> None:
        """target (N,), -1 in rows that do not count -> (N, 3), 1 at the targets."""
        for target in ([0, 2], [0, -1, 2], [1]):
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
    """Where the known answer raises on the CPU, and all calls before agree. Nothing more is asked
    of a GPU that is lost."""
    lost = []

    def on_a_gpu(target: torch.Tensor) -> torch.Tensor:
        if lost or (target < 0).any():
            lost.append(target)
            raise RuntimeError(message)
        return first[target]

    verdict = ask(counted_question(), LocalStudent({"counted": on_a_gpu}), seed=1)
    assert (verdict.state, verdict.misconception) == (State.FAIL, name)


def turned_question(expect: Callable[[Any, torch.Tensor], None]) -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("turned", points=1, minutes=1, difficulty=1, hints=HINTS)
    def turned(student: Student, draw: Draw) -> None:
        """x (N, D) -> its numbers in the same order as (D, N)."""
        x = draw.tensor(3, 4)
        expect(student.call("turned", x), x.view(4, 3))

    turned.wrong("view", "This is a view.")(lambda x: x.mT)
    return turned


@pytest.mark.parametrize(
    ("expect", "answer", "name"),
    [
        (expect_view, lambda x: x.mT, "view"),
        (expect_view, lambda x: x.mT.contiguous(), ""),
        (expect_view, lambda x: torch.cat([x.flatten()] * 2)[12:].view(3, 4).mT, ""),
        (expect_close, lambda x: x.mT, "view"),
        (expect_close, lambda x: x.mT.contiguous(), "view"),
        (expect_close, lambda x: x.mT.contiguous() + 1, ""),
    ],
    ids=["the view", "a copy", "at another offset", "by value", "a copy by value", "other values"],
)
def test_a_copy_is_taken_for_the_view_it_was_made_from_where_the_check_sees_no_layout(
    expect: Any, answer: Any, name: str
) -> None:
    verdict = ask(turned_question(expect), LocalStudent({"turned": answer}), seed=1)
    assert (verdict.cause, verdict.misconception) == (Cause.WRONG, name)


def twice_turned(**options: Any) -> Question:
    """As `turned_question`, by value, of two x; the known answers are listed in this order."""

    def check(student: Student, draw: Draw) -> None:
        for _ in range(2):
            x = draw.tensor(3, 4)
            expect_close(student.call("turned", x), x.view(4, 3))

    told = {"points": 1, "minutes": 1, "difficulty": 1, "hints": HINTS} | options
    question = Question("turned", "Lab 0.1", check, **told)
    first: list[bool] = []

    def late(x: torch.Tensor) -> torch.Tensor:
        first.append(not first or not first[-1])  # right in each first of two calls
        return x.reshape(4, 3) if first[-1] else x.mT

    question.wrong("late", "The second is wrong.", turned=late)
    question.wrong("copied", "This is a copy.", turned=lambda x: x.mT.contiguous())
    question.wrong("view", "This is a view.", turned=lambda x: x.mT)
    return question


def test_of_two_with_the_same_values_the_one_is_named_that_lies_as_the_answer() -> None:
    for answer, name in ((lambda x: x.mT, "view"), (lambda x: x.mT.contiguous(), "copied")):
        verdict = ask(twice_turned(), LocalStudent({"turned": answer}), seed=1)
        assert verdict.misconception == name


@pytest.mark.parametrize(("options", "asked"), [({}, 2), ({"budget_s": 9.0}, 1)])
def test_what_comes_further_may_lie_otherwise_too(options: dict[str, Any], asked: int) -> None:
    seen = []

    def elsewhere(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.cat([x.flatten()] * 2)[12:].view(3, 4).mT

    verdict = ask(twice_turned(**options), LocalStudent({"turned": elsewhere}), seed=1)
    assert (verdict.misconception, len(seen)) == ("copied", asked)


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


def test_beyond_ends_when_its_seconds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    question, seen = sum_question([(n, 1) for n in range(9)]), []
    question.wrong("late", "The last is wrong.", add=lambda a, b: a + b + (a == 8))
    question.wrong("first", "Only the first.", add=lambda a, b: a)
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), process_time=lambda: 0.0)
    monkeypatch.setitem(ask.__globals__, "time", clock)
    verdict = judged_sum(question, lambda a, b: seen.append(a) or a)
    assert (verdict.misconception, seen) == ("first", [0, 1, 2])


def test_an_answer_that_raises_or_writes_beyond_is_compared_too() -> None:
    question = sum_question([(1, 2), (3, 4)])
    question.wrong("late", "The second is wrong.", add=lambda a, b: a + b + (a == 3))
    question.wrong("gives_up", "It gives up.", add=lambda a, b: a if a < 3 else [][0])
    assert judged_sum(question, lambda a, b: a if a < 3 else [][0]).misconception == "gives_up"
    assert judged_sum(question, lambda a, b: a if a < 3 else {}[0]).misconception == ""


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
