"""The words of pictures, views, reports and errors: English where they are made, and what is said
in its place.

A file `es.toml` beside this one holds the Spanish of each English text; `fr.toml` would hold the
French. What a file lacks is said in English. Which language a reader has is found as
`autograder.judge.words` finds it, which this package may not import: a test compares the two.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

CATALOGUES = Path(__file__).parent
ENGLISH = "en"
_ROOMS = ("notebooks", "labs", "solutions")


def language() -> str:
    """The code of the reader's language: of the environment, or of the folder in which the notebook
    that runs lies, such as es/labs/01_strides/01_strides.ipynb; else "en"."""
    named = os.environ.get("ONELAYER_LANGUAGE")
    parts = [] if named else Path(os.environ.get("JPY_SESSION_NAME", "")).parts
    for folder, room in pairwise(parts):
        if room in _ROOMS and catalogue(folder):
            return folder
    return named or ENGLISH


@cache
def catalogue(code: str) -> Mapping[str, str]:
    """English -> what is said in this language. Empty for one that has no file."""
    file = CATALOGUES / f"{code}.toml"
    return tomllib.loads(file.read_text("utf-8")) if code.isalpha() and file.is_file() else {}


def say(english: str, /, **fields: Any) -> str:
    """The text in the reader's language, with its fields filled in.

    say("{n:,} bytes", n=2400)
    """
    said = catalogue(language()).get(english, english)
    return said.format_map(fields) if fields else said


def counted(n: int, one: str, many: str, **fields: Any) -> str:
    """`one` or `many`, whichever fits, with n as a field."""
    return say(one if n == 1 else many, n=n, **fields)


def words_of(script: str) -> str:
    """JavaScript that defines WORDS, which `say` of played.js reads: of all texts that the script
    has between double quotes, what is said in the reader's language."""
    said = catalogue(language())
    found = {one: said[one] for one in said if json.dumps(one, ensure_ascii=False) in script}
    written = json.dumps(found, ensure_ascii=False).replace("<", "\\u003c")
    return f"const WORDS = {written};\n"
