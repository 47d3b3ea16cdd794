from __future__ import annotations

import json

import pytest

from autograder.classroom.store import laps
from autograder.classroom.store.laps import Laps

KEY = "ab" * 32


@pytest.mark.parametrize("one", [Laps((0.5, 1.25)), Laps(why="too slow"), Laps()])
def test_what_is_kept_is_read_back(tmp_path, one) -> None:
    assert laps.read(tmp_path, KEY) is None
    laps.write(tmp_path, KEY, one)
    assert laps.read(tmp_path, KEY) == one


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"ratios": "no", "why": ""}',
        '{"ratios": 5, "why": ""}',
        '{"ratios": {}, "why": ""}',
        '{"ratios": [0.0], "why": ""}',
        '{"ratios": [-1.0], "why": ""}',
        '{"ratios": [NaN], "why": ""}',
        '{"ratios": [Infinity], "why": ""}',
        '{"ratios": [true], "why": ""}',
        '{"ratios": [1.0], "why": 3}',
        json.dumps({"ratios": [1.0]}),
    ],
)
def test_what_was_damaged_is_raced_again(tmp_path, text) -> None:
    laps.write(tmp_path, KEY, Laps())
    (path,) = (tmp_path / "races").iterdir()
    path.write_text(text)
    assert laps.read(tmp_path, KEY) is None


def test_a_race_is_the_graders_alone_under_a_name_that_a_disk_takes(tmp_path) -> None:
    laps.write(tmp_path, KEY, Laps((1.0,)))
    (path,) = (tmp_path / "races").iterdir()
    assert path.name == f"{KEY[:32]}.json"
    assert path.stat().st_mode & 0o777 == 0o600
