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

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


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
        elif kind == "word" and text == "__launch_bounds__":
            _bound(parts, i)
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
            nulls = ("NULL",) if _is_template(parts, name) else ("NULL", "0")
            _null_arguments(parts, _following(parts, i, "("), nulls)
            return


def _null_arguments(parts: list[list[str]], at: int, nulls: tuple[str, ...]) -> None:
    """NULL and 0 among the arguments of a launch, from its `(` on, are the null of any type: nvcc
    knows the parameter's, and here they are copied before it is known. A 0 may also tell a template
    its type, so there it stays an int."""
    depth = 0
    for i in range(at, len(parts)):
        text = parts[i][1]
        depth += (text in _OPENING) - (text in _CLOSING)
        if depth == 0:
            return
        if depth == 1 and text in nulls and _neighbours(parts, i) <= {"(", ",", ")"}:
            parts[i][1] = "::onelayer_cuda::Null{}"


def _neighbours(parts: list[list[str]], at: int) -> set[str]:
    """The code before and behind a piece, without blanks and comments."""
    code = ("blank", "comment")
    before = next((t for k, t in reversed(parts[:at]) if k not in code), "")
    behind = next((t for k, t in parts[at + 1 :] if k not in code), "")
    return {before, behind}


def _is_template(parts: list[list[str]], kernel: str) -> bool:
    """Whether the text has a kernel of that name whose types are found from its arguments."""
    text = _code(parts, 0, len(parts))
    bounds = r"(__launch_bounds__\([^{};]*\))?[^;{}(]*"
    form = rf"\btemplate\s*<[^;{{}}]*__global__[^;{{}}(]*{bounds}\b{kernel}\s*\("
    return re.search(form, text) is not None


def _bound(parts: list[list[str]], at: int) -> None:
    """A kernel with `__launch_bounds__(most, ...)` begins with a look at the size of its block."""
    start = _following(parts, at, "(")
    end = _matching(parts, start)
    body = _after_parameters(parts, end + 1)
    if body is None:
        return  # a declaration: the definition has its own
    most = _first_argument(parts, start, end)
    parts[body][1] = f"{{ ::onelayer_launch_bounds({most});"


def _following(parts: list[list[str]], at: int, wanted: str) -> int:
    return next((i for i in range(at, len(parts)) if parts[i][1] == wanted), len(parts))


def _matching(parts: list[list[str]], at: int) -> int:
    """Where the bracket that opens at `at` closes, or the end of the text."""
    depth = 0
    for i in range(at, len(parts)):
        depth += (parts[i][1] in _OPENING) - (parts[i][1] in _CLOSING)
        if depth == 0:
            return i
    return len(parts)


def _after_parameters(parts: list[list[str]], at: int) -> int | None:
    """Where the body begins of the function whose name and parameters come from `at` on."""
    i = at
    while i < len(parts) and parts[i][1] not in ";{":
        i = _matching(parts, i) + 1 if parts[i][1] in _OPENING else i + 1
    return i if i < len(parts) and parts[i][1] == "{" else None


def _first_argument(parts: list[list[str]], start: int, end: int) -> str:
    """The text between two brackets up to the first comma that is in no bracket of its own."""
    i = start + 1
    while i < end and parts[i][1] != ",":
        i = _matching(parts, i) + 1 if parts[i][1] in _OPENING else i + 1
    return " ".join(_code(parts, start + 1, min(i, end)).split())


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
