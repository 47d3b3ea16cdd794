"""Lab 07's PTX: the stored texts, and what the installed Triton makes of their kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources

import pytest

from autograder.checks.lab07_triton.read_ptx import TARGETS, _compiled, _edited, facts
from autograder.judge import Draw

try:
    from triton import language as tl
except ImportError:  # PyPI has it for Linux alone

    class tl:  # type: ignore[no-redef]  # noqa: N801
        constexpr = int


class TestPtx:
    """The stored texts are what Triton makes of this kernel: where its version is the same."""

    def test_texts_have_no_path_and_no_debug_information(self) -> None:
        for target, text in texts():
            assert f".target {target}" in text
            assert ".loc" not in text
            assert ".py" not in text.split("\n", 1)[1]
            assert len(text) < 30_000

    def test_one_line_declares_their_registers_and_no_vector_is_longer_than_four(self) -> None:
        for _, text in texts():
            assert len(re.findall(r"\.reg \.b32\s+%r<", text)) == 1
            assert set(re.findall(r"(?:ld|st)\.global\S*\.v(\d+)", text)) <= {"2", "4"}

    @pytest.mark.parametrize("seed", range(3))
    def test_each_access_that_is_added_names_as_many_registers_as_it_moves(self, seed: int) -> None:
        """Of their kind too: who counts registers reads these texts as those of a compiler."""
        kinds = {"8": "%rs", "16": "%rs", "32": "%r", "64": "%rd"}
        text = re.sub(r"//.*", "", _edited(Draw(seed), _compiled("sm_80"), True))
        accesses = re.findall(r"\b((?:ld|st)\.(?:global|shared)\S*)(.*)", text)
        assert len(accesses) > 10
        for word, rest in accesses:
            many = next((int(n) for n in re.findall(r"\.v(\d)", word)), 1)
            bits = word.rpartition(".")[2][1:]
            held = re.findall(r"%[a-z]+", rest.partition("{")[2].partition("}")[0])
            assert held == [kinds[bits]] * many, word + rest

    def test_each_generation_multiplies_in_its_own_way(self) -> None:
        found = {target: facts(text)["mma"] for target, text in texts()}
        assert found == {"sm_75": 0, "sm_80": 2, "sm_90": 2, "sm_100": 2}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "target",
        [
            "sm_80",
            *(pytest.param(one, marks=pytest.mark.thorough) for one in TARGETS if one != "sm_80"),
        ],
    )
    def test_the_installed_triton_makes_the_same(self, target: str) -> None:
        triton = pytest.importorskip("triton")
        if triton.__version__ != "3.7.1":
            pytest.skip("the texts are those of Triton 3.7.1")
        command = [sys.executable, __file__, target[3:]]  # what ran before may be interpreting
        env = {**os.environ, "TRITON_INTERPRET": "0"}
        made = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert facts(made.stdout) == facts(dict(texts())[target])


def texts() -> Iterator[tuple[str, str]]:
    folder = resources.files("autograder.checks.lab07_triton").joinpath("ptx")
    for target in TARGETS:
        yield target, folder.joinpath(f"{target}.ptx").read_text("utf-8")


ROWS_OF = {75: 16, 80: 16, 90: 64, 100: 128}


def scores(
    x_ptr, w_ptr, b_ptr, y_ptr, N, V, D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr
):  # type: ignore[no-untyped-def]
    """The head in float16, a tile for each program: the kernel of the stored texts."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + rows[:, None] * D + d[None, :], mask=(rows < N)[:, None], other=0.0)
    w = tl.load(w_ptr + words[:, None] * D + d[None, :], mask=(words < V)[:, None], other=0.0)
    b = tl.load(b_ptr + words, mask=words < V, other=0.0)
    z = tl.dot(x, tl.trans(w)) + b[None, :]
    inside = (rows < N)[:, None] & (words < V)[None, :]
    tl.store(y_ptr + rows[:, None] * V + words[None, :], z, mask=inside)


def compiled(capability: int) -> str:
    """The PTX of `scores`; no GPU is needed."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = {"D": 32, "ROWS": ROWS_OF[capability], "WORDS": 32}
    kinds = ("*fp16", "*fp16", "*fp32", "*fp32", "i32", "i32", *("constexpr",) * 3)
    kernel = triton.runtime.jit.JITFunction(scores)
    signature = dict(zip(kernel.arg_names, kinds, strict=True))
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(4)}
    source = ASTSource(kernel, signature, constants, aligned)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    return str(made.asm["ptx"])


if __name__ == "__main__":
    print(compiled(int(sys.argv[1])))
