"""Where the pages send a reader: every link has the right form, and its file is there.

No network is asked. PyTorch's sources are looked for in the installed torch: its Python files and
headers lie in the wheel, the files that write code lie in torchgen, and a library holds the name of
each C++ file that can raise an error.
"""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
import torch
import triton

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py"))
LABS = sorted((ROOT / "solutions").glob("*/*.py"))
HOME = Path(torch.__file__).parent
TAG = "v2.13.0"
TRITON_TAG = "v3.7.1"
CHUNK = 16 * 2**20  # bytes of a library that are read at a time
LONGEST = 4096  # of the name of a file
MIN_LINKS = 8  # of a chapter: what it says of PyTorch and does not show
# Of Triton's repository: where the wheel keeps what it has, and what it has not.
TRITON_MOVED = {"python/triton/": "", "third_party/nvidia/backend/": "backends/nvidia/"}
TRITON_NOT_SHIPPED = {
    "lib/Dialect/TritonGPU/Transforms/AccelerateMatmul.cpp",
    "lib/Dialect/TritonGPU/Transforms/Coalesce.cpp",
    "lib/Dialect/TritonGPU/Transforms/Pipeliner/SoftwarePipeliner.cpp",
}
NOT_SHIPPED = {  # in the repository only
    "CONTRIBUTING.md",
    "aten/src/ATen/native/README.md",
    "aten/src/ATen/native/cpu/README.md",
    # in a CUDA build only
    "aten/src/ATen/native/cuda/Nonzero.cu",
    "c10/cuda/CUDACachingAllocator.cpp",
}
ELSEWHERE = {  # what PyTorch builds on
    "https://developer.nvidia.com/blog/cuda-pro-tip-write-flexible-kernels-grid-stride-loops/",
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html",
    "https://man7.org/linux/man-pages/man3/mallopt.3.html",
}
PARTS = "docs/stable|tutorials|cppdocs"  # of PyTorch's own documentation
# Where the wheel keeps what the repository has elsewhere.
MOVED = {
    "aten/src/ATen/native/": "../torchgen/packaged/ATen/native/",
    "aten/src/": "include/",
    "tools/autograd/": "../torchgen/packaged/autograd/",
    "torch/": "",
    "": "include/",
}


def links(text: str) -> list[str]:
    """Return every address in a page's text, in order."""
    return re.findall(r"https?://[^\s)>\"'`\]]+", text)


def fault(link: str) -> str:
    """Return what is wrong with a link, or nothing."""
    address, _, anchor = link.partition("#")
    if address.startswith("https://github.com/triton-lang/triton/"):
        return fault_of_triton(address, anchor)
    source = re.fullmatch(r"https://github\.com/pytorch/pytorch/blob/([^/]+)/(\S+)", address)
    if source is None:
        return fault_of_docs(address)
    if source[1] != TAG:
        return f"{link}: not at tag {TAG}, so it will say something else one day"
    return fault_of_source(source[2], anchor)


def fault_of_triton(address: str, anchor: str) -> str:
    """The same for Triton's repository, of which the tag alone is a page as well."""
    found = re.fullmatch(
        r"https://github\.com/triton-lang/triton/(?:blob|tree)/([^/]+)/?(.*)", address
    )
    if found is None or found[1] != TRITON_TAG:
        return f"{address}: not at tag {TRITON_TAG}, so it will say something else one day"
    if not found[2] or (found[2] in TRITON_NOT_SHIPPED and not anchor):
        return ""
    copies = [
        Path(triton.__file__).parent / kept / found[2].removeprefix(start)
        for start, kept in TRITON_MOVED.items()
        if found[2].startswith(start)
    ]
    installed = next((copy for copy in copies if copy.is_file()), None)
    if installed is None:
        return f"{found[2]}: not in the installed triton"
    if triton.__version__ != TRITON_TAG.removeprefix("v"):
        return ""  # another triton's lines prove nothing
    return fault_of_lines(found[2], anchor, len(installed.read_text("utf-8").splitlines()))


