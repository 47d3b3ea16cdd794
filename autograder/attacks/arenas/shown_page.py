"""What a student wrote, in the browser of whoever grades it; undefended, as nbconvert shows it."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import Ground
from autograder.classroom.intake.rebuild import notebook, rebuild

from ..paper_lab import RELEASE, Notebook, as_bytes, filled

ACTIVE = {"script", "iframe", "object", "embed", "base", "form", "svg"}
ADDRESSES = {"href", "src", "action", "formaction", "xlink:href"}


def page_obstacle() -> str:
    """Why no page can be made here, or ""."""
    return "" if importlib.util.find_spec("nbconvert") else "nbconvert not installed"


@dataclass(frozen=True)
class Page:
    """A submission is the text of a free answer. marker: a word of the hostile one, by which its
    scripts and links are told from the page's own. Every answer must be readable as it was written.
    """

    marker: str

    def defended(self, submission: str, ground: Ground) -> Outcome:
        from autograder.classroom.gradebook.feedback import FeedbackPage

        rebuilt = rebuild(as_bytes(filled(why=submission)), RELEASE)
        page = _exported(FeedbackPage, notebook(RELEASE, rebuilt))
        return self._judged(page, submission)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        from nbconvert.exporters import HTMLExporter

        return self._judged(_exported(HTMLExporter, filled(why=submission)), submission)

    def _judged(self, page: str, written: str) -> Outcome:
        reader = _Reader(self.marker)
        reader.feed(page)
        if reader.active:
            return Outcome("reached", True, ", ".join(reader.active)[:200])
        if written not in reader.text:
            return Outcome("unseen", False, "the answer cannot be read as it was written")
        return Outcome("disarmed" if self.marker in written else PASS, False)


class _Reader(HTMLParser):
    """What a browser would run or fetch of a page, as far as it bears the marker; and its text."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker, self.text, self._script = marker, "", False
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._script = tag == "script"
        for name, value in attributes:
            runs = name.startswith("on") or (
                name in ADDRESSES and (value or "").strip().lower().startswith("javascript:")
            )
            if self.marker in (value or "") and (runs or tag in ACTIVE):
                self.active.append(f"{tag} {name}")

    def handle_data(self, data: str) -> None:
        if self._script and self.marker in data:
            self.active.append("script")
        self._script = False
        self.text += data


def _exported(exporter: Any, made: Notebook) -> str:
    import nbformat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries' own deprecations
        node = nbformat.reads(as_bytes(made).decode(), as_version=4)  # type: ignore[no-untyped-call]
        page, _ = exporter().from_notebook_node(node)
    return str(page)
