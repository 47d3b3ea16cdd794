"""The processes below a test's own, found by a word of their command lines."""

from __future__ import annotations

import contextlib

import psutil


def children_with(
    word: str, parent: psutil.Process | None = None, *, recursive: bool = False
) -> list[psutil.Process]:
    """Those below `parent` (this process) that live and were begun with `word`.

    Children end whenever they like, and an earlier test of this process may have left one that
    nobody has waited for yet: neither has a command line to ask for.
    """
    found = []
    for child in (parent or psutil.Process()).children(recursive=recursive):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie too
            if word in " ".join(child.cmdline()):
                found.append(child)
    return found
