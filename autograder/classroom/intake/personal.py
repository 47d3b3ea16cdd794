"""A student's own copy of a lab: the release with other numbers in its text and beside its checks.

Which words stand for a number is said per language, in the file `variants.toml` beside the lab's
questions. No answer's cell differs, so a hand-in is rebuilt from the one release of the class.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import autograder.checks
from autograder.judge import Numbers, Question

from ..errors import UserError
from .release import Release

ENGLISH = "en"
IN_CODE = "code"
Swap = tuple[str, str]


def personal(release: Release, variant: Mapping[str, Numbers], language: str = ENGLISH) -> bytes:
    """The student notebook of `release` in that language, with the numbers of
    `variant`; the bytes of the release where it has none. Raises UserError where the lab does not
    say a number once."""
    data = release.twins.get(language, release.notebook)
    if not variant:
        return data
    made = json.loads(data)
    swaps = list(_swaps(release, variant, language))
    for cell in made["cells"]:
        source = "".join(cell["source"])
        if (now := _swapped(source, swaps)) != source:
            cell["source"] = now.splitlines(keepends=True)
            _sign(cell, now)
    _expect_each_once(data, swaps)
    return f"{json.dumps(made, ensure_ascii=False, indent=1)}\n".encode()


def prose(release: Release, variant: Mapping[str, Numbers], language: str) -> dict[str, str]:
    """What the student's own copy says otherwise than the release in that language, by cell; the
    answers are left out."""
    before, after = (
        {cell["id"]: "".join(cell["source"]) for cell in json.loads(data)["cells"]}
        for data in (personal(release, {}, language), personal(release, variant, language))
    )
    return {name: text for name, text in after.items() if text != before[name]}


def _swaps(release: Release, variant: Mapping[str, Numbers], language: str) -> Iterator[Swap]:
    """What stands in the release, and what in its place."""
    path = Path(autograder.checks.__path__[0]) / f"lab{release.name}" / "variants.toml"
    phrases = tomllib.loads(path.read_text("utf-8"))
    for name, numbers in variant.items():
        question = release.lab.questions[name]
        for number, value in numbers.items():
            said: Mapping[str, Mapping[str, list[str]]] = phrases[name][number]
            public = str(question.variants[0][number])
            if language not in said:
                raise UserError(f"{path} does not say {number} of {name} in {language!r}.")
            for known in filter(None, (said[language], said.get(IN_CODE))):
                yield from zip(known[public], known[str(value)], strict=True)
        yield _asked(question, {}), _asked(question, numbers)


def _asked(question: Question, numbers: Numbers) -> str:
    told = "".join(f", {number}={value}" for number, value in numbers.items())
    return f'check("{question.name}"{told})'


def _swapped(source: str, swaps: list[Swap]) -> str:
    for public, own in swaps:
        source = _pattern(public).sub(lambda _, own=own: own, source)  # type: ignore[misc]
    return source


def _pattern(phrase: str) -> re.Pattern[str]:
    """The phrase wherever its lines break."""
    return re.compile(r"\s+".join(map(re.escape, phrase.split())))


def _expect_each_once(notebook: bytes, swaps: list[Swap]) -> None:
    sources = ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]
    for public, _ in swaps:
        found = sum(len(_pattern(public).findall(source)) for source in sources)
        if found != 1:
            raise UserError(
                f"The lab says {public!r} {found} times, and its variants.toml needs it once."
            )


def _sign(cell: dict[str, Any], source: str) -> None:
    """nbgrader's Validate compares a locked cell with its checksum."""
    if "checksum" not in cell["metadata"].get("nbgrader", {}):
        return
    from nbformat.notebooknode import from_dict
    from nbgrader.utils import compute_checksum

    node = from_dict(cell | {"source": source})  # type: ignore[no-untyped-call]
    cell["metadata"]["nbgrader"]["checksum"] = compute_checksum(node)