def fault_of_docs(address: str) -> str:
    if re.fullmatch(r"https://(arxiv\.org/abs/\d{4}\.\d{4,5}|doi\.org/10\.\S+)", address):
        return ""  # a paper
    if address in ELSEWHERE:
        return ""
    if not re.match(
        r"https://docs\.pytorch\.org/(docs/stable|tutorials|cppdocs)/\S+\.html$", address
    ):
        return f"{address}: neither PyTorch's source nor its documentation"
    named = re.search(r"/generated/torch\.(\S+)\.html", address)
    if named:
        try:
            attrgetter(named[1])(torch)
        except AttributeError:
            return f"{address}: torch has no {named[1]}"
    return ""


def fault_of_source(path: str, anchor: str) -> str:
    if path in NOT_SHIPPED:
        return ""
    if path.endswith(".cpp"):
        missing = "" if named_in_a_library(path) else f"{path}: no library of torch names it"
        return missing or (f"{path}#{anchor}: its lines cannot be counted here" if anchor else "")
    installed = where_installed(path)
    if installed is None:
        return f"{path}: not in the installed torch"
    return fault_of_lines(path, anchor, len(installed.read_text("utf-8").splitlines()))


def fault_of_lines(path: str, anchor: str, lines: int) -> str:
    if not anchor:
        return ""
    named = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
    if named is None:
        return f"{path}#{anchor}: a source file has lines and no other anchors"
    first, last = int(named[1]), int(named[2] or named[1])
    inside = 1 <= first <= last <= lines
    return "" if inside else f"{path}#{anchor}: the file has {lines} lines"


def where_installed(path: str) -> Path | None:
    """Return the wheel's own copy of a file of the repository."""
    for start, kept in MOVED.items():
        copy = HOME / kept / path.removeprefix(start)
        if path.startswith(start) and copy.is_file():
            return copy
    return None


def named_in_a_library(path: str) -> bool:
    """Whether a library of torch holds the name of the C++ file, as its error messages do."""
    return any(f"/{name}".endswith(f"/{path}") for name in names_in_the_libraries())


@cache
def names_in_the_libraries() -> frozenset[str]:
    """Return the name of every C++ file that torch's libraries hold, in one pass over each."""
    names: set[str] = set()
    found = (path for name in ("*torch_*", "*c10.*") for path in (HOME / "lib").glob(name))
    for library in sorted(found):
        with library.open("rb") as file:
            before = b""
            while read := file.read(CHUNK):
                *texts, before = (before + read).split(b".cpp\0")
                before = before[-LONGEST:]
                names |= {text.rpartition(b"\0")[2].decode("latin-1") + ".cpp" for text in texts}
    return frozenset(names)


sources = pytest.mark.skipif(
    torch.__version__.partition("+")[0] != TAG.removeprefix("v"),
    reason=f"the pages link to {TAG}, and another torch is installed",
)


def test_there_are_pages_to_look_at() -> None:
    assert len(CHAPTERS) >= 4
    assert len(LABS) >= 4


@sources
@pytest.mark.parametrize("page", [*CHAPTERS, *LABS], ids=lambda page: page.parent.name + page.stem)
def test_every_link_has_the_right_form_and_leads_to_a_file(page: Path) -> None:
    assert [found for found in map(fault, links(page.read_text("utf-8"))) if found] == []


