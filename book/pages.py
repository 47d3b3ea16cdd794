"""Which notebook becomes which page.

A page keeps the path of the notebook that a reader may open, so that the links between notebooks
hold on the site, and the links from the site (Colab, Binder, edit) lead to what the page shows.
"""

from __future__ import annotations

import enum
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.address import BRANCH, REPOSITORY
from autograder.authoring.arrival import ID as ARRIVAL
from autograder.authoring.guess_answers import ANSWERED, ASKING, answer_cells, called, statements
from autograder.authoring.lab import CHECK_SUFFIX
from autograder.authoring.language import ENGLISH, Language
from autograder.authoring.plan import Lab, Plan
from autograder.authoring.solution import BEGINS, ENDS
from book import edition, glossary, living, under_title
from book.unit import HOME, ROOT, units

PAGE = re.compile(r"(notebooks|labs)/(.*/)?\d\d_\w+\.ipynb")
FOLD = "hide-input"  # what MyST-NB calls it
TO_TOOLS = re.compile(r"  # (?:fmt: skip|type: ignore\[[\w, -]+\])$", re.MULTILINE)
PROGRESS = "where-you-are-run"
"""The cell of a lab that says how far its reader is."""
Notebook = dict[str, Any]
Cell = dict[str, Any]


class Audience(enum.Enum):
    """Who reads the site: anybody, or a class that is still to hand in."""

    PUBLIC = "public"
    CLASS = "class"


def stage(plan: Plan, audience: Audience, folder: Path, doors: Sequence[Language] = ()) -> None:
    """Writes the pages of the site into `folder`; touches only what has changed, since Sphinx reads
    again what is newer than its own notes. doors: languages in which there are twins."""
    notebooks: dict[str, Notebook] = {}
    for chapter in plan.chapters:
        if chapter.notebook != HOME:
            notebooks[chapter.notebook] = _with_words(_with_cards_alone(_read(chapter.notebook)))
    for lab in plan.labs:
        notebooks[lab.student] = lab_page(lab, audience)
    lines = under_title.lines(units(plan))
    for path, line in lines.items():
        lines[path] = " · ".join([line, *(edition.door(path, ENGLISH, one) for one in doors)])
    wanted = {path: _text(_with_line(page, lines[path])) for path, page in notebooks.items()}
    texts = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "book").glob("*.md"))}
    for path in sorted((ROOT / "docs").glob("*.md")):
        name = f"docs/{path.name}"
        texts[name] = _outward(path.read_text("utf-8"), name)
    for name, text in texts.items():
        wanted[name] = _below_title(text, [edition.door(name, ENGLISH, one) for one in doors])
    wanted |= _front_parts(ENGLISH)
    _write(wanted, folder)


def stage_in(language: Language, plan: Plan, audience: Audience, folder: Path) -> None:
    """The same of the course in another language: its front page, its chapters, its labs."""
    wanted = {"index.md": edition.front(plan, language), **_front_parts(language)}
    for source, path in [(one.source, one.notebook) for one in plan.chapters]:
        if path != HOME:
            page = _with_words(_with_cards_alone(_read(language.prefix + path)), language)
            wanted[path] = _text(_with_door(page, path, source, language))
    for lab in plan.labs:
        page = lab_page(lab, audience, language)
        wanted[lab.student] = _text(_with_door(page, lab.student, lab.source, language))
    for name in edition.twins(language):
        text = (ROOT / language.prefix / name).read_text("utf-8")
        way = edition.door(name, language, ENGLISH)
        wanted[name] = _below_title(edition.to_english_pages(text, name, language), [way])
    _write(wanted, folder)


def _front_parts(language: Language) -> dict[str, str]:
    return {f"front/{name}": text for name, text in living.parts(language).items()}


def _with_door(page: Notebook, path: str, source: str, language: Language) -> Notebook:
    """The page with the way to its English twin below its title, and its links to pages that are
    there in English alone."""
    for cell in page["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = edition.to_english_pages("".join(cell["source"]), path, language)
    first = page["cells"][0]
    title, _, rest = "".join(first["source"]).partition("\n")
    line = edition.line(path, str(Path(source).with_suffix(".md")), language)
    first["source"] = f"{title}\n\n{line}\n{rest}"
    return page


def _write(wanted: dict[str, str], folder: Path) -> None:
    _clear(folder, keep=wanted)
    for name, text in wanted.items():
        write_if_new(folder / name, text)


def _read(path: str) -> Notebook:
    """The notebook without the cell that brings the course: the page's links do that. A cell that
    is folded in a notebook is folded on its page."""
    notebook: Notebook = json.loads((ROOT / path).read_text("utf-8"))
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != ARRIVAL]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = TO_TOOLS.sub("", "".join(cell["source"]))
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            _tag(cell, FOLD)
    return notebook


def _tag(cell: Cell, *tags: str) -> None:
    metadata = cell["metadata"]
    if tags:
        metadata["tags"] = [*metadata.get("tags", []), *tags]


