"""A student's `.cu` text, made into C++: launches become calls, shared memory gets its place.

Nothing moves: every line keeps its number, so that what the compiler says of a line is true.
"""

import re
from dataclasses import dataclass

from onelayer.cuda_cpu.declarations import declarators
from onelayer.cuda_cpu.tokens import pieces

_TABLE = """\
#include "onelayer_cuda.h"
struct OnelayerPlace {{ char *begin, *end; int space, number; }};
#define ONELAYER_EDGE(edge, n) \\
    extern char onelayer_##edge##_##n[] __asm__("__" #edge "_onelayer_place_" #n) \\
        __attribute__((weak, visibility("hidden")));
extern "C" {{
{edges}
extern __attribute__((visibility("hidden"))) const OnelayerPlace onelayer_places[];
extern __attribute__((visibility("hidden"))) const int onelayer_place_count;
const OnelayerPlace onelayer_places[] = {{ {rows} {{nullptr, nullptr, 0, 0}} }};
const int onelayer_place_count = {count};
}}
#line 1 "{name}"
"""

# What a place is, as runtime/regions.h numbers it.
DEVICE, CONSTANT, SHARED = 2, 3, 4
_SPACES = {"__shared__": SHARED, "__device__": DEVICE, "__constant__": CONSTANT}
_BEFORE_PARENTHESES = {"__align__", "alignas", "__attribute__", "__launch_bounds__", "decltype"}


@dataclass(frozen=True)
class Placed:
    """A variable of the device: its space, and its declaration as the student wrote it."""

    space: int
    declaration: str


@dataclass(frozen=True)
class Rewritten:
    """text: C++. places: the variables of the device, in the order of their numbers, from 1."""

    text: str
    places: tuple[Placed, ...]


def rewrite(source: str, name: str, *, sections: bool = True) -> Rewritten:
    """Return C++ that g++ takes, for a text in CUDA C++. `name` is what messages call the file.

    sections: whether each variable of the device lies in one of its own (not under ASan).
    """
    parts = [list(piece) for piece in pieces(source)]
    places: list[Placed] = []
    for i, (kind, text) in enumerate(parts):
        if kind == "word" and text in _SPACES:
            _place(parts, i, places)
        elif kind == "open":
            _call(parts, i)
    body = "".join(text for _, text in parts)
    return Rewritten(_head(places if sections else [], name) + body, tuple(places))


def _head(places: list[Placed], name: str) -> str:
    numbered = [(n, p) for n, p in enumerate(places, 1) if p.space != SHARED]
    edges = "\n".join(f"ONELAYER_EDGE(start, {n}) ONELAYER_EDGE(stop, {n})" for n, _ in numbered)
    rows = " ".join(
        f"{{onelayer_start_{n}, onelayer_stop_{n}, {p.space}, {n}}}," for n, p in numbered
    )
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return _TABLE.format(edges=edges, rows=rows, count=len(numbered), name=quoted)


def _place(parts: list[list[str]], at: int, places: list[Placed]) -> None:
    """A variable of the device gets its place: `__device__` a section, `__shared__` a reference."""
    keyword = parts[at][1]
    start = at  # of the declaration
    while start and parts[start - 1][1] not in ";{}":
        start -= 1
    end = at
    while end < len(parts) and parts[end][1] != ";":
        end += 1
    words = {parts[i][1]: i for i in range(start, at) if parts[i][0] == "word"}
    if any(w.startswith("ONELAYER_PLACE") for w in words):
        return
    if keyword == "__shared__":
        _share(parts, words.get("extern", words.get("static", at)), at, end, places)
    elif "extern" not in words and _is_variable(parts, at):
        declared = _code(parts, at + 1, end)
        space = CONSTANT if re.search(r"\b__constant__\b", declared) else _SPACES[keyword]
        places.append(Placed(space, " ".join(declared.split())))
        parts[at][1] = f"ONELAYER_PLACE({len(places)})"


def _code(parts: list[list[str]], start: int, end: int) -> str:
    return "".join(text for kind, text in parts[start:end] if kind != "comment")


def _share(parts: list[list[str]], start: int, at: int, end: int, places: list[Placed]) -> None:
    """A declaration in shared memory becomes one of references to where it lies."""
    outside = parts[start][1] == "extern"
    made = declarators(_code(parts, start, end))
    if made is None or (outside and [d.suffix.replace(" ", "") for d in made] != ["[]"]):
        return  # no form that CUDA takes either: the compiler will say so
    line = 1 + sum(text.count("\n") for _, text in parts[:at])
    written = []
    for d in made:
        if outside:
            kind, where = f"{d.base}[]", "onelayer_dynamic_shared"
            value = f"reinterpret_cast<{d.base} (&)[]>({where})"
        else:
            kind = f"{d.base}{d.suffix}"
            places.append(Placed(SHARED, f"{d.base} {d.name}{d.suffix}"))
            value = f"::onelayer_cuda::shared<{kind}, {len(places)}>({line}, __PRETTY_FUNCTION__)"
        written.append(f"{'static ' * outside}{d.base} (&{d.name}){d.suffix} = {value}")
    lines = "".join(text for _, text in parts[start:end]).count("\n")
    parts[start][1] = "; ".join(written) + "\n" * lines
    for i in range(start + 1, end):
        parts[i][1] = ""


def _is_variable(parts: list[list[str]], at: int) -> bool:
    """Whether `__device__` stands before a variable, not before a function."""
    depth, skip = 0, False
    for kind, text in parts[at + 1 :]:
        if kind == "word":
            skip = text in _BEFORE_PARENTHESES
            if text == "operator" or text == "__global__":
                return False
        elif text == "(":
            if depth == 0 and not skip:
                return False
            depth += 1
        elif text == ")":
            depth -= 1
        elif depth == 0 and text in ("=", ";", "[", "{"):
            return True
    return False


def _call(parts: list[list[str]], at: int) -> None:
    """`k<<<g, b>>>(x)` becomes `Launch(line, "k", [&](...) { k(...); }, g, b)(x)`."""
    start, name = _callee(parts, at)
    line = 1 + sum(text.count("\n") for _, text in parts[:at])
    callee = "".join(text for _, text in parts[start:at])
    call = f"[&](auto... onelayer_x) ONELAYER_UNSEEN {{ {callee}(onelayer_x...); }}"
    parts[at][1] = f'::onelayer_cuda::Launch({line}, "{name}", {call}, '
    for i in range(start, at):
        parts[i][1] = ""
    depth = 0
    for i in range(at + 1, len(parts)):
        kind, text = parts[i]
        depth += (text in "([{") - (text in ")]}") if kind == "other" else 0
        if kind == "close" and depth == 0:
            parts[i][1] = ")"
            return


def _callee(parts: list[list[str]], at: int) -> tuple[int, str]:
    """Where the expression before `<<<` begins (`k`, `k<16>`, `space::k`), and the name in it."""
    i, depth, name = at - 1, 0, ""
    while i >= 0:
        kind, text = parts[i]
        if kind == "other" and text in "<>()[]":
            depth += (text in ">)]") - (text in "<([")
        elif depth == 0 and kind == "word" and not name:
            name = text
            if not (i and parts[i - 1][1] == ":"):
                return i, name
        elif depth == 0 and kind == "word" and parts[i - 1][1] != ":":
            return i, name
        elif text in ";{}":
            break
        i -= 1
    return i + 1, name or "kernel"
