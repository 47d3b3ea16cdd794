"""The loop nests of a kernel that Inductor generated: which pointers each reads and writes.

The text is C++ or Triton that a program wrote, so that a few patterns cover it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

_SIGNATURE = re.compile(r"\bkernel\((?P<cpp>[^)]*)\)|^def \w+\((?P<triton>[^)]*)\):", re.MULTILINE)
_ALIAS = re.compile(r"\bauto (\w+) = (\w+_ptr\w*);")
_FOR = re.compile(
    r"for\s*\((?:int64_t|long|int) (?P<name>\w+)\s*=\s*(?P<start>[^;]*);"
    r"[^;<]*<\s*(?P<end>[^;]*);\s*\w+(?P<step>[^{]*)\)\s*\{"
)
_NUMBER = re.compile(r"(\d+)L?\)*\s*$")
_TRITON_ACCESS = re.compile(r"tl\.(?P<how>load|store|atomic_\w+)\((?P<name>\w+) \+ ")
_NUMEL = re.compile(r"^\s+\w+numel = (\d+)$", re.MULTILINE)
_LOOKED_UP = re.compile(r"\btmp\d+")


@dataclass(frozen=True)
class Nest:
    """Parameter -> in how many turns it is touched, None for "all of it"."""

    reads: dict[str, int | None]
    writes: dict[str, int | None]


@dataclass(frozen=True)
class Body:
    """A kernel: the names of its parameters in order, and its nests in order."""

    parameters: tuple[str, ...]
    nests: tuple[Nest, ...]

    @property
    def reads(self) -> set[str]:
        """What it reads before it has itself written it."""
        found: set[str] = set()
        written: set[str] = set()
        for nest in self.nests:
            found |= nest.reads.keys() - written
            written |= nest.writes.keys()
        return found

    @property
    def writes(self) -> set[str]:
        return {name for nest in self.nests for name in nest.writes}


def body_of(source: str, language: str) -> Body:
    """The body of a kernel's `source`; language: "C++" or "Triton"."""
    signature = _SIGNATURE.search(source)
    if signature is None:
        return Body((), ())
    if language == "Triton":
        parameters = [p.split(":")[0].strip() for p in signature["triton"].split(",")]
        return Body(tuple(parameters), (_triton_nest(source[signature.end() :]),))
    names = tuple(p.split()[-1].lstrip("*&") for p in signature["cpp"].split(",") if p.strip())
    text = source[signature.end() :]
    owner = {name: name for name in names}
    for new, old in _ALIAS.findall(text):
        owner[new] = owner.get(old, old)
    nests = (_cpp_nest(block, owner) for block in _blocks(text))
    return Body(names, tuple(nest for nest in nests if nest.reads or nest.writes))


def _blocks(text: str) -> Iterator[str]:
    """The outermost blocks of the function that `text` begins with, those of a parallel region
    one by one."""
    start = text.index("{")
    for begin, end in _inside(text, start, _closing(text, start)):
        head = text[:begin].rstrip().rpartition("\n")[2]
        if re.match(r"#pragma omp parallel(?! for)", head.lstrip()):
            yield from (text[b:e] for b, e in _inside(text, begin, end))
        else:
            yield text[begin:end]


def _inside(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each block directly inside the block from `start` to `end`."""
    at = text.find("{", start + 1, end)
    while at != -1:
        close = _closing(text, at)
        if text[at:close].strip("{}; \n"):
            yield at, close
        at = text.find("{", close, end)


def _closing(text: str, opening: int) -> int:
    """The place behind the bracket that closes the one at `opening`."""
    pair = {"{": "}", "(": ")", "[": "]"}[text[opening]]
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == text[opening]) - (text[at] == pair)
        if depth == 0:
            return at + 1
    return len(text)


def _cpp_nest(block: str, owner: dict[str, str]) -> Nest:
    loops = [(m.end() - 1, _closing(block, m.end() - 1), _turns(m)) for m in _FOR.finditer(block)]
    reads: dict[str, int | None] = {}
    writes: dict[str, int | None] = {}
    for match in re.finditer(r"\b\w+_ptr\w*\b", block):
        if match[0] not in owner or _ALIAS.match(block, _line_start(block, match.start())):
            continue
        name = owner[match[0]]
        around = [turns for begin, end, turns in loops if begin < match.start() < end]
        index = _index(block, match.end())
        turns = _product(around) if _LOOKED_UP.search(index) else None
        read, write = _direction(block, match.start(), match.end(), len(index))
        if read and name not in writes:
            _touch(reads, name, turns)
        if write:
            _touch(writes, name, turns)
    return Nest(reads, writes)


def _line_start(block: str, at: int) -> int:
    """Where the statement around `at` begins on its line."""
    start = block.rfind("\n", 0, at) + 1
    return start + len(block[start:]) - len(block[start:].lstrip(" "))


def _index(block: str, at: int) -> str:
    """The index behind a pointer: `[...]`, or `+ ...` up to the comma or bracket that ends it."""
    if block[at : at + 1] == "[":
        return block[at : _closing(block, at)]
    depth, end = 0, at
    while end < len(block) and depth >= 0 and not (depth == 0 and block[end] == ","):
        depth += (block[end] in "([") - (block[end] in ")]")
        end += 1
    return block[at:end]


def _direction(block: str, start: int, end: int, length: int) -> tuple[bool, bool]:
    """Whether this mention of a pointer reads, and whether it writes."""
    before = block[max(0, start - 40) : start]
    if re.search(r"\.store\($", before):
        return False, True
    if re.search(r"atomic_add\w*(<[^>]*>)?\(&?$", before):
        return True, True
    behind = block[end + length :].lstrip() if block[end : end + 1] == "[" else ""
    if re.match(r"[-+*/|&]=", behind):
        return True, True
    if re.match(r"=[^=]", behind):
        return False, True
    return True, False


def _turns(loop: re.Match[str]) -> int | None:
    """How often a `for` goes round: None where its end is not a number."""
    start, end = _NUMBER.search(loop["start"]), _NUMBER.search(loop["end"])
    step = _NUMBER.search(loop["step"])
    if end is None:
        return None
    length = int(end[1]) - (int(start[1]) if start else 0)
    return -(-length // (int(step[1]) if step else 1))


def _product(turns: list[int | None]) -> int | None:
    known = [n for n in turns if n is not None]
    return prod(known) if len(known) == len(turns) else None


def _touch(where: dict[str, int | None], name: str, turns: int | None) -> None:
    """Adds `turns` to what is known of `name`; all of it stays all of it."""
    if turns is None or (name in where and where[name] is None):
        where[name] = None
    else:
        where[name] = (where.get(name) or 0) + turns


def _triton_nest(text: str) -> Nest:
    numel = [int(n) for n in _NUMEL.findall(text)]  # of each axis that the program walks along
    reads: dict[str, int | None] = {}
    writes: dict[str, int | None] = {}
    for match in _TRITON_ACCESS.finditer(text):
        index = _index(text, match.end())
        turns = prod(numel) if numel and _LOOKED_UP.search(index) else None
        if match["how"] != "store" and match["name"] not in writes:
            _touch(reads, match["name"], turns)
        if match["how"] != "load":
            _touch(writes, match["name"], turns)
    return Nest(reads, writes)
