"""The student's functions in a notebook, with Python's own functions put back after each call.

A function that replaces `len` would take the kernel with it, and the sentence that says so.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from autograder.judge import LocalStudent
from autograder.judge.answer import Reply, answer
from autograder.judge.values import Packed


class NotebookStudent(LocalStudent):
    """`replaced` names the built-ins that a call has replaced."""

    def begin(self, *, may_write: bool, **budgets: Any) -> None:
        super().begin(may_write=may_write, **budgets)
        self.replaced: list[str] = []

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        asked = self.namespace.get(function)
        if not callable(asked):
            return [answer({}, function, request) for request in requests]
        names, replaced = vars(builtins), self.replaced
        before = dict(names)

        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return asked(*args, **kwargs)
            finally:  # nothing but methods here: any built-in may be the one that was replaced
                for name in before:
                    if names.get(name) is not before[name]:
                        replaced.append(name)
                names.update(before)

        return [answer({function: guarded}, function, request) for request in requests]
