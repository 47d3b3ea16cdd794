"""The public address of the course: the one place in the repository where it stands."""

import re
from collections.abc import Set
from urllib.parse import quote

REPOSITORY = "https://github.com/one-layer-deep/one-layer-deep"
BRANCH = "main"

_OWNER_AND_NAME = REPOSITORY.removeprefix("https://github.com/")

TOKEN = re.compile(r"\{\{(\w+)(?::([^{}\s]*))?\}\}")
"""`{{repository}}`, `{{colab:notebooks/home.ipynb}}` or `{{binder:...}}`, in prose and in code."""


def colab(path: str) -> str:
    """The Colab link of the notebook at `path`, counted from the repository's root."""
    return f"https://colab.research.google.com/github/{_OWNER_AND_NAME}/blob/{BRANCH}/{quote(path)}"


def binder(path: str) -> str:
    """The Binder link that opens the notebook at `path` in JupyterLab."""
    return f"https://mybinder.org/v2/gh/{_OWNER_AND_NAME}/{BRANCH}?urlpath=lab/tree/{quote(path)}"


def links(path: str, open_in: str) -> str:
    """One line of markdown. Words, not badge images: it reads the same without a network. open_in:
    the words of a link, with a field for its `place`."""
    places = (("Colab", colab(path)), ("Binder", binder(path)))
    return " · ".join(f"[{open_in.format(place=place)}]({address})" for place, address in places)


def fill(text: str, notebooks: Set[str], prefix: str = "") -> str:
    """`text` with each address token replaced.

    `notebooks` holds the paths that a link may lead to; `prefix` stands in front of a path where
    another language than English has its notebooks. Other words in double braces are left alone: an
    f-string may need them.

    Raises:
        ValueError: a link to a notebook that this build does not make.
    """

    def replacement(match: re.Match[str]) -> str:
        name, path = match.groups()
        if name == "repository" and path is None:
            return REPOSITORY
        if name not in ("colab", "binder"):
            return match.group()
        if path not in notebooks:
            raise ValueError(
                f"{match.group()} leads to no notebook of this build; "
                "write the path from the repository's root, as in {{colab:notebooks/home.ipynb}}"
            )
        return colab(prefix + path) if name == "colab" else binder(prefix + path)

    return TOKEN.sub(replacement, text)
