"""`@kernel`: one function, three ways; and what is said where there is no Triton."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from triton import language as tl
from triton.runtime.jit import JITFunction

import onelayer.triton_kernel as room
from onelayer.triton_kernel import kernel

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")


@kernel
def ones(z, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z + at, tl.zeros((BLOCK,), tl.float32) + 1, mask=at < N)


@pytest.mark.parametrize("said", ["0", "1"])
def test_it_is_interpreted_whatever_the_environment_says(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", said)
    z = torch.zeros(5)
    assert ones[1,](z, 5, BLOCK=8).bytes_written == 20
    assert z.tolist() == [1.0] * 5


def test_a_launch_without_programs_touches_nothing() -> None:
    assert ones[0,](torch.zeros(5), 5, BLOCK=8).made == []


def test_triton_has_an_object_of_its_own() -> None:
    assert isinstance(ones.jit, JITFunction)
    assert ones.jit is ones.jit


def test_without_triton_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="Triton is not installed"):
        _ = room.watch
    monkeypatch.setattr(room, "find_spec", importlib.util.find_spec)
    assert room.kernel is kernel


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = room.no_such_name
