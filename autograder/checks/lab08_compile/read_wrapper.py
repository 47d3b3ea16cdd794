"""Reading a file that this machine's Inductor wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, expect_equal, expect_tuple, within
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
    "dtypes": "[(y := x @ w @ w).double(), y.half(), y.to(torch.int32), y.bfloat16() > 1, "
    "y.to(torch.int16), y.to(torch.uint8), y[:, :3, None, None] + b[:2]]",
    "kept": "[(y := (x @ w).relu()), y.sum(), y[0] > 1, y > 1, x.t() * 2, y[:, :3, None] + b, "
    "y.argmax(-1), "
    "torch.bmm(x[None].expand(2, -1, -1), w[None].expand(2, -1, -1)).log1p()]",
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
    for program in (
        "twice",
        "kept",
        "word",
        "dtypes",
        *(draw.choice(list(PROGRAMS)) for _ in draw.cases(1)),
    ):
        text = _file(program, draw.integer(2, 9), draw.integer(20, 40))
        with explaining(_RAISED):
            got = student.call("read_wrapper", text)
        launched, nbytes = expect_tuple(got, 2, "(names of what is launched, bytes)")
        kernels, allocated = _read(text)
        with within("the launches,"):
            expect_equal(launched, kernels, why=_missed(launched, kernels))
        with within("the bytes,"), saying(_made(nbytes, allocated, text)):
            expect_equal(nbytes, allocated, why=_unmade(nbytes, allocated, text))


def _missed(launched: Any, kernels: list[str]) -> str:
    """Which launch is missing, where all that is listed is right."""
    missing = [k for k in kernels if k not in launched] if _is_part(launched, kernels) else []
    for name in missing:
        return (
            f"{name!r} is missing. All that stands between `cpp_fused` or `extern_kernels.` and "
            "the bracket is part of a name: any operators and products, and digits."
        )
    return ""


def _unmade(nbytes: Any, allocated: list[int], text: str) -> str:
    """Which buffer is missing, where all that is listed is right, and no other has as many
    bytes."""
    if not _is_part(nbytes, allocated):
        return ""
    k = next(k for k, n in enumerate(allocated) if nbytes.count(n) < allocated.count(n))
    if allocated.count(allocated[k]) > 1:
        return ""
    sizes, dtype = _sizes(text)[k], _dtypes(text)[k]
    return (
        f"A buffer is missing, of the sizes {sizes} and the dtype {dtype}. However many sizes it "
        "has, `empty_strided_cpu` makes it."
    )


def _is_part(got: Any, want: list[Any]) -> bool:
    """Whether `got` is `want` without some of its entries."""
    rest = iter(want)
    listed = isinstance(got, (list, tuple)) and 0 < len(got) < len(want)
    return listed and all(any(entry == right for right in rest) for entry in got)


def _made(nbytes: Any, allocated: list[int], text: str) -> str:
    """How the first buffer is made whose bytes are wrong."""
    if not isinstance(nbytes, (list, tuple)) or len(nbytes) != len(allocated):
        return ""
    k = next((k for k, n in enumerate(allocated) if nbytes[k] != n), 0)
    sizes, dtype = _sizes(text)[k], _dtypes(text)[k]
    return f"This buffer has the sizes {sizes} and the dtype {dtype}: {allocated[k]} bytes."


_seen: dict[str, Ran] = {}  # what each drawn file did when it was run


@lru_cache(256)
def _file(program: str, n: int, v: int) -> str:
    """What Inductor writes for a program on x (n, v), w (v, v), b (v,)."""
    page: dict[str, Any] = {"torch": torch, "F": F}
    exec(f"def step(x, w, b):\n    y = {PROGRAMS[program]}\n    return y", page)
    inputs = [torch.zeros(n, v), torch.zeros(v, v), torch.zeros(v)]
    text = inductor_source(fx.symbolic_trace(page["step"]), *inputs)
    if program == "twice":  # as in a longer file, whose kernels have numbers of two digits
        text = re.sub(r"\b(cpp_fused\w*_)(?=\d+\b)", r"\g<1>1", text)
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
    "calls a library there.",
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


def _listed(name: str, sentence: str, change: Callable[[list[str], list[int], str], Any]) -> None:
    read_wrapper.wrong(name, sentence, read_wrapper=lambda text: change(*_read(text), text))


def _sizes(text: str) -> list[str]:
    return re.findall(r"empty_strided_cpu\((\(.*?\))", _call_of(text))


def _dtypes(text: str) -> list[str]:
    return re.findall(r"empty_strided_cpu\(\(.*?\), \(.*?\), torch\.(\w+)\)", _call_of(text))


_listed(
    "four_for_integers",
    "An int64 was counted with 4 bytes. The third argument is the dtype, and an int64 has 8.",
    lambda kernels, allocated, text: (
        kernels,
        [n // 2 if d == "int64" else n for n, d in zip(allocated, _dtypes(text), strict=True)],
    ),
)
_listed(
    "four_for_bools",
    "A bool was counted with 4 bytes. The third argument is the dtype, and a bool has 1.",
    lambda kernels, allocated, text: (
        kernels,
        [4 * n if d == "bool" else n for n, d in zip(allocated, _dtypes(text), strict=True)],
    ),
)
_listed(
    "eight_if_no_float",
    "A bool was counted with 8 bytes. The third argument is the dtype, and a bool has 1.",
    lambda kernels, allocated, text: (
        kernels,
        [8 * n if d == "bool" else n for n, d in zip(allocated, _dtypes(text), strict=True)],
    ),
)
_listed(
    "bits_for_bools",
    "A bool was counted as a bit. It has a byte of its own.",
    lambda kernels, allocated, text: (
        kernels,
        [n / 8 if d == "bool" else n for n, d in zip(allocated, _dtypes(text), strict=True)],
    ),
)
_listed(
    "nothing_without_sizes",
    "A buffer whose size is () holds one number: the product of no sizes is 1. It was counted as "
    "0.",
    lambda kernels, allocated, text: (
        kernels,
        [n * ("empty_strided_cpu(()" not in line) for n, line in _with_lines(allocated, text)],
    ),
)
_listed(
    "left_out_without_sizes",
    "A buffer whose size is () is missing. It holds one number: the product of no sizes is 1.",
    lambda kernels, allocated, text: (
        kernels,
        [n for n, line in _with_lines(allocated, text) if "empty_strided_cpu(()" not in line],
    ),
)
_listed(
    "only_matrices",
    "Only buffers with two sizes are here. A size can be `(7, )` or `()` too.",
    lambda kernels, allocated, text: (
        kernels,
        [n for n, line in _with_lines(allocated, text) if re.search(r"cpu\(\(\d+, \d+\)", line)],
    ),
)
_listed(
    "first_size_only",
    "Only the first size was counted. The elements are the product of all sizes.",
    lambda kernels, allocated, text: (
        kernels,
        [
            n
            // max(1, math.prod(map(int, re.findall(r"\d+", line.split("(")[2].split(")")[0])[1:])))
            for n, line in _with_lines(allocated, text)
        ],
    ),
)
_listed(
    "of_the_strides",
    "The first size times the first stride is right where the rows lie one behind another, and not "
    "for a buffer that lies otherwise. Take the product of the sizes.",
    lambda kernels, allocated, text: (
        kernels,
        [
            n if m is None else n // (math.prod(sizes := _numbers(m[1]))) * sizes[0] * int(m[2])
            for n, line in _with_lines(allocated, text)
            for m in [re.search(r"cpu\(\((\d.*?)\), \((\d+)", line)]
        ],
    ),
)
_listed(
    "in_all",
    "The bytes were added up. The bytes of each buffer are asked, in order.",
    lambda kernels, allocated, text: (kernels, sum(allocated)),
)
_listed(
    "first_buffer_only",
    "Only one buffer is here. Each one that `call` makes is asked for.",
    lambda kernels, allocated, text: (kernels, allocated[:1]),
)
_listed(
    "last_buffer_only",
    "Only one buffer is here. Each one that `call` makes is asked for.",
    lambda kernels, allocated, text: (kernels, allocated[-1:]),
)
_listed(
    "bytes_sorted",
    "The bytes are sorted. They are asked in the order in which `call` makes the buffers.",
    lambda kernels, allocated, text: (kernels, sorted(allocated)),
)
_listed(
    "launches_sorted",
    "The fused kernels stand first here and the products behind, as where the launches are sorted, "
    "or looked for one kind after the other. They are asked in the order in which `call` makes "
    "them.",
    lambda kernels, allocated, text: (sorted(kernels), allocated),
)
_listed(
    "products_first",
    "The products stand first here and the fused kernels behind, as where the launches are looked "
    "for one kind after the other. They are asked in the order in which `call` makes them.",
    lambda kernels, allocated, text: (
        sorted(kernels, key=lambda k: not k.startswith("extern")),
        allocated,
    ),
)
_listed(
    "backwards",
    "The launches stand here from the last to the first. They are asked in order.",
    lambda kernels, allocated, text: (kernels[::-1], allocated),
)
_listed(
    "name_cut",
    "The number at the end is part of a kernel's name: two kernels can differ in it alone.",
    lambda kernels, allocated, text: ([re.sub(r"_\d+$", "", k) for k in kernels], allocated),
)
_listed(
    "addmm_alone",
    "A launch of `extern_kernels` is missing. The library has more products than `addmm`: `mm` is "
    "one.",
    lambda kernels, allocated, text: (
        [k for k in kernels if not k.startswith("extern") or k.endswith("addmm")],
        allocated,
    ),
)
_listed(
    "the_other_way_round",
    "The two lists changed places: the launches first, then the bytes.",
    lambda kernels, allocated, text: (allocated, kernels),
)
_listed(
    "launches_alone",
    "Only the launches came. The bytes of each new buffer are asked as well.",
    lambda kernels, allocated, text: kernels,
)


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n.strip()]


def _with_lines(allocated: list[int], text: str) -> list[tuple[int, str]]:
    """The bytes of each buffer, with the line that makes it."""
    lines = [line for line in _call_of(text).splitlines() if "= empty_strided_cpu(" in line]
    return list(zip(allocated, lines, strict=True))


@read_wrapper.cost
def _(student: Student, draw: Draw) -> str:
    text = _file("softmax", 32, 40)
    kernels, allocated = student.call("read_wrapper", text)
    return (
        f"{len(text):,} characters that Inductor wrote for three operators: {len(kernels)} "
        f"launches, {len(allocated)} buffers, {sum(allocated):,} bytes"
    )
