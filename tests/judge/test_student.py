"""The handle: what a student's function sees, and what a check gets back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from autograder.judge import (
    Cause,
    Draw,
    GraderFault,
    KnownAnswer,
    LocalStudent,
    NoAnswer,
    Student,
    WroteInput,
    describe,
    same_memory,
    text,
)
from autograder.judge import student as module
from autograder.judge.answer import Reply
from autograder.judge.values import Packed, pack


def student(**functions: Any) -> LocalStudent:
    return LocalStudent(functions)


def test_the_function_sees_the_same_geometry_in_other_memory() -> None:
    seen: list[torch.Tensor] = []
    s = student(look=lambda x: seen.append(x))
    for layout in Draw(0).layouts():
        x = Draw(1).tensor(3, 4, layout=layout, requires_grad=True)
        s.call("look", x)
        copy = seen.pop()
        assert (copy.stride(), copy.storage_offset()) == (x.stride(), x.storage_offset())
        assert copy.requires_grad
        assert copy.equal(x)
        assert not same_memory(copy, x)


def test_a_view_of_an_argument_comes_back_as_a_view_of_the_checks_own() -> None:
    x = torch.arange(6.0)
    got = student(windows=lambda t: t.unfold(0, 2, 1)).call("windows", x)
    assert same_memory(got, x)
    assert got.stride() == (1, 1)


def test_what_numpy_made_of_an_argument_is_memory_of_the_argument() -> None:
    x = torch.arange(40.0)[3:]
    windows = np.lib.stride_tricks.sliding_window_view
    s = student(windows=lambda t: torch.from_numpy(windows(t.numpy(), 4, writeable=True)[::2]))
    got = s.call("windows", x)
    assert same_memory(got, x)
    assert got.equal(x.unfold(0, 4, 2))
    assert got.storage_offset() == 3


def test_aliases_among_the_arguments_stay_aliases() -> None:
    x = torch.zeros(3, 4)
    share = student(
        share=lambda a, b: a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    )
    assert share.call("share", x, x.T)
    assert not share.call("share", x, x.clone())


def test_writing_into_an_argument_is_refused_and_leaves_ours_alone() -> None:
    x, y = torch.zeros(3), torch.zeros(3)
    s = student(write=lambda x, y: y.add_(1))
    with pytest.raises(WroteInput, match="argument 1"):
        s.call("write", x, y)
    assert y.tolist() == [0, 0, 0]
    with pytest.raises(WroteInput, match="argument y"):
        s.call("write", x=x, y=y)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, parts, names: parts.append(x),
        lambda x, parts, names: parts.clear(),
        lambda x, parts, names: parts[0].t_(),
        lambda x, parts, names: names.update(more=1),
        lambda x, parts, names: names.pop("a"),
        lambda x, parts, names: x.unsqueeze_(0),
        lambda x, parts, names: setattr(x, "data", x.data.clone()),
        lambda x, parts, names: x.requires_grad_(),
        lambda x, parts, names: setattr(parts[0], "requires_grad", True),
    ],
)
def test_no_list_no_dict_and_no_shape_of_an_argument_may_change(change: Any) -> None:
    x, parts, names = torch.zeros(3), [torch.zeros(2, 3)], {"a": [1]}
    s = student(change=change)
    with pytest.raises(WroteInput):
        s.call("change", x, parts, names)
    with pytest.raises(WroteInput):
        s.call("change", x=x, parts=parts, names=names)
    assert (x.shape, parts[0].shape, names) == ((3,), (2, 3), {"a": [1]})
    s.begin(may_write=True)
    s.call("change", x, parts, names)


def test_which_list_was_changed_is_told() -> None:
    s = student(change=lambda a, b: b.append(1))
    with pytest.raises(WroteInput, match="argument 1"):
        s.call("change", torch.zeros(3), [])
    with pytest.raises(WroteInput, match="argument b"):
        s.call("change", torch.zeros(3), b=[])


def test_what_an_argument_holds_that_cannot_be_compared_has_changed() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    with pytest.raises(WroteInput):
        student(change=lambda parts: parts.append(Odd())).call("change", [1])
    with pytest.raises(WroteInput):
        student(change=lambda parts: parts.append(parts)).call("change", [1])


def test_a_fraction_is_a_number_and_a_generator_a_list() -> None:
    assert student(half=lambda: Fraction(1, 2)).call("half") == 0.5
    assert student(three=lambda: (n for n in range(3))).call("three") == [0, 1, 2]
    assert student(three=lambda: range(3)).call("three") == [0, 1, 2]


def test_writing_is_as_if_local_where_the_question_allows_it() -> None:
    x = torch.zeros(2, 3)
    s = student(write=lambda x: x[1].add_(1))
    s.begin(may_write=True)
    got = s.call("write", x)
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert same_memory(got, x)


def test_what_was_kept_of_an_earlier_call_is_not_the_next_calls_input() -> None:
    kept: list[torch.Tensor] = []

    def hoard(x: torch.Tensor) -> int:
        kept.append(x)
        for old in kept[:-1]:
            old.fill_(9)  # too late: nobody looks at it any more
        return len(kept)

    s, x = student(hoard=hoard), torch.zeros(3)
    assert [s.call("hoard", x) for _ in range(3)] == [1, 2, 3]
    assert x.tolist() == [0, 0, 0]


class Explodes(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even its text raises")


def explode() -> None:
    raise Explodes


def recurse() -> None:
    recurse()


def leave() -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (explode, "raised"),
        (recurse, "raised"),
        (leave, "raised"),
        (lambda: 1 / 0, "raised"),
        (lambda: iter([]), "unsendable"),
        (lambda: torch.ones(2, device="meta"), "unsendable"),
        (lambda too, many: 0, "raised"),
        ("not a function", "missing"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_whatever_it_does_instead_of_returning_is_no_answer(function: Any, kind: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        student(f=function).call("f")
    assert caught.value.raised.kind == kind


@pytest.mark.slow
def test_a_call_leaves_nothing_to_the_garbage_collector() -> None:
    """A cycle would keep the storages of a call alive: in the jail, a memory bomb of our own."""
    s, x = student(same=lambda x: x + 1), torch.ones(1000)
    s.call("same", x)
    while gc.collect():  # what tests before this one left: to end it may leave more
        pass
    gc.disable()
    try:
        for _ in range(5):
            s.call("same", x)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_an_interrupt_belongs_to_whoever_pressed_it() -> None:
    def wait() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        student(wait=wait).call("wait")


def test_only_the_students_own_lines_are_told() -> None:
    source = "def f(x):\n    return x.view(-1)\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "<cell f>", "exec"), namespace)
    with pytest.raises(NoAnswer) as caught:
        LocalStudent(namespace).call("f", torch.ones(2, 3).T)
    assert [number for number, _ in caught.value.raised.lines] == [2]


def test_a_line_with_a_generator_is_told_once() -> None:
    source = "def f(x):\n    return sum(x[i] for i in range(9))\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "<cell f>", "exec"), namespace)
    with pytest.raises(NoAnswer) as caught:
        LocalStudent(namespace).call("f", torch.ones(2))
    assert [number for number, _ in caught.value.raised.lines] == [2]


@dataclass(eq=False, repr=False)
class Told(Student):
    """A student whose process replies what `reply` says, and notes how calls were handed over."""

    reply: Callable[[Packed], Reply]

    def __post_init__(self) -> None:
        self.rows: list[int] = []

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        self.rows.append(len(requests))
        return list(map(self.reply, requests))


def told(written: dict[int, bytes] | None = None, value: Any = 7) -> Told:
    return Told(
        lambda request: Reply(value if isinstance(value, Packed) else pack(value), written or {})
    )


def test_whoever_is_nowhere_has_nothing_beside_its_functions() -> None:
    nowhere = told()
    for ask in (
        lambda: nowhere.beside(""),
        lambda: nowhere.clean_room(""),
        lambda: nowhere.cell_of("f"),
        lambda: nowhere.hand_over(nowhere, "f"),
    ):
        with pytest.raises(GraderFault, match=r"\w"):
            ask()
    with nowhere.afresh() as same:
        assert same is nowhere
    assert (nowhere.where, nowhere.is_grading, nowhere.device) == ("nowhere", True, "cpu")
    assert (nowhere.together, nowhere.used_a_room) == (1, False)
    local = student()
    assert (local.where, local.is_grading) == ("notebook", False)


def test_a_new_question_forgets_the_one_before() -> None:
    s = student(same=lambda x: x)
    with s.clean_room("def f(): pass"):
        assert s.used_a_room
    s.call("same", torch.ones(2))
    assert (len(s.calls), s.witnessed) == (1, {"not_written", "shared"})
    s.begin(may_write=True)
    assert (s.calls, s.witnessed, s.used_a_room, s.may_write) == ([], set(), False, True)
    s.call("same", torch.ones(2))
    assert s.witnessed == {"shared"}


def test_what_rests_on_the_students_word_is_noted() -> None:
    s = student(new=lambda x: x + 1, inside=lambda x: {"a": [(x, 1)]}, none=lambda: torch.ones(2))
    s.call("none")
    assert s.witnessed == set()
    s.call("new", torch.ones(0))  # nothing can be written there
    assert s.witnessed == set()
    s.call("new", torch.ones(2))
    assert s.witnessed == {"not_written"}
    s.call("inside", torch.ones(2))
    assert s.witnessed == {"not_written", "shared"}
    s = student(both=lambda x: (x + 1, x))
    s.call("both", torch.ones(2))
    assert s.witnessed == {"not_written", "shared"}


def test_answers_are_kept_up_to_a_limit_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 16)
    s = student(two=lambda: torch.ones(2))
    for _ in range(2):
        s.call("two")
        s.call("two")
        with pytest.raises(NoAnswer) as over:
            s.call("two")
        raised = over.value.raised
        assert (raised.kind, raised.error) == (Cause.UNSENDABLE, "MemoryError")
        assert raised.why == text("answers_too_large")
        s.begin(may_write=False)


X = torch.zeros(3)


@pytest.mark.parametrize(
    "written", [{0: b"short"}, {1: bytes(12)}, {-1: bytes(12)}, {2: bytes(12)}, {0: b""}]
)
def test_a_reply_that_writes_where_nothing_lies_is_forged(written: dict[int, bytes]) -> None:
    s = told(written)
    s.begin(may_write=True)
    with pytest.raises(NoAnswer) as forged:
        s.call("f", X)
    raised = forged.value.raised
    assert (raised.kind, raised.error) == (Cause.UNSENDABLE, "Malformed")
    assert raised.why == text("forged", detail="")
    assert X.tolist() == [0, 0, 0]


def test_what_was_written_arrives_and_what_else_changed_is_no_write() -> None:
    x = torch.zeros(3)
    s = told({-1: b"", 0: x.add(1).numpy().tobytes()})
    s.begin(may_write=True)
    assert s.call("f", x) == 7
    assert x.tolist() == [1, 1, 1]
    two, one = torch.full((2,), 2.0), torch.ones(1)
    s = told({0: two.numpy().tobytes(), 1: one.numpy().tobytes()})
    s.begin(may_write=True)
    x, y = torch.zeros(2), torch.zeros(1)
    s.call("f", x, y)
    assert (x.tolist(), y.tolist()) == ([2, 2], [1])


def test_a_value_that_pack_never_writes_is_forged() -> None:
    with pytest.raises(NoAnswer) as forged:
        told(value=Packed({"no": "tree"})).call("f")
    assert forged.value.raised.error == "Malformed"
    assert forged.value.raised.why is not None
    assert forged.value.raised.why.facts["detail"]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({0: b""}, 1),
        ({-2: b""}, 1),
        ({-3: b""}, "z"),
        ({1: b""}, "z"),
        ({2: b""}, 0),
        ({9: b""}, 0),
    ],
)
def test_the_argument_is_named_that_was_written(written: dict[int, bytes], place: Any) -> None:
    s = told(written)
    with pytest.raises(WroteInput) as wrote:
        s.call("f", 3, {"a": (torch.zeros(3),)}, z=torch.ones(2))
    assert wrote.value.argument == place
    assert s.calls[-1].outcome.argument == place


def test_what_is_no_answer_is_on_record() -> None:
    s = student(right=lambda a: a, stub=lambda: 1 / 0)
    assert s.value_of("right", 3) == 3
    assert s.calls == []
    with pytest.raises(NoAnswer):
        s.value_of("stub")
    with pytest.raises(NoAnswer):
        s.call("gone", 1, k=2)
    raised, missing = s.calls
    assert (raised.function, raised.args, raised.kwargs) == ("stub", (), {})
    assert (missing.function, missing.args, missing.kwargs) == ("gone", (1,), {"k": 2})
    assert missing.outcome.why == text("missing", function="gone")
    assert raised.outcome.why is None
    assert str(NoAnswer(raised.outcome, "So.")) == str(raised.outcome)
    assert (NoAnswer(raised.outcome).why, NoAnswer(raised.outcome, "So.").why) == ("", "So.")
    none = s.missing("other")
    assert s.calls[-1].function == "other"
    assert (s.calls[-1].args, s.calls[-1].kwargs, s.calls[-1].outcome) == ((), {}, none.raised)
    assert (none.raised.kind, none.raised.error) == (Cause.MISSING, "NameError")
    assert none.raised.why == text("missing", function="other")


def test_a_row_holds_a_mebibyte() -> None:
    s = told()
    s.together = 9
    assert list(s.each("f", [(torch.zeros(2**17),)] * 4)) == [7] * 4
    assert s.rows == [2, 2]


def test_rows_are_handed_over_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROW_BYTES", 24)
    s = told()
    s.together = 3
    assert list(s.each("f", [(k,) for k in range(7)])) == [7] * 7
    assert s.rows == [3, 3, 1]
    assert [call.args for call in s.calls] == [(k,) for k in range(7)]
    s.rows.clear()
    assert list(s.each("f", [(torch.zeros(k),) for k in (3, 3, 7, 1, 1)])) == [7] * 5
    assert s.rows == [2, 1, 2]
    s.rows.clear()
    sizes = (24, 12, 11, 1)
    list(s.each("f", [(torch.zeros(n, dtype=torch.uint8),) for n in sizes]))
    assert s.rows == [1, 3]
    s.rows.clear()
    s.begin(may_write=True)
    assert list(s.each("f", [(1,), (2,)])) == [7, 7]
    assert s.rows == [1, 1]
    assert list(s.each("f", [])) == []


def test_a_row_is_packed_when_the_one_before_was_taken() -> None:
    """So a case may be written into by an answer before it."""
    s = told()
    s.together = 2
    x = torch.zeros(1)
    seen: list[bytes] = []
    s.reply = lambda request: (seen.extend(request.storages), Reply(pack(0)))[1]
    for k, _ in enumerate(s.each("f", [(x,)] * 4)):
        x.fill_(k + 1.0)
    assert [torch.frombuffer(bytearray(one), dtype=torch.float32).item() for one in seen] == [
        0,
        0,
        2,
        2,
    ]


def test_an_answer_of_ours_is_its_own_room() -> None:
    model = KnownAnswer({"twice": lambda x: 2 * x})
    with model.clean_room("raise RuntimeError") as room:
        assert room is model
    assert model.used_a_room
    assert model.value_of("twice", 2) == 4
    assert model.value_of("text") == ""
    model.hand_over(model, "gone")


def test_a_function_is_handed_to_a_room_in_this_process() -> None:
    s = student(f=lambda: 3, number=3)
    with s.clean_room("ANSWERS = {}\ndef run(): return ANSWERS['f'](), __name__") as room:
        s.hand_over(room, "f")
        assert room.call("run") == (3, "clean_room")
        for name in ("number", "gone"):
            with pytest.raises(NoAnswer):
                s.hand_over(room, name)
    s.hand_over(told(), "f")  # one in another process has none to fill
    assert [call.function for call in s.calls] == ["run", "number", "gone"]
    with s.beside("def f(): return 4") as peer:
        assert peer.call("f") == 4
    assert len(s.calls) == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(2, 3), "(2, 3)"),
        (torch.zeros(2, 3).T, "(3, 2) strides (1, 3)"),
        (torch.zeros(4)[1:], "(3,) offset 1"),
        (torch.zeros(()), "() float32"),
        (torch.zeros(2, dtype=torch.int64), "(2,) int64"),
        ([], "[]"),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, "a"), "(1, 'a')"),
        ([torch.zeros(2), None], "[(2,), None]"),
        ({"a": torch.zeros(2), 1: (2,)}, "{'a': (2,), 1: (2,)}"),
        ("x" * 160, "'" + "x" * 156 + "..."),
        ("x" * 158, "'" + "x" * 158 + "'"),
    ],
)
def test_a_value_in_words(value: Any, words: str) -> None:
    assert describe(value) == words


def test_a_long_value_is_cut_and_never_read_whole() -> None:
    assert describe([1] * 10**6, 10) == "[1, 1, ..."
    assert describe(dict.fromkeys(range(10**6)), 10) == "{0: Non..."
    assert describe("x" * 10**6, 10) == "'xxxxxx..."
    assert describe(torch.zeros(1).expand(10**12), 20) == "(1000000000000,) ..."


def test_a_call_in_words() -> None:
    s = student(f=lambda *args, **kwargs: 0)
    s.call("f", torch.zeros(2), 3, k=[1])
    assert s.calls[0].arguments == ("(2,)", "3", "k=[1]")


def test_an_answer_that_stands_for_billions_of_numbers_is_told_in_a_line() -> None:
    vast = torch.zeros(1, dtype=torch.uint8).expand(*[2] * 27)
    strange = torch.empty_strided((1,), (2**62,), dtype=torch.complex128)
    for value in ([vast], {"a": (vast, [vast])}, [strange], ["x" * 90_000] * 40, [[0] * 999] * 99):
        assert len(describe(value)) <= 160


def test_tensors_in_a_list_are_told_by_their_shapes() -> None:
    assert describe([torch.ones(2, 3), torch.ones(4, dtype=torch.int64)]) == "[(2, 3), (4,) int64]"
