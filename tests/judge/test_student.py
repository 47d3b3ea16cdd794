"""The handle: what a student's function sees, and what a check gets back."""

from __future__ import annotations

import gc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from autograder.judge import Draw, LocalStudent, NoAnswer, WroteInput, same_memory


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
