"""Which other folders came into one, as it is noted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.store import merges
from autograder.classroom.store.merges import Merge

FROM = Merge("/other", "their seed", "2026-11-24 10:00", ("ada: 3 there, 2 here",), "our seed")


def test_what_was_noted_is_read_in_its_order(tmp_path):
    assert merges.read(tmp_path) == []
    second = replace(FROM, origin="/größer", differed=())
    merges.add(tmp_path, FROM)
    merges.add(tmp_path, second)
    assert merges.read(tmp_path) == [FROM, second]
    path = tmp_path / "merges.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "größer" in path.read_text("utf-8")
    assert len(path.read_text("utf-8").splitlines()) > 10


def test_the_same_again_is_noted_once_whenever_it_comes(tmp_path):
    merges.add(tmp_path, FROM)
    merges.add(tmp_path, replace(FROM, when="2026-11-25 11:00"))
    assert merges.read(tmp_path) == [FROM]


@pytest.mark.parametrize(
    "other", [{"origin": "/b"}, {"seed": "b"}, {"differed": ()}, {"here": ""}], ids=str
)
def test_anything_else_is_another_one(tmp_path, other):
    merges.add(tmp_path, FROM)
    merges.add(tmp_path, replace(FROM, **other))
    assert merges.read(tmp_path) == [FROM, replace(FROM, **other)]


def test_what_was_merged_under_another_secret_speaks_for_nobody(tmp_path):
    for seed, here in (("a", "our seed"), ("b", "before"), ("c", "")):
        merges.add(tmp_path, replace(FROM, seed=seed, here=here))
    assert merges.seeds(tmp_path, "our seed") == ["a", "c"]
    assert merges.seeds(tmp_path, "before") == ["b", "c"]


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[1]", b"[{}]", b'[{"differed": []}]', b"\xff", b"3"]
)
def test_a_damaged_list_is_said(tmp_path, damaged):
    (tmp_path / "merges.json").write_bytes(damaged)
    with pytest.raises(UserError, match=r"merges\.json, which says .* is damaged"):
        merges.read(tmp_path)


def test_a_list_that_cannot_be_read_is_said_too(tmp_path):
    (tmp_path / "merges.json").mkdir()
    with pytest.raises(UserError, match="is damaged"):
        merges.read(tmp_path)
