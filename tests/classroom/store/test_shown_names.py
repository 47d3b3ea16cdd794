from __future__ import annotations

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.store.shown_names import shown_names

SECRET, OTHER = b"a" * 32, b"b" * 32
CLASS = ["ada_1", "bob_2", "cy_3"]


def test_nobody_is_named_who_did_not_agree(tmp_path) -> None:
    agreed = tmp_path / "names.csv"
    agreed.write_text('ada_1,"Ada, the  first"\nbob_2,\n', encoding="utf-8-sig")
    shown = shown_names(CLASS, SECRET, agreed)
    assert shown["ada_1"] == "Ada, the first"
    assert "bob_2" not in shown  # an empty name: not on the page at all
    assert "cy" not in shown["cy_3"]


def test_a_pseudonym_stays_and_needs_the_secret() -> None:
    first, again = shown_names(CLASS, SECRET, None), shown_names(CLASS, SECRET, None)
    assert first == again
    assert len(set(first.values())) == len(CLASS)
    assert set(first.values()).isdisjoint(shown_names(CLASS, OTHER, None).values())


@pytest.mark.parametrize("data", [b"dee_4,Dee\n", b"ada_1\n", b"ada_1,A,B\n", b"\xff\xfe\x00"])
def test_a_file_that_names_somebody_else_is_said(tmp_path, data) -> None:
    agreed = tmp_path / "names.csv"
    agreed.write_bytes(data)
    with pytest.raises(UserError):
        shown_names(CLASS, SECRET, agreed)
    with pytest.raises(UserError):
        shown_names(CLASS, SECRET, tmp_path / "missing.csv")
