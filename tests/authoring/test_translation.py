"""The course in another language: what comes out, and what is said of a sidecar that lags."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from autograder.authoring import build, drift
from autograder.authoring.build import make
from autograder.authoring.language import others
from autograder.authoring.percent_source import read_source
from autograder.authoring.plan import plan
from autograder.authoring.problem import Refused
from autograder.authoring.translate_command import translate_command
from autograder.authoring.translation import Hunk, in_code, words_of
from tests.authoring.tiny_course import (
    CHAPTER_SOURCE,
    STUDENT,
    cell,
    edit,
    read,
    text,
    write,
    write_course,
)

ROOT = Path(__file__).resolve().parents[2]
SPANISH = (ROOT / "es" / "language.toml").read_text("utf-8")
SIDECAR, LAB_SIDECAR = "es/notebooks/01_strides.md", "es/solutions/01_strides/01_strides.md"
SAID = {
    "# A tiny course": "# Un curso diminuto",
    "Begin with [strides]": "Empieza por [strides]",
    "Where does an element live?": "¿Dónde vive un elemento?",
    "# Lab 01: strides": "# Laboratorio 01: strides",
    "Give the strides of a contiguous tensor.": "Da los strides de un tensor contiguo.",
    "Because `reshape` cannot express it as strides.": "Porque `reshape` no puede.",
    "`stride` 漢字 🙂": "`stride` 漢字 🙂 también",
    "- copy the tensor, or ls its storage: still a comment\n+ ": (
        "- copy the tensor, or ls its storage: still a comment\n+ copia el tensor\n+ entero"
    ),
    "- Strides, in elements, of a contiguous tensor of this shape.\n+ ": (
        "- Strides, in elements, of a contiguous tensor of this shape.\n+ Los strides."
    ),
    "- Two regions, one of them deep.\n+ ": "- Two regions, one of them deep.\n+ Dos regiones.",
}


def translate(root: Path, *arguments: str) -> str:
    done = CliRunner().invoke(translate_command, ["es", *arguments, "--root", str(root)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The tiny course, every cell of it in Spanish."""
    write_course(tmp_path)
    write(tmp_path, "es/language.toml", SPANISH)
    translate(tmp_path)
    for path in sorted(tmp_path.glob("es/**/*.md")):
        words = path.read_text("utf-8")
        for english, spanish in SAID.items():
            words = words.replace(english, spanish)
        path.write_text(words, "utf-8")
    said = translate(tmp_path)
    assert said.count("nothing to do") == 3, said
    build(tmp_path)
    return tmp_path


def problems(root: Path) -> list[str]:
    return [str(problem) for problem in drift(root)]


def test_a_course_is_built_in_both_languages(course: Path) -> None:
    assert problems(course) == []
    assert text(course, "notebooks/01_strides.ipynb", "strides").startswith("# Strides")
    chapter = text(course, "es/notebooks/01_strides.ipynb", "strides")
    assert chapter.endswith("¿Dónde vive un elemento?")
    assert "/blob/main/es/notebooks/01_strides.ipynb" in chapter
    assert chapter.count("Abrir en") == 2
    assert "/es/notebooks/01_strides.ipynb)." in text(course, "es/notebooks/home.ipynb", "home")
    assert read(course, "es/notebooks/home.ipynb")["metadata"]["onelayer"]["language"] == "es"
    assert "language" not in read(course, "notebooks/home.ipynb")["metadata"]["onelayer"]
    arrival = text(course, "es/notebooks/home.ipynb", "bring-the-course")
    assert arrival.endswith('os.environ["ONELAYER_LANGUAGE"] = "es"')
    assert "LANGUAGE" not in text(course, "notebooks/home.ipynb", "bring-the-course")


def test_only_words_of_a_code_cell_change(course: Path) -> None:
    english, spanish = (
        text(course, f"{place}notebooks/01_strides.ipynb", "look") for place in ("", "es/")
    )
    assert "# copia el tensor\n# entero\n%matplotlib inline" in spanish
    assert english.partition("# copy")[0] == spanish.partition("# copia")[0]


