"""Reading a file that this machine's Inductor wrote."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal
from onelayer.compiler.unbuilt import inductor_source

from . import lab
from .inductor_file import Ran, ran

Read = tuple[list[str], list[int]]
_RAISED = {
    "ValueError": "A size in the file can be `(7, 600)`, `(600, )` or `()`. Split at commas, and "
    "leave out what is empty: the product of no sizes is 1.",
}
PROGRAMS = {
    "twice": "torch.tanh(F.linear(torch.tanh(F.linear(x, w, b)), w, b))",
    "softmax": "torch.softmax(F.linear(x, w, b) * 2, -1)",
    "word": "F.linear(x, w, b).relu().argmax(-1)",
    "chosen": "torch.where(F.linear(x, w, b) > 0, x, b).sum(-1)",
    "loss": "F.cross_entropy(F.linear(x, w, b), x.argmax(-1))",
    "kept": "[(y := F.linear(x, w, b).relu()), y.sum(), y > 1]",
}


@lab.question(
    "read_wrapper",
    points=4,
    minutes=14,
    difficulty=3,
    hints=(
        "Find `def call(` in the file. Which lines launch something, and which make a buffer?",
        "A launch is a line that begins with `extern_kernels.NAME(` or `cpp_fused_NAME(`; a buffer "
        "is an `empty_strided_cpu(size, stride, dtype)`, and its bytes are the product of its "
        "sizes times getattr(torch, dtype).itemsize. `buf1 = buf0` makes nothing.",
        r're.findall(r"^\s+(cpp_fused\w*|extern_kernels\.\w+)\(", body, re.MULTILINE)',
    ),
    budget_s=60.0,
    host="It reads what Inductor writes for the CPU.",
)
def read_wrapper(student: Student, draw: Draw) -> None:
    """What a file of Inductor's launches, in order, and the bytes of each buffer that it makes.

    text (a whole file, as Inductor wrote it for a drawn program) -> (names, bytes).
    """
    for program in ("twice", "word", *(draw.choice(list(PROGRAMS)) for _ in draw.cases(1))):
        text = _file(program, draw.integer(2, 9), draw.integer(20, 40))
        with explaining(_RAISED):
            got = student.call("read_wrapper", text)
        expect_equal(got, _read(text))


_seen: dict[str, Ran] = {}  # what each drawn file did when it was run


@lru_cache(256)
def _file(program: str, n: int, v: int) -> str:
    """What Inductor writes for a program on x (n, v), w (v, v), b (v,)."""
    page: dict[str, Any] = {"torch": torch, "F": F}
    exec(f"def step(x, w, b):\n    y = {PROGRAMS[program]}\n    return y", page)
    inputs = [torch.zeros(n, v), torch.zeros(v, v), torch.zeros(v)]
    text = inductor_source(fx.symbolic_trace(page["step"]), *inputs)
    if len(_seen) >= 256:  # a worker grades a whole class
        _seen.clear()
        _file.cache_clear()
    _seen[text] = ran(text, inputs)
    return text


def _read(text: str) -> Read:
    return _seen[text].kernels, _seen[text].allocated


def _call_of(text: str) -> str:
    return text[text.index("def call(") :]


@read_wrapper.wrong(
    "definitions",
    "These are the kernels that the file defines, each once. A kernel can be launched several "
    "times, and a product is defined elsewhere: read `call`.",
)
def _(text: str) -> Read:
    return re.findall(r"^(cpp_fused\w*) = async_compile", text, re.MULTILINE), _read(text)[1]


@read_wrapper.wrong(
    "each_once",
    "A kernel that is launched twice stands here once. Launches were asked for.",
)
def _(text: str) -> Read:
    kernels, allocated = _read(text)
    return list(dict.fromkeys(kernels)), allocated


@read_wrapper.wrong(
    "products_left_out",
    "The products are missing. `extern_kernels.addmm(...)` is a launch like the others: Inductor "
    "calls a library there, and fuses nothing into it.",
)
def _(text: str) -> Read:
    kernels, allocated = _read(text)
    return [name for name in kernels if not name.startswith("extern")], allocated


@read_wrapper.wrong(
    "fused_left_out", "The fused kernels are missing: `cpp_fused_...(...)` is a launch."
)
def _(text: str) -> Read:
    kernels, allocated = _read(text)
    return [name for name in kernels if name.startswith("extern")], allocated


@read_wrapper.wrong(
    "without_extern",
    "The launches are right, their names are not whole: `extern_kernels.` is part of the name.",
)
def _(text: str) -> Read:
    kernels, allocated = _read(text)
    return [name.removeprefix("extern_kernels.") for name in kernels], allocated


@read_wrapper.wrong(
    "every_buffer_has_its_own",
    "`buf1 = buf0; del buf0` makes no buffer: Inductor gives the memory of one to the next.",
)
def _(text: str) -> Read:
    kernels, _ = _read(text)
    named: dict[str, int] = {}
    made = iter(_read(text)[1])
    for name, source in re.findall(r"\b(buf\d+) = (empty_strided_cpu|buf\d+)", _call_of(text)):
        named[name] = next(made) if source.startswith("empty") else named[source]
    return kernels, list(named.values())


read_wrapper.wrong(
    "four_bytes_each",
    "Every element was counted with 4 bytes. An index has 8, a bool has 1: the third argument is "
    "the dtype.",
    read_wrapper=lambda text: (_read(text)[0], [4 * n for n in _elements(text)]),
)
read_wrapper.wrong(
    "elements",
    "These are elements. Times the bytes of one: getattr(torch, dtype).itemsize.",
    read_wrapper=lambda text: (_read(text)[0], _elements(text)),
)


def _elements(text: str) -> list[int]:
    found = re.findall(r"empty_strided_cpu\(\((.*?)\)", _call_of(text))
    return [math.prod(int(n) for n in size.split(",") if n.strip()) for size in found]


@read_wrapper.cost
def _(student: Student, draw: Draw) -> str:
    text = _file("softmax", 32, 40)
    kernels, allocated = student.call("read_wrapper", text)
    return (
        f"{len(text):,} characters that Inductor wrote for three operators: {len(kernels)} "
        f"launches, {len(allocated)} buffers, {sum(allocated):,} bytes"
    )
