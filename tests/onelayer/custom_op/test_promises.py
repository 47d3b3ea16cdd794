"""play_promises: each promise, and no other, brings its use to life."""

from __future__ import annotations

import itertools

import pytest

import onelayer
from onelayer.custom_op import promises
from onelayer.custom_op.promises import outcomes

CURES = {  # what an operator needs for a use
    "a plain call": None,
    "a transposed x": "contiguous",
    "backward": "backward",
    "tracing for compile": "fake",
    "under autocast": "autocast",
}
NAMES = ("contiguous", "backward", "fake", "autocast")


@pytest.mark.parametrize("given", list(itertools.product((False, True), repeat=4)))
def test_a_use_is_right_where_its_promise_is_kept(given: tuple[bool, ...]) -> None:
    kept = dict(zip(NAMES, given, strict=True)) | {None: True}
    right = {use: look == "green" for use, look in outcomes(*given).items()}
    assert right == {use: kept[cure] for use, cure in CURES.items()}


def test_only_the_strides_fail_in_silence() -> None:
    looks = outcomes(False, False, False, False)
    assert [use for use, look in looks.items() if look == "red"] == ["a transposed x"]


def test_a_wrong_formula_would_be_wrong_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "_backward", lambda ctx, dz: (None, ctx.saved_tensors[1]))
    assert outcomes(True, True, True, True)["backward"] == "red"


def test_the_view_shows_what_came_of_it() -> None:
    scenes = onelayer.play_promises().view["scenes"]
    assert len(scenes) == 16
    assert scenes['["yes","yes","yes","yes"]']["says"] == "5 of 5 uses are right."
    assert "  a transposed x       wrong numbers, and no error" in repr(onelayer.play_promises())
    none = scenes['["no","no","no","no"]']
    assert none["says"] == "1 of 5 uses are right. Nobody is told about: a transposed x."
    assert [parts[0][1] for _, parts, _ in none["lines"]] == list(
        outcomes(False, False, False, False).values()
    )
