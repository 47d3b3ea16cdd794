"""The site in another language: a site of its own below the English one, in a folder named after
the language, with a door from each chapter and lab to its twin."""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from dataclasses import asdict, dataclass, fields
from os.path import relpath
from pathlib import Path, PurePosixPath

from autograder.authoring.address import BRANCH, REPOSITORY
from autograder.authoring.language import ENGLISH, Language, others
from autograder.authoring.plan import Plan
from book.unit import HOME, ROOT

UNITS = "{{units}}"
"""Where a language's front page lists its units."""


@dataclass(frozen=True)
class Words:
    """What the site says by itself. The defaults are English; `es/site.toml` says all of it in
    Spanish. Those below `before` are said by the page's script."""

    description: str = (
        "PyTorch from the inside: one real layer, nn.Linear(64, 600), followed from a stride to a "
        "sharded GPU job, in notebooks with labs that check your work."
    )
    shared_picture: str = "A grid of 600 cells, the scores of the next word, and the highest lit."
    solution: str = "Show the solution"
    other_answer: str = "Show another right answer"
    checked: str = "What the check says of the folded solution:"
    hide: str = "Hide"
    show_code: str = "Show code cell {type}"
    hide_code: str = "Hide code cell {type}"
    edit: str = "Edit"
    before: str = "Your guess, before you read on:"
    show: str = "Show me"
    said: str = "You said {}."
    closed: str = (
        "The answer is closed until you guess. The page's Open every answer prints it, too."
    )
    below: str = "The answer comes below."
    unguessed: str = "No guess yet"
    open_all: str = "Open every answer"
    copy: str = "Copy"
    copied: str = "Copied"
    not_allowed: str = "Not allowed"
    home: str = "Home"
    pages_below: str = "Pages below {}"


def named(code: str) -> Language:
    """A language of the course. Raises KeyError for any other."""
    return {one.code: one for one in (ENGLISH, *others(ROOT))}[code]


def words(language: Language) -> Words:
    """Raises ValueError where `site.toml` does not say exactly what is asked."""
    if language == ENGLISH:
        return Words()
    path = ROOT / language.code / "site.toml"
    said = tomllib.loads(path.read_text("utf-8"))
    asked = {field.name for field in fields(Words)}
    if said.keys() != asked:
        raise ValueError(f"{path} lacks or has too much: {sorted(said.keys() ^ asked)}")
    return Words(**said)


def script(language: Language) -> str:
    """The words of a page's script, as a script before it."""
    said = json.dumps(asdict(words(language)), ensure_ascii=False)
    return f"window.OL_WORDS = {said};\n"


def door(page: str, here: Language, there: Language) -> str:
    """A link from `page`, a path in the repository without a language, to its twin in another
    language, in that language's own words; to the first page there where it has no twin."""
    leads_to = PurePosixPath(page if _has_twin(page, there) else "index.md").with_suffix(".html")
    way = relpath(f"{there.prefix}{leads_to}", PurePosixPath(here.prefix + page).parent)
    code = there.code
    return f'<a class="ol-door" hreflang="{code}" lang="{code}" href="{way}">{there.name}</a>'


def _has_twin(page: str, language: Language) -> bool:
    if page.endswith(".ipynb") or page == "index.md" or not language.prefix:
        return True
    return page in twins(language)


def to_english_pages(text: str, page: str, here: Language) -> str:
    """Links to docs/ in a page's text as links to the English site, where a page has no twin."""

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["path"]))
        if f"{target}.md" in twins(here):
            return link.group()
        way = relpath(f"{target}.html", PurePosixPath(here.prefix + page).parent)
        return f'<a href="{way}{link["anchor"] or ""}">{link["said"]}</a>'

    docs = r"\[(?P<said>[^\]]*)\]\((?P<path>[./]*docs/[^)#\s]+)\.md(?P<anchor>#[^)\s]*)?\)"
    return re.sub(docs, replaced, text)


def twins(language: Language) -> list[str]:
    """The pages of docs/ that `language` has, by their path in the English course."""
    folder = ROOT / language.code / "docs"
    return [f"docs/{path.name}" for path in sorted(folder.glob("*.md"))]


def line(page: str, source: str, here: Language) -> str:
    """The line below a title in another language than English: the way back, torch, the words'
    own file."""
    from book.under_title import torch_versions

    edit = f"[{words(here).edit}]({REPOSITORY}/edit/{BRANCH}/{here.prefix}{source})"
    return " · ".join([door(page, here, ENGLISH), torch_versions().replace(" to ", "-"), edit])


def front(made: Plan, language: Language) -> str:
    """The front page: the text of `es/index.md` with its units, and the margin."""
    text = (ROOT / language.code / "index.md").read_text("utf-8")
    rows, pages = [], []
    labs = {lab.name: lab for lab in made.labs}
    for chapter in made.chapters:
        if chapter.notebook == HOME:
            continue
        lab = labs[Path(chapter.notebook).stem]
        name, _, promise = _title(language.prefix + chapter.notebook).partition(": ")
        solve = f"[{language.lab.format(number=name[:2])}]({lab.student})"
        rows.append(f"| [{name}]({chapter.notebook}) | {promise} | {solve} |")
        pages += [chapter.notebook, lab.student]
    head = f"| {language.units} | {language.about} | {language.solve} |\n|:--|:--|:--|"
    pages += twins(language)
    listed = "\n".join(str(Path(page).with_suffix("")) for page in pages)
    contents = f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return text.replace(UNITS, "\n".join([head, *rows])) + contents


def _title(path: str) -> str:
    first = json.loads((ROOT / path).read_text("utf-8"))["cells"][0]
    return str("".join(first["source"]).partition("\n")[0].removeprefix("# "))
