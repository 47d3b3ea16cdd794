"""What ASan and TSan print, made into faults with the student's lines."""

import re

from onelayer.cuda_cpu.faults import Fault
from onelayer.cuda_cpu.text import Text
from onelayer.drawing.words import say

_ASAN = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)(?P<body>.*?)(?=^==|\Z)", re.S | re.M)
_ACCESS = re.compile(r"\b(?P<access>READ|WRITE) of size (?P<size>\d+)")
_TSAN = re.compile(r"WARNING: ThreadSanitizer: (?P<what>[^\n(]+)(?P<body>.*?)^={10}", re.S | re.M)
_PART = re.compile(
    r"^ +(?:Previous )?(?P<access>(?:atomic )?(?:read|write)) of size (?P<size>\d+)[^\n]*\n"
    r"(?P<frames>(?:^ +#\d[^\n]*\n)+)",
    re.S | re.M | re.I,
)


def sanitizer_faults(said: str, text: Text) -> list[Fault]:
    """Return the faults in a sanitizer's output, each kind and pair of lines once."""
    found: dict[tuple[object, ...], Fault] = {}
    for match in _ASAN.finditer(said):
        fault = _bounds(match, text)
        found.setdefault((fault.kind, fault.line), fault)
    for match in _TSAN.finditer(said):
        fault = _race(match, text)
        found.setdefault((fault.kind, *sorted((fault.line, fault.other_line or 0))), fault)
    return list(found.values())


def _bounds(match: re.Match[str], text: Text) -> Fault:
    line, kernel = _frame(match["body"], text)
    access = _ACCESS.search(match["body"])
    sentence = say("AddressSanitizer finds an access outside: {what}", what=match["what"])
    if access:
        sentence = say(
            "AddressSanitizer finds a {access} of {n} bytes outside: {what}",
            access=access["access"].lower(),
            n=access["size"],
            what=match["what"],
        )
    return Fault("out_of_bounds", line, sentence, kernel, code=text.line(line))


def _race(match: re.Match[str], text: Text) -> Fault:
    parts = [
        (p["access"].lower(), *_frame(p["frames"], text)) for p in _PART.finditer(match["body"])
    ]
    (access, line, kernel), *others = parts or [("access", 0, "")]
    sentence = say(
        "ThreadSanitizer finds a {access} here, by two threads and without order", access=access
    )
    other = None
    if others:
        before, other, _ = others[0]
        sentence = say(
            "ThreadSanitizer finds a {access} here, and a {before} in line {line}, by two threads "
            "and without order",
            access=access,
            before=before,
            line=other,
        )
    return Fault("race", line, sentence, kernel, other, code=text.line(line))


def _frame(frames: str, text: Text) -> tuple[int, str]:
    """The line of the innermost frame in the student's file, and its function's name."""
    place = re.compile(
        rf"#\d+ (?:0x[0-9a-f]+ in )?(?P<who>.+?) \S*{re.escape(text.name)}:(?P<at>\d+)"
    )
    match = place.search(frames)
    if match is None:
        return 0, ""
    return int(match["at"]), re.sub(r"^\w+ (?=\w+[<(])|[<(].*", "", match["who"])
