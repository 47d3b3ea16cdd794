"""The progress file: whatever happened to it, a student goes on, and is told in one sentence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from autograder.judge import Lab
from autograder.notebook import overview as overview_module
from autograder.notebook import progress_store as store_module
from autograder.notebook.overview import overview
from autograder.notebook.progress_store import (
    Asked,
    Prediction,
    Progress,
    ProgressStore,
    from_json,
    progress_store,
)

FULL = Progress(
    {"strides": Asked("pass", 2.5, 3, 1), "gather": Asked("fail", 0, 1, 3)},
    {"bytes": Prediction(153_600, [1, "ñ", None], "01_strides", False)},
)


def passed(name: str) -> Callable[[Progress], Progress]:
    return lambda progress: progress.with_question(name, Asked("pass", 1, 1, 0))


def one_sentence(note: str) -> bool:
    return note.endswith(".") and "\n" not in note and "Traceback" not in note


def broken_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("progress.json.broken-*"))


def test_what_is_written_is_read() -> None:
    assert from_json(FULL.to_json()) == FULL
    assert from_json(Progress().to_json()) == Progress()


def test_changes_are_kept_by_the_next_kernel(tmp_path: Path) -> None:
    assert ProgressStore(tmp_path / "new").change(passed("strides")).note == ""
    kept = ProgressStore(tmp_path / "new").read()
    assert kept.progress.asked("strides").state == "pass"
    assert kept.note == ""
    assert json.loads((tmp_path / "new" / "progress.json").read_text())["schema"] == 1


def test_reading_creates_nothing(tmp_path: Path) -> None:
    assert ProgressStore(tmp_path / "home").read().progress == Progress()
    assert not (tmp_path / "home").exists()


def test_the_home_is_where_onelayer_home_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    assert progress_store().path == tmp_path / "progress.json"
    monkeypatch.delenv("ONELAYER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert progress_store().path == tmp_path / ".onelayer" / "progress.json"


def test_a_file_cut_at_any_byte_is_set_aside_or_whole(tmp_path: Path) -> None:
    whole = FULL.to_json().encode()
    for cut in range(len(whole) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "progress.json").write_bytes(whole[:cut])
        kept = ProgressStore(folder).change(passed("next"))
        assert kept.progress.asked("next").state == "pass"
        assert ProgressStore(folder).read().progress == kept.progress
        if broken_files(folder):
            assert (folder / "progress.json.broken-1").read_bytes() == whole[:cut]
            assert one_sentence(kept.note)
        else:
            assert kept.progress.questions.keys() >= FULL.questions.keys()
    assert not broken_files(tmp_path / str(len(whole)))
    assert broken_files(tmp_path / str(len(whole) - 2))


def test_a_name_that_is_no_unicode_is_kept(tmp_path: Path) -> None:
    assert ProgressStore(tmp_path).change(passed("\ud800")).note == ""
    assert set(ProgressStore(tmp_path).read().progress.questions) == {"\ud800"}


def entry(**fields: Any) -> str:
    return json.dumps({"schema": 1, "questions": {"q": fields}, "predictions": {}})


def guess(**fields: Any) -> str:
    return json.dumps({"schema": 1, "questions": {}, "predictions": {"k": fields}})


WRONG = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "number": "3",
    "deep": "[" * 100_000,
    "deep object": '{"schema":' * 50_000,
    "no schema": '{"questions": {}, "predictions": {}}',
    "true schema": '{"schema": true, "questions": {}, "predictions": {}}',
    "zero schema": '{"schema": 0, "questions": {}, "predictions": {}}',
    "no questions": '{"schema": 1, "predictions": {}}',
    "list of questions": '{"schema": 1, "questions": [], "predictions": {}}',
    "question a word": '{"schema": 1, "questions": {"q": "pass"}, "predictions": {}}',
    "other field": entry(grade=3),
    "unknown state": entry(state="won"),
    "state a number": entry(state=1),
    "state a list": entry(state=["pass"]),
    "points a word": entry(points="3"),
    "points true": entry(points=True),
    "points nan": entry(points=float("nan")),
    "points infinite": entry(points=float("inf")),
    "points negative": entry(points=-1),
    "hints 4": entry(hints=4),
    "hints true": entry(hints=True),
    "checks huge": entry(checks=10**30),
    "too many digits": entry().replace("{}}", '{"k": ' + "9" * 5_000 + "}}"),
    "guess an object": guess(first={}, last=1),
    "guess nan": guess(first=float("nan"), last=1),
    "guess too long": guess(first="x" * 1_000, last=1),
    "guess missing": guess(first=1),
    "right a number": guess(first=1, last=1, right=1),
    "unit a number": guess(first=1, last=1, unit=1),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_set_aside_and_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(text)
    kept = ProgressStore(tmp_path).read()
    assert kept.progress == Progress()
    assert one_sentence(kept.note)
    assert "progress.json.broken-1" in kept.note
    assert (tmp_path / "progress.json.broken-1").read_text() == text
    assert ProgressStore(tmp_path).read().note == ""


def test_a_binary_file_and_a_huge_one_are_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_bytes(bytes(range(256)))
    assert "it is no text" in ProgressStore(tmp_path).read().note
    with file.open("wb") as huge:
        huge.truncate(10 * 2**30)
    assert "far too large" in ProgressStore(tmp_path).change(passed("q")).note
    assert broken_files(tmp_path) == ["progress.json.broken-1", "progress.json.broken-2"]
    assert ProgressStore(tmp_path).read().progress.asked("q").state == "pass"


def test_what_is_no_file_is_set_aside(tmp_path: Path) -> None:
    makers: list[Callable[[Path], None]] = [
        Path.mkdir,
        os.mkfifo,
        lambda p: p.symlink_to("/dev/zero"),
    ]
    for number, make in enumerate(makers, start=1):
        (tmp_path / "progress.json").unlink(missing_ok=True)
        make(tmp_path / "progress.json")
        assert "it is no file" in ProgressStore(tmp_path).read().note
        assert len(broken_files(tmp_path)) == number


def test_a_later_versions_file_is_left_alone(tmp_path: Path) -> None:
    text = '{"schema": 2, "answers": []}'
    (tmp_path / "progress.json").write_text(text)
    mine = ProgressStore(tmp_path)
    kept = mine.change(passed("q"))
    assert one_sentence(kept.note)
    assert "later version" in kept.note
    assert mine.read().progress.asked("q").state == "pass"
    assert (tmp_path / "progress.json").read_text() == text


@pytest.mark.parametrize("folder", ["a_file/home", "a_file"])
def test_where_no_folder_can_be_the_kernel_remembers(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("")
    mine = ProgressStore(tmp_path / folder)
    for name in ("one", "two"):
        kept = mine.change(passed(name))
        assert one_sentence(kept.note)
        assert "is not stored" in kept.note
    assert set(mine.read().progress.questions) == {"one", "two"}


def test_a_full_disk_loses_nothing_and_later_everything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ProgressStore(tmp_path).change(passed("before"))
    mine = ProgressStore(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        assert "No space left on device" in mine.change(passed("meanwhile")).note
        assert set(mine.read().progress.questions) == {"before", "meanwhile"}
        assert one_sentence(mine.read().note)
    assert set(ProgressStore(tmp_path).read().progress.questions) == {"before"}
    assert mine.change(passed("after")).note == ""
    assert set(ProgressStore(tmp_path).read().progress.questions) == {
        "before",
        "meanwhile",
        "after",
    }


def test_a_file_that_cannot_be_set_aside_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "progress.json").write_text("broken")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    kept = ProgressStore(tmp_path).change(passed("q"))
    assert "Permission denied" in kept.note
    assert kept.progress.asked("q").state == "pass"
    assert (tmp_path / "progress.json").read_text() == "broken"


def test_who_holds_the_lock_for_ever_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WAIT_S", 0.05)
    mine = ProgressStore(tmp_path)
    with FileLock(tmp_path / "progress.lock"):
        assert one_sentence(mine.change(passed("q")).note)
    assert mine.change(passed("r")).note == ""
    assert set(ProgressStore(tmp_path).read().progress.questions) == {"q", "r"}


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from autograder.notebook.progress_store import ProgressStore

folder, name, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def once_more(progress):
    asked = progress.asked(name)
    both = replace(progress.asked("both"), checks=progress.asked("both").checks + 1)
    more = progress.with_question(name, replace(asked, checks=asked.checks + 1))
    return more.with_question("both", both)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(turns):
    kept = ProgressStore(folder).change(once_more)
    assert kept.note == "", kept.note
"""


