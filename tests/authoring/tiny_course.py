"""A course of three tiny sources, for the tests of the generator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOME = """# %% [markdown] id="home"
# # A tiny course
# Begin with [strides]({{colab:notebooks/01_strides.ipynb}}).
"""

CHAPTER = '''# %% [markdown] id="strides"
# # Strides
# Where does an element live?

# %% id="look"
text = """
# %% id="not-a-cell"
"""
# copy the tensor, or ls its storage: still a comment
# %matplotlib inline

# %% [markdown] id="fold"
# <details><summary>¿Una pista?</summary>
#
# `stride` 漢字 🙂
# </details>
'''

LAB = '''# %% [markdown] id="lab-strides"
# # Lab 01: strides

# %% id="setup" tags=["setup"]
import math


def check(name):
    print("asked", name)


# %% [markdown] id="ask-strides"
# Give the strides of a contiguous tensor.


# %% id="contiguous_strides" role="solution"
def contiguous_strides(shape):
    """Strides, in elements, of a contiguous tensor of this shape."""
    ### BEGIN SOLUTION
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        # a size of 0 still counts as one step
        step *= max(size, 1)
    return tuple(reversed(strides))
    ### END SOLUTION


# %% id="contiguous_strides_check" role="check" points=2
check("contiguous_strides")

# %% [markdown] id="why_copies" role="free_text" points=3
# Because `reshape` cannot express it as strides.


# %% id="Counter" role="solution"
class Counter:
    """Two regions, one of them deep."""

    def up(self, n):
        for _ in range(n):
            if n:
                ### BEGIN SOLUTION
                self.n = math.prod([n, 1])
                ### END SOLUTION

    def down(self):
        ### BEGIN SOLUTION
        self.n = getattr(self, "n", 0) - 1
        ### END SOLUTION


# %% id="Counter_check" role="check" points=1.5
check("Counter")


# %% id="contiguous_strides_alternative" role="alternative"
def contiguous_strides(shape):
    """Strides, in elements, of a fresh tensor."""
    sizes = [max(size, 1) for size in shape]
    return tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
'''

SOURCES = {
    "notebooks/home.py": HOME,
    "notebooks/01_strides.py": CHAPTER,
    "solutions/01_strides/01_strides.py": LAB,
}
CHAPTER_SOURCE, LAB_SOURCE = "notebooks/01_strides.py", "solutions/01_strides/01_strides.py"
CHAPTER_NOTEBOOK, LAB_NOTEBOOK = (
    "notebooks/01_strides.ipynb",
    "solutions/01_strides/01_strides.ipynb",
)
STUDENT = "labs/01_strides/01_strides.ipynb"
NOTEBOOKS = ("labs/01_strides/01_strides.ipynb", "notebooks/01_strides.ipynb",
             "notebooks/home.ipynb", "solutions/01_strides/01_strides.ipynb")  # fmt: skip


def write_course(root: Path) -> None:
    """The three sources under `root`."""
    for path, text in SOURCES.items():
        write(root, path, text)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode())


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replace `old`, which must be there once, in the source `path`."""
    text = (root / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    write(root, path, text.replace(old, new))


def read(root: Path, path: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((root / path).read_bytes())
    return notebook


def cell(root: Path, path: str, name: str) -> dict[str, Any]:
    (found,) = (cell for cell in read(root, path)["cells"] if cell["id"] == name)
    assert isinstance(found, dict)
    return found


def text(root: Path, path: str, name: str) -> str:
    return "".join(cell(root, path, name)["source"])


def tamper(root: Path, path: str, change: Callable[[dict[str, dict[str, Any]]], object]) -> None:
    """Apply `change` to the cells, by id, of the notebook `path`, and save it in the usual form."""
    notebook = read(root, path)
    change({cell["id"]: cell for cell in notebook["cells"]})
    (root / path).write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()
    }
