"""What the clean room of lab 06 lets in: every known C++ answer, and no name of its process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autograder import selftest
from autograder.checks.cpp_admission import expect_admitted, not_admitted
from autograder.checks.lab06_custom_op.bench import WIDEST_LOAD_BYTES, counts_of
from autograder.checks.lab06_custom_op.heads import head
from autograder.checks.lab06_custom_op.suspects import SUSPECTS
from autograder.judge import Draw, Impossible, LocalStudent, NotAdmitted, Wrong

PAGE = Path(__file__).parents[2] / "solutions" / "06_custom_op" / "06_custom_op.ipynb"
IN_CPP = ("cpu_head", "head_operator", "naive_head", "tiled_head")


@pytest.fixture(scope="module")
def answers() -> list[str]:
    pages = {name: selftest.alternatives(PAGE)[name] for name in IN_CPP}
    solved = selftest.execute(PAGE)
    return [page[name]() for name in IN_CPP for page in (solved, *pages[name])]


def test_every_known_answer_is_admitted(answers: list[str]) -> None:
    assert len(answers) >= 2 * len(IN_CPP)
    assert [list(not_admitted(text)) for text in answers] == [[]] * len(answers)


@pytest.mark.parametrize(
    "text",
    [
        "// at::linear, dlsym, system()\n",
        "#include <cmath>\n#define TILE 16\n#pragma unroll\n",
        "float read[4], write; int open = 3;",
        "template <typename T> T twice(T t) { return 2 * t; }",
        "namespace mine { struct Row { float at(int i) const; float* p; }; }",
        'const char* words = "system and asm and onelayer";',
        "constexpr int many = int(3.0);",
    ],
)
def test_what_only_computes_is_admitted(text: str) -> None:
    assert list(not_admitted(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" int PyRun_SimpleString(const char*);',
        'extern "C" void* find(void*, const char*) asm("dlsym");',
        'extern "C" { void* anything(int); }',
        "namespace a { float sgemm(int); }",
        'void f() { asm volatile("syscall"); }',
        "__attribute__((constructor)) void f() {}",
        "[[gnu::constructor]] void f() {}",
        "extern char* theirs;",
        "#include <dlfcn.h>",
        '#include "/etc/passwd"',
        "#include_next <cmath>",
        "%:include <dlfcn.h>",
        "#pragma GCC optimize(3)",
        "#define f(a, b) a ## b",
        "int as\\\nm;",
        "int \\u0061sm;",
        "auto p = __builtin_return_address(0);",
        "void f() { exit(0); }",
        "void f() { write (1, 0, 0); }",
        "void f() { int g(); fork(); }",
        "__device__ ONELAYER_UNSEEN float f() { return 1; }",
        "void f() { onelayer_begin(); }",
        "void f() { ::onelayer_cuda::x(); }",
        'extern "C" void __tsan_read4(void*) {}',
    ],
)
def test_what_could_reach_the_process_is_not(text: str) -> None:
    line, reason = min(not_admitted("int first;\n" + text))
    assert line == 2
    assert reason


class Grading(LocalStudent):
    is_grading = True


def test_a_person_is_shown_the_line() -> None:
    text = "int a;\nvoid f() { fork(); }\n"
    expect_admitted(LocalStudent({}), text)
    with pytest.raises(NotAdmitted) as flagged:
        expect_admitted(Grading({}), text)
    assert flagged.value.cause.state == "flagged"
    assert "fork();" in str(flagged.value.where)
    assert "fork" not in str(flagged.value.why)


def counted(loads: int, stores: int, **wrong: Any) -> tuple[int, int]:
    draw = Draw(1)
    x, w, b = draw.tensor(4, 8), draw.tensor(12, 8), draw.tensor(12)
    y = wrong.get("y", head(x, w, b))
    return counts_of([loads, stores, "the CPU, simulated", y], x, w, b)


def test_counts_have_floors() -> None:
    least, stored = (4 * 8 + 12 * 8 + 12) * 4 // WIDEST_LOAD_BYTES, 4 * 12 * 4 // WIDEST_LOAD_BYTES
    assert counted(least, stored) == (least, stored)
    for loads, stores in ((least - 1, stored), (least, stored - 1), (-1, stored), (0, 0)):
        with pytest.raises(Impossible):
            counted(loads, stores)


def test_counts_are_those_of_a_run_that_computed() -> None:
    with pytest.raises(Wrong):
        counted(1000, 1000, y=Draw(2).tensor(4, 12))


def test_the_suspects_are_those_of_the_page() -> None:
    assert selftest.execute(PAGE)["SUSPECTS"] == SUSPECTS
    assert [list(not_admitted(text)) for text in SUSPECTS.values()] == [[], [], []]
