"""What ASan and TSan print, made into faults with the student's lines."""

import re

from onelayer.cuda_cpu.faults import Fault
from onelayer.cuda_cpu.text import Text

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
    how = f"a {access['access'].lower()} of {access['size']} bytes" if access else "an access"
    sentence = f"AddressSanitizer finds {how} outside: {match['what']}"
    return Fault("out_of_bounds", line, sentence, kernel, code=text.line(line))


def _race(match: re.Match[str], text: Text) -> Fault:
    parts = [
        (p["access"].lower(), *_frame(p["frames"], text)) for p in _PART.finditer(match["body"])
    ]
    (access, line, kernel), *others = parts or [("access", 0, "")]
    before = f", and a {others[0][0]} in line {others[0][1]}" if others else ""
    sentence = f"ThreadSanitizer finds a {access} here{before}, by two threads and without order"
    other = others[0][1] if others else None
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
