"""Which pages are staged, and what happens to those that are no more."""

from __future__ import annotations

from pathlib import Path

from book.pages import _clear


def test_pages_that_are_no_more_go_with_their_folders(tmp_path: Path) -> None:
    """Folders were once removed while they were looked for, and the search fell over their gaps."""
    kept, gone = "labs/00/00.ipynb", [f"labs/{n:02}/inside/{n}.ipynb" for n in range(1, 20)]
    for name in [kept, *gone, "units.md", "old/notes.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("page")
    _clear(tmp_path, keep={kept: "page"})
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"units.md", "labs", "labs/00", kept}
