"""Records what the cells of a chapter see on the mocked device, for readers who have none.

    python -m bench.mocked 05_memory_and_time

Runs the chapter's code from top to bottom. It needs a CUDA build of torch (`make mock` makes one in
`.venv-mock`) and no GPU. Each `onelayer.mocked("NAME", ...)` writes
`onelayer/recordings/mocked/NAME.json`, with its provenance.
"""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path
from typing import Any

from onelayer.mock_cuda.builds import library
from onelayer.recordings.mocked import KEEP

ROOT = Path(__file__).resolve().parent.parent


def record(chapter: str) -> None:
    """Raises NoMock where there can be no mocked device, and whatever a cell raises."""
    library()
    os.environ[KEEP] = f"python -m bench.mocked {chapter}"
    file = ROOT / "notebooks" / f"{chapter}.py"
    text = file.read_text("utf-8")
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    held: dict[str, Any] = {"__name__": "__main__", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), held)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(name)
