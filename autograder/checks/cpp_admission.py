"""What a text of C++ may say in the clean room: it computes, and names nothing of the process that
it runs in.

A text that is not admitted is no wrong answer: a person looks at it. Names are compared as the
compiler reads them, so what makes a name out of others (##, a backslash, asm) is not admitted
either, and a function that is declared and not written is one of somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.judge import NotAdmitted, Student
from onelayer.cuda_cpu.tokens import pieces, without_comments

_HEADERS = re.compile(
    r"<(?:c(?:stddef|stdint|math|float|limits|assert)|algorithm|array|limits|numeric|optional"
    r"|tuple|type_traits|utility|vector|(?:stddef|stdint|math|float|limits|assert)\.h"
    r"|cuda_(?:runtime|fp16|bf16)\.h|torch/(?:csrc/stable|headeronly)/[\w/]+\.h)>"
)
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(\w*)[ \t]*(.*)$", re.MULTILINE)
_DIRECTIVES = {"", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"}
_NAMES = re.compile(
    r"(?:_*asm(?:_*|m)|volatile_asm|__attribute(?:__)?|gnu|clang|__builtin_\w+|__asm\w*"
    r"|_?Py[A-Z_]\w*|_*dl[a-z_]+|_*libc\w*|__cxa\w*|_dl_?\w*|_rtld\w*|_Z\w+|_DYNAMIC|_GLOBAL\w*"
    r"|__(?:t|a|l|m|ub)san\w*|__sanitizer\w*|onelayer\w*|ONELAYER\w*|Onelayer\w*|ctypes\w*|ffi_\w*|pthread\w*|std_?thread|jthread"
    r"|system|popen|v?fork|exec[lv]p?e?|posix_spawnp?|syscall|ptrace|mmap|mremap|mprotect|munmap"
    r"|memfd_\w+|shm_open|process_vm\w*|openat2?|fopen|fdopen|freopen|[io]?fstream|getenv|setenv"
    r"|putenv|environ|sig(?:nal|action|queue|longjmp|setjmp)|_*(?:set|long)jmp|(?:make|swap|set|get)"
    r"context|atexit|on_exit|quick_exit|_[Ee]xit|abort|backtrace\w*|__executable_start|_?etext"
    r"|_?edata|__bss_start|__data_start|thread|async|filesystem|type_info|typeid|dlsym)"
)
_CALLED = {"open", "read", "write", "send", "recv", "dup", "dup2", "kill", "raise", "exit", "clone"}
_PROTOTYPE = re.compile(r"\)\s*(?:noexcept\s*)?;")
_SCOPE = re.compile(r'(?:extern\s*"C"|namespace(?:\s+\w+)?)\s*$')


def expect_admitted(student: Student, text: str) -> None:
    """Raises NotAdmitted, while grading, for the first line that a machine does not let in."""
    if not student.is_grading:
        return
    lines = text.splitlines()
    for line, reason in sorted(not_admitted(text)):
        source = lines[line - 1] if line <= len(lines) else ""
        raise NotAdmitted(line, source, reason)


def not_admitted(text: str) -> Iterator[tuple[int, str]]:
    """(line, why not) of what may not stand in a text."""
    code = without_comments(text)
    yield from _spliced(text)
    yield from _directives(code)
    yield from _names(code)
    yield from _declared_elsewhere(code)


def _at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _spliced(text: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(r"\\[ \t]*\n|\?\?[=/'()!<>-]|\\u|\\U|##", text):
        yield _at(text, found.start()), "it makes one word of several"


def _directives(code: str) -> Iterator[tuple[int, str]]:
    for found in _DIRECTIVE.finditer(code):
        name, rest = found[1], found[2].strip()
        if name == "include" and _HEADERS.fullmatch(rest):
            continue
        if name == "pragma" and rest.startswith(("unroll", "once", "GCC unroll")):
            continue
        if name not in _DIRECTIVES:
            why = f"#{name} of this file" if name == "include" else f"#{name}"
            yield _at(code, found.start()), why


def _names(code: str) -> Iterator[tuple[int, str]]:
    known = [(kind, text) for kind, text in pieces(code) if kind != "comment"]
    at = 1
    for k, (kind, text) in enumerate(known):
        after = next((t for kind_, t in known[k + 1 :] if kind_ != "blank"), "")
        if kind == "word" and _NAMES.fullmatch(text):
            yield at, "it names what is not arithmetic"
        elif kind == "word" and text in _CALLED and after == "(":
            yield at, "it calls the system"
        elif text == "extern" and after not in ('"C"', "__shared__"):
            yield at, "it uses what is defined elsewhere"
        elif kind == "other" and text == "\\":
            yield at, "it makes one word of several"
        at += text.count("\n")


def _declared_elsewhere(code: str) -> Iterator[tuple[int, str]]:
    """Functions that are declared and have no body, where functions are declared."""
    masked = "".join(
        re.sub(r"[^\n]", "_", text) if kind in ("raw", "string") and text != '"C"' else text
        for kind, text in pieces(re.sub(r"(?m)^[ \t]*#.*$", lambda m: " " * len(m[0]), code))
    )
    inner: list[bool] = []  # of each open brace, whether statements stand in it
    start = 0
    for place, letter in enumerate(masked):
        if letter == "{":
            inner.append(not _SCOPE.search(masked[start:place]))
            start = place + 1
        elif letter == "}":
            inner[-1:] = []
            start = place + 1
        elif letter == ";":
            said = masked[start : place + 1]
            if not any(inner) and _PROTOTYPE.search(said) and "=" not in said:
                yield _at(masked, place), "it declares a function that it does not write"
            start = place + 1
