"""Verdicts of before there were causes, as old grading folders hold them: the one place where a
sentence is read for what it means, once, when the verdict is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BY_STATE = {"pass": "passed", "flagged": "too_fast"}
_BY_ERROR = {
    "TimeoutError": "timeout",
    "ProcessEnded": "died",
    "Malformed": "unsendable",
    "MemoryError: the answers of this question": "unsendable",
    "TypeError: it returned": "unsendable",
    "there is no function": "missing",
}
_WITNESSED = {
    "no argument was written into": "not_written",
    "the answer shares memory with an argument": "shared",
}


def with_a_cause(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an old verdict, with the cause that its state and its words tell. Raises
    KeyError or TypeError for what was no verdict."""
    fields = dict(data)
    state = fields.pop("state")
    witnessed = fields.get("witnessed", "").split("; ")
    fields["witnessed"] = [_WITNESSED[one] for one in witnessed if one in _WITNESSED]
    return {**fields, "cause": _cause(state, **{name: fields.get(name, "") for name in _SAID})}


_SAID = ("sentence", "got", "expected")


def _cause(state: str, sentence: str, got: str, expected: str) -> str:
    if state == "ungradable":
        ours = sentence.startswith("The grader failed, not you")
        return "grader_fault" if ours else "check_fault"
    if state != "fail":
        return _BY_STATE[state]
    if " is not answered yet." in sentence and not got:
        return "blank"
    if sentence.startswith("The questions before this one had used up"):
        return "timeout"
    if sentence.startswith("Your function wrote into its input"):
        return "wrote_input"
    known = (cause for begin, cause in _BY_ERROR.items() if got.startswith(begin))
    return next(known, "raised" if expected == "a value" else "wrong")
