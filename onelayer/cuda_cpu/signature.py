"""The host functions that a `.cu` text exports: what `extern "C"` declares, and its parameters."""

import re
from dataclasses import dataclass

from onelayer.cuda_cpu.tokens import without_comments

_BLOCK = re.compile(r'extern\s*"C"\s*\{')
_FUNCTION = re.compile(
    r"(?P<result>(?:\b[\w:]+[\s*]+)+?)(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{"
)
_NOISE = re.compile(r"\b(const|volatile|restrict|__restrict__|__restrict|struct)\b")


@dataclass(frozen=True)
class Parameter:
    """kind: pointer, float, double, integer, bool or stream. of: what a pointer points to."""

    name: str
    kind: str
    of: str


@dataclass(frozen=True)
class Signature:
    """A function's result (void, integer, float, double or bool) and parameters."""

    name: str
    result: str
    parameters: tuple[Parameter, ...]


def signatures(source: str) -> dict[str, Signature]:
    """Return the functions by name, as far as the text alone can tell (no macros, no typedefs)."""
    code = without_comments(source)
    found: dict[str, Signature] = {}
    for start, end in _exported(code):
        for match in _FUNCTION.finditer(code, start, end):
            if not re.search(r"\b(static|else|return|__global__|__device__)\b", match["result"]):
                found.setdefault(match["name"], _signature(match))
    return found


def _exported(code: str) -> list[tuple[int, int]]:
    """The stretches that `extern "C"` stands before: a block, or the head of one function."""
    stretches = [(m.end(), _closing(code, m.end())) for m in _BLOCK.finditer(code)]
    for match in re.finditer(r'extern\s*"C"\s*(?=\w)', code):
        stretches.append((match.end(), code.find("{", match.end()) + 1))
    return sorted(stretches)


def _closing(code: str, at: int) -> int:
    depth = 1
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0:
            return i
    return len(code)


def _signature(match: re.Match[str]) -> Signature:
    given = [p for p in match["parameters"].split(",") if p.strip() not in ("", "void")]
    words = match["result"].split()
    result = "void" if words[-1:] == ["void"] else _kind(match["result"])
    return Signature(match["name"], result, tuple(_parameter(p) for p in given))


def _parameter(text: str) -> Parameter:
    text = text.split("=")[0].strip()
    named = re.match(r"(?P<type>.*?[\s*&])(?P<name>\w+)\s*(\[\s*\w*\s*\])?$", text, re.DOTALL)
    kind, name = (named["type"], named["name"]) if named else (text, "?")
    if "*" in kind or (named and named[3]):
        return Parameter(name, "pointer", " ".join(_NOISE.sub(" ", kind.replace("*", " ")).split()))
    return Parameter(name, _kind(kind), "")


def _kind(text: str) -> str:
    words = set(_NOISE.sub(" ", text).split())
    for kind in ("double", "float", "bool"):
        if kind in words:
            return kind
    return "stream" if "cudaStream_t" in words else "integer"