def faults_of_chapter(text: str) -> list[str]:
    """Return what a chapter owes to a reader who does not believe it."""
    *_, last = re.split(r"^# %% ", text, flags=re.MULTILINE)
    kept = {
        f"it has {MIN_LINKS} links": len(set(links(text))) >= MIN_LINKS,
        "it ends with a section of its links": last.startswith('[markdown] id="sources"'),
        "half of its links stand there": len(links(last)) >= MIN_LINKS // 2,
        "it says what changed between torch 2.11 and 2.15": "2.11" in last and "2.15" in last,
    }
    return [promise for promise, is_kept in kept.items() if not is_kept]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_backs_what_it_says(page: Path) -> None:
    assert faults_of_chapter(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("was", "instead", "broken"),
    [
        (
            r"https://\S+",
            "https://docs.pytorch.org/docs/stable/index.html",
            f"it has {MIN_LINKS} links",
        ),
        (r"\Z", '\n# %% id="more"\nprint()\n', "it ends with a section of its links"),
        (r"2\.15", "the newest", "it says what changed between torch 2.11 and 2.15"),
    ],
)
def test_a_chapter_that_breaks_a_promise_is_found(was: str, instead: str, broken: str) -> None:
    text = CHAPTERS[0].read_text("utf-8")
    assert broken in faults_of_chapter(re.sub(was, instead, text))


BLOB = "https://github.com/pytorch/pytorch/blob"
TRITON = "https://github.com/triton-lang/triton/blob"


@sources
@pytest.mark.parametrize(
    ("link", "why"),
    [
        (f"{BLOB}/main/torch/nn/modules/linear.py", "not at tag"),
        (f"{BLOB}/v2.12.0/torch/nn/modules/linear.py", "not at tag"),
        (f"{BLOB}/{TAG}/torch/nn/modules/lineal.py", "not in the installed torch"),
        (f"{BLOB}/{TAG}/c10/core/TensorInpl.h", "not in the installed torch"),
        (f"{BLOB}/{TAG}/tools/autograd/derivative.yaml", "not in the installed torch"),
        (f"{BLOB}/{TAG}/aten/src/ATen/native/Lineal.cpp", "no library of torch names it"),
        (f"{BLOB}/{TAG}/src/ATen/native/Linear.cpp#L5", "its lines cannot be counted"),
        (f"{BLOB}/{TAG}/torch/nn/modules/linear.py#L99999", "the file has"),
        (f"{BLOB}/{TAG}/torch/nn/modules/linear.py#L9-L3", "the file has"),
        (f"{BLOB}/{TAG}/c10/core/TensorImpl.h#views", "no other anchors"),
        ("https://pytorch.org/docs/stable/tensor_view.html", "neither"),
        ("http://docs.pytorch.org/docs/stable/tensor_view.html", "neither"),
        ("https://docs.pytorch.org/docs/main/tensor_view.html", "neither"),
        ("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.too.html", "has no Tensor"),
        ("https://example.org/pytorch.html", "neither"),
        (f"{TRITON}/main/python/triton/language/semantic.py", "not at tag"),
        (f"{TRITON}/{TRITON_TAG}/python/triton/language/semantics.py", "not in the installed"),
        (f"{TRITON}/{TRITON_TAG}/python/triton/language/semantic.py#L999999", "the file has"),
        (f"{TRITON}/{TRITON_TAG}/lib/Dialect/TritonGPU/Transforms/Coalesce.cpp#L5", "not in the"),
        ("https://arxiv.org/pdf/1604.06174", "neither"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, why: str) -> None:
    assert why in fault(link)


@sources
@pytest.mark.parametrize(
    "link",
    [
        f"{BLOB}/{TAG}/torch/nn/modules/linear.py#L1-L20",
        f"{BLOB}/{TAG}/aten/src/ATen/native/native_functions.yaml",
        f"{BLOB}/{TAG}/aten/src/ATen/native/Linear.cpp",
        f"{BLOB}/{TAG}/torch/csrc/autograd/engine.h#L7",
        f"{TRITON}/{TRITON_TAG}/python/triton/language/semantic.py#L589",
        f"{TRITON}/{TRITON_TAG}/third_party/nvidia/backend/compiler.py#L1-L2",
        "https://github.com/triton-lang/triton/tree/v3.7.1",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",
        "https://arxiv.org/abs/1604.06174",
    ],
)
def test_a_link_that_leads_somewhere_is_no_fault(link: str) -> None:
    assert fault(link) == ""
