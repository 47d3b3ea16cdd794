"""What a compiler said, cut down to what concerns the student's own lines."""

import re

from onelayer.drawing.words import counted, say

_GNU = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)?\s*(?P<rest>.*)$")
_NVCC = re.compile(r"^(?P<file>[^(\n]+)\((?P<line>\d+)\)\s*:\s*(?P<rest>.*)$")
_OURS = re.compile(r"onelayer_cuda::|::?onelayer_\w+|ONELAYER_\w+")
MOST = 6


def students_errors(output: str, source: str, name: str) -> str:
    """Return the errors of the student's lines, each with the line itself; never a word of ours.

    An error inside our headers is told at the student's line that led there. Where no line can be
    found, the last line stands for it: something that was opened there was never closed.
    """
    lines = source.splitlines() or [""]
    told: dict[int, str] = {}
    led_here: int | None = None
    for match in filter(None, (_GNU.match(t) or _NVCC.match(t) for t in output.splitlines())):
        at, rest, own = int(match["line"]), match["rest"], match["file"].strip() == name
        if own and re.search(r"required from( here)?$|in .constexpr. expansion", rest.strip()):
            led_here = at
        elif re.match(r"(fatal )?error\b", rest):
            if not own and not led_here and "onelayer_cuda" in match["file"]:
                return say(
                    "{name}: the course's own header does not compile here: {words}",
                    name=name,
                    words=rest,
                )
            line = at if own else led_here or len(lines)
            told.setdefault(min(line, len(lines)), _sentence(rest))
            led_here = None
    first = list(told.items())[:MOST]
    shown = [f"{name}:{n}: error: {text}\n    {lines[n - 1].strip()}" for n, text in first]
    if (more := len(told) - MOST) > 0:
        shown.append(
            counted(more, "... and {n} more line with errors", "... and {n} more lines with errors")
        )
    if shown:
        return "\n".join(shown)
    last = next((line for line in reversed(output.splitlines()) if line.strip()), say("no word"))
    return say("{name}: the compiler failed, and named no line: {words}", name=name, words=last)


def _sentence(rest: str) -> str:
    text = re.sub(r"^(fatal )?error:?\s*", "", rest)
    text = re.sub(r"^static assertion failed:\s*", "", text)
    return _OURS.sub("", text)
