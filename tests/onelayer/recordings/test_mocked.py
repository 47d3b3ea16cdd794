"""mocked: a recording is shown of the very text that was run, and says that it is mocked."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onelayer.mock_cuda.builds import NoMock
from onelayer.mock_cuda.devices import device_model
from onelayer.mock_cuda.run import MockRun
from onelayer.recordings import mocked as module
from onelayer.recordings import read_recording
from onelayer.recordings.mocked import FOLDER, KEEP, MockedRun, mocked
from onelayer.recordings.storing import MOST_BYTES

REPO = Path(__file__).resolve().parents[3]
NAMES = sorted(file.stem for file in FOLDER.glob("[0-9]*.json"))


def small() -> list[int]:
    return [1, 2]


def other() -> list[int]:
    return [1, 3]


def seen(function: Callable[[], Any], **_: Any) -> MockRun:
    """A run without a device: nothing of it is a claim about one."""
    return MockRun(device_model("H100"), 1, function(), "", [], {}, {})


def no_mock(function: Callable[[], Any], **_: Any) -> MockRun:
    raise NoMock("There is none here.")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "on_mock_gpu", seen)
    monkeypatch.setenv(KEEP, "a test")
    mocked("05_small", small)
    monkeypatch.delenv(KEEP)
    monkeypatch.setattr(module, "on_mock_gpu", no_mock)
    return tmp_path


def test_what_was_recorded_is_shown_and_says_where_it_comes_from(folder: Path) -> None:
    run = mocked("05_small", small)
    assert run.result == [1, 2]
    assert "mocked NVIDIA H100" in run.provenance
    assert "a test" in run.provenance
    told = run.bundle()["text/plain"]
    assert told.split() == run.provenance.replace("`", "").split()
    assert max(map(len, told.splitlines())) <= 80
    assert "<code>a test</code>" in run.bundle()["text/html"]
    with pytest.raises(ValueError, match="no history"):
        _ = run.history


def test_a_recording_of_other_code_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="of other code"):
        mocked("05_small", other)


def test_a_comment_in_another_language_is_no_other_code(folder: Path) -> None:
    file = folder / "05_small.json"
    kept = json.loads(file.read_text("utf-8"))
    source = kept["content"]["source"]
    source[0] += "  # un comentario"
    source.insert(1, "    # y otro")
    file.write_text(json.dumps(kept), "utf-8")
    assert mocked("05_small", small).result == [1, 2]


def test_where_there_is_neither_device_nor_recording_it_says_so(folder: Path) -> None:
    with pytest.raises(ValueError, match="There is none here"):
        mocked("05_nobody", small)


def test_without_the_wish_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "on_mock_gpu", seen)
    assert mocked("05_new", small).result == [1, 2]
    assert not (folder / "05_new.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shipped_is_whole_and_says_that_it_is_mocked(name: str) -> None:
    recording = read_recording(name, folder=FOLDER)
    assert isinstance(recording.content, MockedRun)
    assert recording.made is not None
    assert recording.made.ran_on == "mocked"
    assert "mocked" in recording.provenance
    assert recording.content.plain() == MockedRun.from_plain(recording.content.plain()).plain()
    assert (FOLDER / f"{name}.json").stat().st_size <= MOST_BYTES


def functions(chapter: Path) -> dict[str, str]:
    """The text of each function at the top of a chapter, as inspect gives it."""
    text = chapter.read_text("utf-8")
    tree = ast.parse(text)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in found}


def test_every_recording_is_of_a_function_that_a_chapter_has() -> None:
    """Whoever changes such a cell records it anew: `python -m bench.mocked CHAPTER`."""
    assert NAMES
    for chapter in sorted((REPO / "notebooks").glob("[0-9]*.py")):
        asked = {name for name in NAMES if name.startswith(chapter.name[:2])}
        texts, source = set(functions(chapter).values()), chapter.read_text("utf-8")
        for name in asked:
            run = read_recording(name, folder=FOLDER).content
            assert isinstance(run, MockedRun)
            assert run.source in texts, name
        named = set(re.findall(r'"(\d\d_[a-z_0-9]+)"', source))
        assert asked <= named, asked - named