def _with_cards_alone(notebook: Notebook) -> Notebook:
    """Without the calls that ask for a guess or show it, where the page has what they printed; and
    with a mark on each cell that stays closed until somebody has guessed."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    answers = answer_cells(cells)
    for position, (kind, source) in enumerate(cells):
        tags = ["remove-input"] * (kind == "code" and _is_a_guess(source))
        tags += [ANSWERED] * (position in answers)
        _tag(notebook["cells"][position], *tags)
    return notebook


def _with_words(notebook: Notebook, language: Language = ENGLISH) -> Notebook:
    """With links to the glossary; the title's cell has links enough."""
    prose = [cell for cell in notebook["cells"][1:] if cell["cell_type"] == "markdown"]
    texts = glossary.linked(["".join(cell["source"]) for cell in prose], "../", language)
    for cell, text in zip(prose, texts, strict=True):
        cell["source"] = text
    return notebook


def _below_title(text: str, ways: Sequence[str]) -> str:
    title, _, rest = text.partition("\n")
    return "\n\n".join(filter(None, (title, " · ".join(ways), rest.lstrip())))


def _with_line(notebook: Notebook, line: str) -> Notebook:
    first = notebook["cells"][0]
    first["source"] = under_title.placed("".join(first["source"]), line)
    return notebook


def _is_a_guess(source: str) -> bool:
    """Whether the cell does nothing but call `predict` or `reveal`."""
    lines = [called(line) in ASKING for line in statements(source)]
    return bool(lines) and all(lines)


def _text(notebook: Notebook) -> str:
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)


def lab_page(lab: Lab, audience: Audience, language: Language = ENGLISH) -> Notebook:
    """The lab as a student gets it; for the public with each solution folded below its stub, so
    that the checks have something to pass."""
    page = _read(language.prefix + lab.student)
    if audience is Audience.CLASS:
        page["metadata"]["mystnb"] = {"execution_mode": "off"}  # a stub has nothing to show
        return page
    words = edition.words(language)
    after = _answers(_read(language.prefix + lab.notebook)["cells"], words)
    page["cells"] = [
        cell
        for asked in page["cells"]
        for cell in (*_whose_check(asked, words), asked, *after.get(asked["id"], ()))
    ]
    for cell in page["cells"]:
        if cell["id"] == PROGRESS:  # it would be the progress of whoever built the site
            _tag(cell, "remove-output")
    return _with_cards_alone(page)


def _whose_check(asked: Cell, words: edition.Words) -> Iterator[Cell]:
    """What stands above a check: a reader sees a stub, and below it "pass"."""
    if asked["id"].endswith(CHECK_SUFFIX):
        text = f'<p class="ol-whose">{words.checked}</p>'
        name = f"{asked['id']}-whose"[-64:]
        yield {"id": name, "cell_type": "markdown", "metadata": {}, "source": text}


def _answers(cells: list[Cell], words: edition.Words) -> dict[str, list[Cell]]:
    """The folded cells that stand after each cell of the student's version, by its id."""
    found: dict[str, list[Cell]] = {}
    above = ""
    for cell in cells:
        if cell["metadata"].get("onelayer", {}).get("role") == "alternative":
            found.setdefault(above, []).append(_folded(cell, words.other_answer, words.hide))
        elif cell["metadata"].get("nbgrader", {}).get("solution"):
            above = cell["id"]
            found.setdefault(above, []).append(_folded(cell, words.solution, words.hide))
        else:
            above = cell["id"]
    return found


def _folded(cell: Cell, prompt: str, hide: str) -> Cell:
    shown = {"id": f"{cell['id']}-shown"[-64:], "cell_type": cell["cell_type"]}
    source = without_marks("".join(cell["source"]))
    if cell["cell_type"] == "markdown":
        fold = f"<details><summary>{prompt}</summary>\n\n{source}\n\n</details>"
        return {**shown, "metadata": {}, "source": fold}
    metadata = {"tags": [FOLD], "mystnb": {"code_prompt_show": prompt, "code_prompt_hide": hide}}
    empty = {"outputs": [], "execution_count": None}
    return {**shown, **empty, "metadata": metadata, "source": source}


def without_marks(source: str) -> str:
    """What the build reads is nothing to a reader: the lines around a solution, and what a tool
    is told."""
    marks, source = (*BEGINS, *ENDS), TO_TOOLS.sub("", source)
    return "\n".join(line for line in source.split("\n") if line.strip() not in marks)


def _outward(text: str, name: str) -> str:
    """`text` of the page `name`, its links to files that are no page led to the repository."""

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link["path"]))
        is_page = posixpath.dirname(target) == "docs" or PAGE.fullmatch(target)
        if re.match(r"\w+:", link["path"]) or is_page:
            return link.group()
        return f"]({REPOSITORY}/blob/{BRANCH}/{target}{link['anchor'] or ''})"

    return re.sub(r"\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)", replaced, text)


def write_if_new(path: Path, text: str) -> None:
    if path.is_file() and path.read_text("utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _clear(folder: Path, keep: dict[str, str]) -> None:
    """Removes pages that are no more."""
    for path in [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]:
        if path.relative_to(folder).as_posix() not in {*keep, "units.md"}:
            path.unlink()
    for path in sorted(folder.glob("*/**/"), reverse=True):  # what is inside comes first
        if not any(path.iterdir()):
            path.rmdir()
