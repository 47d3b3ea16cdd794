"""A page is made lighter by what it does without, and by nothing else."""

from __future__ import annotations

from pathlib import Path

from book.lighten import lighten

KEPT = '<script src="_static/book.js?v=1"></script>\n'
ICONS = '<script defer src="_static/scripts/fontawesome.js?digest=1"></script>\n'
SEARCH = "".join(
    f'<script src="{name}"></script>\n'
    for name in ("_static/searchtools.js", "_static/language_data.js", "../searchindex.js")
)


def test_only_the_search_has_the_words_of_all_pages(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    for name in ("index.html", "search.html"):
        (tmp_path / name).write_text(KEPT + ICONS + SEARCH + KEPT)
    lighten(tmp_path)
    assert (tmp_path / "index.html").read_text() == KEPT + KEPT
    assert (tmp_path / "search.html").read_text() == KEPT + SEARCH + KEPT
