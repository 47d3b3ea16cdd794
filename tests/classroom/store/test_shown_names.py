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


def test_a_pseudonym_is_the_one_that_stood_there_last_week() -> None:
    assert shown_names(["ada_1"], SECRET, None) == {"ada_1": "anonymous f7dab1"}


def test_a_file_as_a_spreadsheet_writes_it(tmp_path) -> None:
    agreed = tmp_path / "names.csv"
    agreed.write_bytes(f"\r\n ada_1 ,\tAda \r\n\r\nbob_2,{'b' * 99}\r\n".encode())
    shown = shown_names(CLASS, SECRET, agreed)
    assert (shown["ada_1"], shown["bob_2"]) == ("Ada", "b" * 60)


def test_the_line_that_is_wrong_is_named_and_quoted_in_part(tmp_path) -> None:
    agreed = tmp_path / "names.csv"
    agreed.write_text(f"ada_1,Ada\n\nbob_2,B,{'x' * 99}\n")
    with pytest.raises(UserError) as said:
        shown_names(CLASS, SECRET, agreed)
    quoted = "bob_2,B," + "x" * 72
    assert f"{agreed}, line 3: a student of the roster" in str(said.value)
    assert str(said.value).endswith(f"got {quoted!r}.")
    with pytest.raises(UserError, match=r"missing\.csv is no file of names: "):
        shown_names(CLASS, SECRET, tmp_path / "missing.csv")
