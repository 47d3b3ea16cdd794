"""Who has numbers of their own: drawn from the secret and the name, and written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder import checks
from autograder.classroom.errors import UserError
from autograder.classroom.store import variants

LAB, NONE = checks.lab("11"), checks.lab("01")
NAMES = [f"student-{n}" for n in range(60)]


def values(secret: bytes, names: list[str] = NAMES) -> list[int]:
    return [variants.drawn(secret, LAB, name)["step_bytes"]["itemsize"] for name in names]


def test_the_secret_and_the_name_decide_and_nothing_else() -> None:
    assert values(b"a") == values(b"a")
    assert values(b"a") != values(b"b")
    assert values(b"a")[::-1] == values(b"a", NAMES[::-1])


def test_each_other_value_is_somebodys_and_the_public_one_nobodys() -> None:
    public, *others = LAB.questions["step_bytes"].variant["itemsize"]
    assert set(values(b"a")) == set(others)
    assert public not in values(b"a")
    assert variants.drawn(b"a", NONE, "ada") == {}


def test_what_was_given_out_is_read_back_and_is_the_owners_alone(tmp_path: Path) -> None:
    given = {"ada": {"step_bytes": {"itemsize": 8}}}
    assert variants.read(tmp_path, LAB) == {}
    variants.write(tmp_path, LAB, given)
    assert variants.read(tmp_path, LAB) == given
    assert variants.read(tmp_path, NONE) == {}
    (path,) = (tmp_path / "variants").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[]", '{"ada": 3}', '{"ada": {"step_bytes"'])
def test_a_damaged_list_is_no_class_without_variants(tmp_path: Path, text: str) -> None:
    variants.write(tmp_path, LAB, {})
    (path,) = (tmp_path / "variants").iterdir()
    path.write_text(text)
    with pytest.raises(UserError, match="damaged"):
        variants.read(tmp_path, LAB)


ASKED = {"step_bytes": {"itemsize": 8}}


@pytest.mark.parametrize(
    "told",
    [
        {"ada": {"gone": {"n": 1}}},
        {"ada": {"step_bytes": {"itemsize": 3}}},
        {"ada": ASKED, "bob": {"gone": {"n": 1}}},
        {"ada": {**ASKED, "gone": {"n": 1}}},
    ],
)
def test_numbers_that_are_no_longer_asked_are_named(tmp_path: Path, told: object) -> None:
    variants.write(tmp_path, LAB, {})
    (path,) = (tmp_path / "variants").iterdir()
    path.write_text(json.dumps(told))
    with pytest.raises(UserError, match="no longer asks"):
        variants.read(tmp_path, LAB)


def test_a_key_says_nothing_of_public_numbers() -> None:
    assert variants.in_key({}) == []
    one, other = ({"q": {"n": n}} for n in (1, 2))
    assert variants.in_key(one) != variants.in_key(other)


def test_numbers_that_are_out_stay_what_they_are() -> None:
    """The notebooks were given out with them, and records were kept under them."""
    assert values(b"a", NAMES[:14]) == [8, 8, 2, 8, 2, 8, 2, 8, 2, 2, 8, 8, 2, 8]
    told = {"q": {"n": 2, "b": 1}, "é": {}}
    assert variants.in_key(told) == ['{"q": {"b": 1, "n": 2}, "\\u00e9": {}}']


def test_whoever_opens_the_list_can_read_it(tmp_path: Path) -> None:
    told = {"Zoë": {"step_bytes": {"itemsize": 8}}, "ada": {}}
    variants.write(tmp_path, LAB, told)
    text = (tmp_path / "variants" / f"{LAB.name}.json").read_text("utf-8")
    assert text.index("Zoë") < text.index("ada")
    variants.write(tmp_path, LAB, dict(reversed(told.items())))
    assert (tmp_path / "variants" / f"{LAB.name}.json").read_text("utf-8") == text
    assert len(text.splitlines()) > len(told)


def test_a_list_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "variants" / f"{LAB.name}.json").mkdir(parents=True)
    with pytest.raises(UserError, match=f"Remove it and .* autograder release {LAB.name}"):
        variants.read(tmp_path, LAB)
