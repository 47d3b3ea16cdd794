"""What explains a guess is closed in a notebook until somebody opens it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.authoring import build
from autograder.authoring.guess_answers import ANSWERED, answer_cells, called, folded, statements
from autograder.authoring.language import ENGLISH, others
from tests.authoring.tiny_course import (
    CHAPTER_NOTEBOOK,
    CHAPTER_SOURCE,
    cell,
    edit,
    read,
    text,
    write_course,
)

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [
    language.prefix + path.relative_to(ROOT).as_posix()
    for language in (ENGLISH, *others(ROOT))
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
]
GUESS = """# %% id="a-guess"
predict("key", choices=[1, 2])

# %% id="run"
reveal("key", 2)

# %% [markdown] id="why"
# A list:
# - of one

# %% [markdown] id="fold"
# ## The next
#
"""


def test_what_follows_a_guess_is_folded_up_to_the_next_heading(tmp_path: Path) -> None:
    write_course(tmp_path)
    edit(tmp_path, CHAPTER_SOURCE, '# %% [markdown] id="fold"\n', GUESS)
    build(tmp_path)
    assert text(tmp_path, CHAPTER_NOTEBOOK, "why") == (
        f'<details class="{ANSWERED}"><summary>Open this after your guess</summary>\n\n'
        "A list:\n- of one\n\n</details>"
    )
    assert text(tmp_path, CHAPTER_NOTEBOOK, "fold").startswith("## The next")
    assert cell(tmp_path, CHAPTER_NOTEBOOK, "run")["source"] == ['reveal("key", 2)']


@pytest.mark.parametrize("ask", ["# predict()", "predict", "'predict(1)'", "%matplotlib"])
def test_only_a_call_asks(ask: str) -> None:
    assert answer_cells([("code", ask), ("markdown", "why")]) == set()


@pytest.mark.parametrize("path", CHAPTERS)
def test_no_chapter_tells_an_answer_beside_its_choices(path: str) -> None:
    """Between a guess and the next heading, in each language, all prose is folded."""
    prose, guessed, asked = [], False, 0
    for one in read(ROOT, path)["cells"]:
        source = "".join(one["source"])
        if one["cell_type"] == "code":
            now = "predict" in map(called, statements(source))
            guessed, asked = guessed or now, asked + now
        elif source.startswith("#"):
            guessed = False
        elif guessed:
            prose.append(source)
    assert asked > 5
    assert len(prose) > 4
    opening = re.escape(folded("", "SUMMARY").partition("SUMMARY")[0])
    assert [one for one in prose if not re.match(opening, one)] == []
    assert not [one for one in prose if re.search(r"^#{1,6} ", one, re.MULTILINE)]