def writer(folder: Path, name: str, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(turns)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
def test_two_notebooks_at_once_lose_no_change(tmp_path: Path) -> None:
    two = [writer(tmp_path, name, 40) for name in ("a", "b")]
    for process in two:
        start(process)
    for process in two:
        process.communicate(timeout=120)
        assert process.returncode == 0
    questions = ProgressStore(tmp_path).read().progress.questions
    assert {name: asked.checks for name, asked in questions.items()} == {
        "a": 40,
        "b": 40,
        "both": 80,
    }


@pytest.mark.slow
def test_a_kernel_killed_while_it_writes_leaves_a_whole_file(tmp_path: Path) -> None:
    process = writer(tmp_path, "a", 10**9)
    start(process)
    mine = ProgressStore(tmp_path)
    while mine.read().progress.asked("a").checks < 5:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kept = mine.change(passed("mine"))
    assert kept.note == ""
    assert kept.progress.asked("a").checks >= 5
    assert not broken_files(tmp_path)


def lab(name: str = "01_strides") -> Lab:
    made = Lab(name, "Strides <b>")
    for question in ("strides", "gather", "later"):
        made.question(question, points=2, minutes=5, difficulty=1, hints=("a", "b", "c"))(
            lambda student, draw: None
        )
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    return tmp_path


def test_the_table_says_state_points_hints_and_predictions(home: Path) -> None:
    (home / "progress.json").write_text(FULL.to_json())
    shown = overview([lab(), replace_name("02_dispatcher")])
    rows = [line.split() for line in shown.text.splitlines()]
    assert [
        "1.1",
        "strides",
        "pass",
        "2",
        "of",
        "2",
        "1",
        "of",
        "3",
    ] in rows  # never more than the most
    assert ["1.2", "gather", "fail", "0", "of", "2", "3", "of", "3"] in rows
    assert ["1.3", "later", "not", "yet", "0", "of", "2", "0", "of", "3"] in rows
    assert "Here: 1 prediction made, 0 right." in shown.text
    assert "Total: 2 of 12 points; 1 prediction made, 0 right." in shown.text
    assert shown.html.count("<table ") == 2
    assert shown.html.count('scope="row"') == 6
    assert "Strides &lt;b&gt;" in shown.html


def replace_name(name: str) -> Lab:
    other = lab(name)
    other.questions = {
        f"other_{key}": replace(q, name=f"other_{key}") for key, q in other.questions.items()
    }
    return other


def test_the_strip_is_filled_as_far_as_points_are_earned_and_leads_on(home: Path) -> None:
    (home / "progress.json").write_text(FULL.to_json())
    shown = overview([replace_name("00_open_the_hood"), lab()])
    assert shown.text.startswith("Total: 2 of 12 points")
    assert "Next: 1.2 `gather`" in shown.text  # of the lab that is begun, not of the first
    assert shown.html.index("ol-strip") < shown.html.index("<table")
    assert re.findall(r'<span style="width:(\d+)%"', shown.html) == ["0", "33"]


def test_who_has_passed_everything_is_told_so(home: Path) -> None:
    for name in lab().questions:
        progress_store().change(passed(name))
    assert "Every question is passed." in overview([lab()]).text


def test_what_a_person_marks_is_said_to_be_no_part_of_the_total(home: Path) -> None:
    shown = overview([lab()])
    assert shown.text.splitlines()[-1].startswith("What is asked in your own words is marked by a")
    assert "in your own words" in shown.html


def test_an_empty_course_and_an_empty_file_are_no_fault(home: Path) -> None:
    assert overview([]).text == "Total: 0 of 0 points; 0 predictions made, 0 right."


def test_a_broken_file_is_named_under_the_table(home: Path) -> None:
    (home / "progress.json").write_text("<script>")
    shown = overview([lab()])
    assert "progress.json.broken-1" in shown.text
    assert "progress.json.broken-1" in shown.html
    assert "Total: 0 of 6 points" in shown.text


def test_a_broken_lab_is_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[Lab, ...]:
        raise ImportError("no triton")

    monkeypatch.setattr(overview_module, "all_labs", broken)
    assert overview_module.progress().text.startswith("progress() failed on our side, not yours")