def test_a_student_finds_a_stub_that_means_the_same(course: Path) -> None:
    stub = text(course, f"es/{STUDENT}", "contiguous_strides")
    assert '"""Los strides."""\n    # unas 5 líneas\n' in stub
    assert 'raise NotImplementedError("Lab 1.1: contiguous_strides, about 5 lines")' in stub
    assert text(course, f"es/{STUDENT}", "why_copies") == "*Tu respuesta aquí.*"
    twins = [cell(course, f"{place}{STUDENT}", "contiguous_strides_check") for place in ("", "es/")]
    assert twins[0] == twins[1]


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "changed": (
        lambda root: edit(root, CHAPTER_SOURCE, "does an element", "does each element"),
        "cell strides: its English has changed; `autograder translate es "
        "notebooks/01_strides.py --difference strides` shows how",
    ),
    "new": (
        lambda root: edit(root, CHAPTER_SOURCE, "# %% [markdown] id=\"fold\"",
                          '# %% [markdown] id="more"\n# More.\n\n# %% [markdown] id="fold"'),
        "cell more: is not translated",
    ),
    "gone": (
        lambda root: edit(root, CHAPTER_SOURCE, 'id="fold"', 'id="folded"'),
        "cell fold: translates a cell that is not there",
    ),
    "twice": (
        lambda root: write(root, SIDECAR, (root / SIDECAR).read_text() * 2),
        "cell strides: stands twice",
    ),
    "no file": (
        lambda root: (root / SIDECAR).unlink(),
        f"{SIDECAR}: is missing: nothing of its source is translated",
    ),
    "emptied": (
        lambda root: edit(root, SIDECAR, "# Strides\n¿Dónde vive un elemento?\n", ""),
        "cell strides: the entry is empty",
    ),
    "a comment is forgotten": (
        lambda root: edit(root, CHAPTER_SOURCE, "# %matplotlib inline",
                          "# %matplotlib inline\nn = 1  # one more"),
        "cell look: its English has changed",
    ),
    "another English": (
        lambda root: edit(root, SIDECAR, "- copy the tensor", "- copy this tensor"),
        "cell look: its hunks are not the cell's words in turn, from 'copy the tensor",
    ),
    "code in a hunk": (
        lambda root: edit(root, LAB_SIDECAR, "+ Dos regiones.", '+ Dos."""\n+ n = 1\n+ """'),
        "cell Counter: a hunk changes the code, and not only words",
    ),
    "words that no string holds": (
        lambda root: edit(root, LAB_SIDECAR, "+ Dos regiones.", "+ Dos regiones.\n\n- six\n+ seis"),
        "cell Counter: no string of the cell holds 'six'",
    ),
    "no mark": (
        lambda root: edit(root, LAB_SIDECAR, "+ Dos regiones.", "Dos regiones."),
        "cell Counter: a line of a code cell's entry begins with '- ' or '+ '",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_sidecar_lacks_is_named_and_read_in_english_meanwhile(
    course: Path, fault: str
) -> None:
    change, says = FAULTS[fault]
    change(course)
    changes = build(course)
    assert any(says in str(one) for one in changes.untranslated), changes.untranslated
    assert [one for one in problems(course) if says not in one] == [
        str(one) for one in changes.untranslated if says not in str(one)
    ]
    for path in ("es/notebooks/01_strides.ipynb", f"es/{STUDENT}"):
        for made in read(course, path)["cells"]:
            if made["cell_type"] == "code":
                source = "".join(made["source"]).replace("%matplotlib inline", "")
                ast.parse(source)


@pytest.mark.parametrize("fault", ["gone", "twice"])
def test_no_translation_is_lost_by_bringing_sidecars_up_to_date(course: Path, fault: str) -> None:
    """A cell that was renamed: its words are still there for whoever moves them."""
    FAULTS[fault][0](course)
    before = (course / SIDECAR).read_text("utf-8").count("también")
    assert FAULTS[fault][1] in translate(course, CHAPTER_SOURCE)
    assert (course / SIDECAR).read_text("utf-8").count("también") == before


def test_a_change_of_code_alone_asks_for_nothing(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, '# %% id="not-a-cell"', '# %% id="no-cell"')
    assert build(course).untranslated == ()
    assert "no-cell" in text(course, "es/notebooks/01_strides.ipynb", "look")


def test_the_english_that_was_translated_is_found_again(course: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        subprocess.run(["git", "-C", course, *who, *arguments], check=True, capture_output=True)

    git("init")
    git("add", "-A")
    git("commit", "-m", "translated")
    edit(course, CHAPTER_SOURCE, "does an element", "does each element")
    git("commit", "-am", "changed")
    said = translate(course, CHAPTER_SOURCE, "--difference", "strides")
    assert "-Where does an element live?\n+Where does each element live?" in said
    assert "1 to do" in translate(course, CHAPTER_SOURCE)  # it is not done by itself
    assert "nothing to do" in translate(course, CHAPTER_SOURCE, "--done", "strides")
    assert build(course).untranslated == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["xx"], "There is no xx/language.toml. There are: es."),
        (["es", "notebooks/02.py"], "No source of the course: notebooks/02.py."),
        (["es", CHAPTER_SOURCE, "--difference", "no"], "do not both have a cell 'no'."),
        (["es", CHAPTER_SOURCE, "--difference", "strides"], "No commit has the English"),
    ],
)
def test_a_wrong_word_is_told_in_one_sentence(
    course: Path, arguments: list[str], says: str
) -> None:
    done = CliRunner().invoke(translate_command, [*arguments, "--root", str(course)])
    assert done.exit_code == 1
    assert says in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('about = "de qué trata"\n', "", "does not say 'about'"),
        ("name = ", "nombre = ", "says 'nombre', which nobody reads"),
        ("name = ", "name ", "cannot be read"),
    ],
)
def test_a_language_says_every_word_of_the_build(
    course: Path, old: str, new: str, says: str
) -> None:
    edit(course, "es/language.toml", old, new)
    with pytest.raises(Refused) as caught:
        build(course)
    assert any(says in str(one) for one in caught.value.problems)


def test_a_folder_that_is_no_language_is_left_alone(course: Path) -> None:
    write(course, "lib/language.toml", "")
    write(course, "xy/notes.md", "")
    assert [one.code for one in others(course)] == ["es"]


SOURCES = [unit.source for unit in (*plan(ROOT).chapters, *plan(ROOT).labs)]


@pytest.mark.parametrize("source", SOURCES)
def test_every_cell_of_the_course_gives_itself_for_its_own_words(source: str) -> None:
    """What is taken out of a cell goes back to where it was; and what is put there stays words."""
    for one in read_source(ROOT, source):
        if one.kind == "code":
            words = words_of(one.text)
            assert in_code(one.text, [Hunk(w.lines, w.lines) for w in words]) == one.text
            other = [Hunk(w.lines, ("«otro», sí",)) for w in words]
            assert in_code(one.text, other).count("«otro», sí") == len(words)


@pytest.mark.slow
def test_the_course_is_whole_in_every_language() -> None:
    assert "es" in [one.code for one in others(ROOT)]
    assert [str(one) for one in make(ROOT).untranslated] == []
