"""The reader of kernels against Triton's own interpreter, and what this one lets pass."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.checks.lab07_triton.admitted import Kernel, Refused, admitted
from autograder.checks.lab07_triton.kernels import FAULTS, Case, padded, tf32
from autograder.checks.lab07_triton.memory import Fault
from autograder.checks.lab07_triton.programs import launched
from autograder.checks.lab07_triton.suspects import drawn
from autograder.judge import Cause, Draw, State
from tests.checks.lab07.asking import KERNELS, ROOT, asked, cases_of


def read(source: str, grid: tuple[int, ...] = (1,), outputs: str = "y_ptr", **given: Any) -> Any:
    return launched(admitted(source), grid, given, (outputs,))


def fault_in(kernel: Kernel, case: Case) -> str:
    try:
        launched(kernel, case.grid, case.given, tuple(case.want))
    except Fault as fault:
        return fault.kind
    return ""


class TestAgainstTriton:
    """The same text, read by us and run by Triton's interpreter, stores the same."""

    @pytest.mark.slow
    @pytest.mark.parametrize("question", KERNELS)
    def test_every_known_answer_stores_the_same_in_both(
        self, question: str, solved: dict[str, Any], others: dict[str, list[dict[str, Any]]]
    ) -> None:
        pytest.importorskip("triton")
        for names in (solved, *others[question]):
            kernel = admitted(names["written"](question))
            for case in cases_of(question)[:4]:
                mine = launched(kernel, case.grid, case.given, tuple(case.want)).tensors
                theirs = {k: _copied(v) for k, v in case.given.items()}
                names[question][case.grid](**theirs)
                for name in case.want:
                    torch.testing.assert_close(mine[name], theirs[name], rtol=1e-4, atol=1e-4)

    @pytest.mark.filterwarnings("ignore:.*encountered in exp:RuntimeWarning")  # on numpy
    def test_every_suspect_does_the_same_in_both(self) -> None:
        pytest.importorskip("triton")
        from onelayer.kernels.triton_jit import kernel as jit

        for suspect in drawn(3, 1):
            run, kernel = jit(_function(suspect.source)), admitted(suspect.source)
            for case in suspect.cases:
                if fault_in(kernel, case):
                    continue
                mine = launched(kernel, case.grid, case.given, tuple(case.want))
                theirs = {k: _copied(v) for k, v in case.given.items()}
                run[case.grid](**theirs)
                for name in case.want:
                    torch.testing.assert_close(
                        mine.tensors[name], theirs[name], rtol=1e-4, atol=1e-4, equal_nan=True
                    )


def _copied(value: Any) -> Any:
    """With the same strides: .clone() keeps those of a tensor without gaps alone."""
    if not isinstance(value, Tensor):
        return value
    flat = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).clone()
    return flat.as_strided(value.shape, value.stride(), int(value.storage_offset()))


def _function(source: str) -> Any:
    import linecache

    from triton import language as tl

    name = f"<suspect {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"tl": tl}
    exec(compile(source, name, "exec"), names)
    return next(v for k, v in names.items() if callable(v) and k not in ("tl", "__builtins__"))


class TestFaults:
    """What Triton's interpreter lets pass."""

    def test_a_lane_outside_of_the_tensor(self) -> None:
        source = "def k(y_ptr, B: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, B), 1.0)\n"
        with pytest.raises(Fault) as caught:
            read(source, y_ptr=torch.zeros(5), B=8)
        assert (caught.value.kind, caught.value.line) == ("out_of_bounds", 2)

    def test_the_gap_between_two_rows_is_outside(self) -> None:
        source = "def k(y_ptr, B: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, B), 1.0)\n"
        wide = torch.zeros(4, 4)
        with pytest.raises(Fault, match="outside"):
            read(source, y_ptr=wide[:, :2], B=8)

    @pytest.mark.parametrize(
        "line",
        [
            "tl.store(y_ptr, 1.0)",
            "tl.store(y_ptr + 1, tl.load(y_ptr) + tl.program_id(0), mask=tl.program_id(0) > 0)\n"
            "    tl.store(y_ptr, 1.0, mask=tl.program_id(0) < 1)",
            "tl.atomic_add(y_ptr, 1.0)\n    tl.store(y_ptr, 2.0)",
        ],
    )
    def test_two_programs_in_one_element(self, line: str) -> None:
        with pytest.raises(Fault) as caught:
            read(f"def k(y_ptr):\n    {line}\n", (2,), y_ptr=torch.zeros(3))
        assert caught.value.kind == "race"

    def test_atomic_adds_may_meet(self) -> None:
        run = read("def k(y_ptr):\n    tl.atomic_add(y_ptr, 2.0)\n", (3,), y_ptr=torch.zeros(1))
        assert run.tensors["y_ptr"].tolist() == [6.0]

    def test_inputs_are_not_written(self) -> None:
        source = "def k(x_ptr, y_ptr):\n    tl.store(x_ptr, 1.0)\n"
        with pytest.raises(Fault) as caught:
            read(source, x_ptr=torch.zeros(1), y_ptr=torch.zeros(1))
        assert caught.value.kind == "wrote_input"

    def test_a_masked_lane_without_other_holds_nothing(self) -> None:
        source = (
            "def k(x_ptr, y_ptr, B: tl.constexpr):\n    v = tl.arange(0, B)\n"
            "    tl.store(y_ptr + v, tl.load(x_ptr + v, mask=v < 3))\n"
        )
        run = read(source, x_ptr=torch.ones(4), y_ptr=torch.zeros(4), B=4)
        assert run.tensors["y_ptr"].isnan().tolist() == [False, False, False, True]

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ("x = tl.arange(0, N)", "not_constexpr"),
            ("x = tl.arange(0, 6)", "power_of_two"),
            ("x = tl.zeros((4, N), tl.float32)", "not_constexpr"),
            ("x = tl.arange(0, 4) + tl.arange(0, 8)", "shapes"),
            ("x = tl.dot(tl.zeros((4, 8), tl.float32), tl.zeros((4, 8), tl.float32))", "shapes"),
            ("x = tl.arange(0, 4)[None]", "shapes"),
            ("x = y_ptr + 1.5", "dtypes"),
            ("x = tl.exp(tl.arange(0, 4))", "dtypes"),
            ("x = tl.arange(0, 4) < y_ptr", "misused"),
            ("x = missing + 1", "unknown_name"),
            ("x = tl.sort(tl.arange(0, 4))", "unknown_word"),
            ("x = open('/etc/passwd')", "unknown_function"),
            ("x = tl.arange(0, 4).tofile('x')", "unknown_word"),
            ("x = tl.arange.__globals__", "unknown_word"),
            ("x = y_ptr.buffer", "unknown_word"),
            ("x = tl.full((2048, 2048), 0.0, tl.float32)", "too_large"),
            ("x = 9 * 10 ** 300", "misused"),
            ("x = tl.arange(0, 4) ** 2", "misused"),
            ("x = 1 << 1000000000", "too_large"),
            ("x = tl.trans(tl.arange(0, 4), 1, 0)", "shapes"),
            ("x = tl.advance(y_ptr, (0,))", "misused"),
            ("x = float('a number')", "misused"),
            ("x = 4611686018427387904 * 4", "too_large"),
            ("x = 1 // 0", "misused"),
            ("if tl.arange(0, 4) > 1:\n        pass", "misused"),
            ("while True:\n        pass", "endless"),
            ("for i in range(10 ** 9):\n        pass", "endless"),
            ("for i in range(1000000000):\n        pass", "endless"),
            ("x = tl.load(1)", "misused"),
            ("x = tl.load(y_ptr, nobody=1, mask=tl.zeros((2, 2), tl.float32) > 0)", "shapes"),
            ("tl.store(y_ptr, tl.arange(0, 4))", "shapes"),
            ("x = -(tl.arange(0, 4) > 1)", "dtypes"),
            ("x = tl.arange(0, 4) + 99999999999999999999", "dtypes"),
        ],
    )
    def test_each_has_its_name_and_a_sentence(self, line: str, kind: str) -> None:
        with pytest.raises(Fault) as caught:
            read(f"def k(y_ptr, N):\n    {line}\n", y_ptr=torch.zeros(1), N=4)
        assert caught.value.kind == kind
        assert kind in FAULTS

    def test_every_kind_that_is_raised_has_a_sentence(self) -> None:
        folder = ROOT / "autograder" / "checks" / "lab07_triton"
        raised = set()
        for path in folder.glob("*.py"):
            raised |= set(re.findall(r'Fault\(\s*"(\w+)"', path.read_text("utf-8")))
        assert {"race", "shapes", "endless"} <= raised <= set(FAULTS)

    def test_a_fault_names_its_line_in_the_verdict(self, solved: dict[str, Any]) -> None:
        source = solved["written"]("softmax_kernel").replace("mask=v < V, other=0.0", "")
        verdict = asked("softmax_kernel", source)
        assert "tl.load(b_ptr" in str(verdict.got)
        assert verdict.sentence == FAULTS["out_of_bounds"]


class TestAdmission:
    @pytest.mark.parametrize(
        "source",
        [
            "import os",
            "def k(): import os",
            "def k(a=print('now')): pass",
            "def k(*a): pass",
            "def k():\n    x = lambda: 1",
            "def k():\n    x = [y for y in z]",
            "def k():\n    x.y = 1",
            "def k():\n    x[0] = 1",
            "def k():\n    def inner(): pass",
            "def k():\n    return 1",
            "def k():\n    x = 0 < 1 < 2",
            "def k():\n    break",
            "def k():\n    global x",
            "def k():\n    x = f'{1}'",
            "def k():\n    (x := 1)",
            "class K: pass",
            "def k(): pass\ndef l(): pass",
            "def k(:",
            "def k():\n    x = " + "(" * 5000 + ")" * 5000,
            "def k():\n    pass\n" + "#" * 30_000,
            "\0",
        ],
    )
    def test_other_texts_are_refused(self, source: str) -> None:
        with pytest.raises(Refused):
            admitted(source)

    def test_decorators_and_docstrings_are_let_be(self) -> None:
        kernel = admitted('@anything(1)\ndef k(y_ptr, B: "tl.constexpr"):\n    """Text."""\n')
        assert kernel.constants == {"B"}

    @pytest.mark.parametrize("source", ["", "no kernel", "misread: nothing", "def k(): pass"])
    def test_a_text_that_is_no_answer_fails(self, source: str) -> None:
        assert asked("softmax_kernel", source).state is State.FAIL

    @pytest.mark.parametrize("source", [None, 3, ["def k(): pass"]])
    def test_no_text_fails(self, source: Any) -> None:
        assert asked("linear_kernel", source).cause is Cause.WRONG

    def test_deep_expressions_end(self) -> None:
        deep = "def k(y_ptr):\n    x = " + "-" * 3000 + "1\n"
        with pytest.raises((Fault, Refused)):
            read(deep, y_ptr=torch.zeros(1))


class TestMeaning:
    """Words whose meaning is easily a little off."""

    @pytest.mark.parametrize(
        ("expression", "want"),
        [
            ("tl.arange(0, 4) / 2", [0.0, 0.5, 1.0, 1.5]),
            ("tl.arange(0, 4) * 0.5", [0.0, 0.5, 1.0, 1.5]),
            ("tl.where(tl.arange(0, 4) < 2, 1.0, 0.0)", [1.0, 1.0, 0.0, 0.0]),
            ("tl.maximum(tl.arange(0, 4), 2)", [2.0, 2.0, 2.0, 3.0]),
            ("tl.cdiv(tl.arange(0, 4), 2)", [0.0, 1.0, 1.0, 2.0]),
            ("(tl.arange(0, 4) + 1).to(tl.float32)", [1.0, 2.0, 3.0, 4.0]),
            ("tl.sum(tl.zeros((4, 2), tl.float32) + 3, axis=1)", [6.0] * 4),
            ("tl.full((4,), float('-inf'), tl.float32) if 1 > 2 else tl.zeros([4], tl.float32)",
             [0.0] * 4),
            ("tl.trans(tl.arange(0, 4)[:, None] + tl.zeros((4, 1), tl.float32)).sum(0)",
             [0.0, 1.0, 2.0, 3.0]),
            ("min(3, 5) + tl.zeros((4,), tl.float32)", [3.0] * 4),
            ("tl.maximum(tl.zeros([4], tl.float32), float('-Infinity'))", [0.0] * 4),
            ("tl.arange(0, 4) << 1", [0.0, 2.0, 4.0, 6.0]),
            ("tl.arange(0, 8 >> 1) >> 1", [0.0, 0.0, 1.0, 1.0]),
            ("tl.max(input=tl.arange(0, 4), axis=0)", [3.0] * 4),
            ("tl.multiple_of(tl.arange(0, 4), 4) + tl.zeros_like(tl.arange(0, 4))", [0, 1, 2, 3]),
            ("tl.fdiv(tl.arange(0, 4), 2)", [0.0, 0.5, 1.0, 1.5]),
            ("tl.softmax(tl.zeros((4,), tl.float32) - 200)", [0.25] * 4),
            ("tl.permute(tl.arange(0, 4)[:, None], (1, 0)).reshape(4)", [0.0, 1.0, 2.0, 3.0]),
            ("tl.arange(0, 4)[:, None].trans(1, 0).view(4)", [0.0, 1.0, 2.0, 3.0]),
            ("tl.zeros((4,), tl.float32).exp2()", [1.0] * 4),
        ],
    )  # fmt: skip
    def test_values(self, expression: str, want: list[float]) -> None:
        source = f"def k(y_ptr):\n    tl.store(y_ptr + tl.arange(0, 4), {expression})\n"
        assert read(source, y_ptr=torch.zeros(4)).tensors["y_ptr"].tolist() == want

    def test_a_tuple_of_blocks_gives_each_name_its_own(self) -> None:
        source = (
            "def k(y_ptr, B: tl.constexpr):\n    n, v = tl.program_id(0), tl.arange(0, B)\n"
            "    tl.static_assert(B > 1)\n    HALF = tl.constexpr(B // 2)\n"
            "    tl.store(y_ptr + v, v + n + HALF)\n"
        )
        assert read(source, y_ptr=torch.zeros(4), B=4).tensors["y_ptr"].tolist() == [2, 3, 4, 5]

    def test_a_block_pointer_has_edges_and_moves(self) -> None:
        source = (
            "def k(x_ptr, y_ptr, N, B: tl.constexpr):\n"
            "    x = tl.make_block_ptr(x_ptr, (3, N), (N, 1), (0, 0), (B, B), (1, 0))\n"
            "    y = tl.make_block_ptr(base=y_ptr, shape=(3, N), strides=(N, 1), offsets=(0, 0),\n"
            "                          block_shape=(B, B), order=(1, 0))\n"
            "    for _ in range(0, N, B):\n"
            "        block = tl.load(x, boundary_check=(0, 1), padding_option='zero')\n"
            "        tl.store(y, block * 2, boundary_check=(0, 1))\n"
            "        x = tl.advance(x, (0, B))\n        y = y.advance((0, B))\n"
        )
        x = Draw(3).tensor(3, 7)
        run = read(source, x_ptr=x, y_ptr=torch.zeros(3, 7), N=7, B=4)
        assert torch.equal(run.tensors["y_ptr"], 2 * x)
        with pytest.raises(Fault) as caught:
            read(source.replace("(0, 1))", "(0,))"), x_ptr=x, y_ptr=torch.zeros(3, 7), N=7, B=4)
        assert caught.value.kind == "out_of_bounds"

    def test_a_program_knows_its_place(self) -> None:
        source = (
            "def k(y_ptr, N):\n"
            "    i, j = tl.program_id(0), tl.program_id(1)\n"
            "    tl.store(y_ptr + i * tl.num_programs(1) + j, 10 * i + j)\n"
        )
        run = read(source, (2, 3), y_ptr=torch.zeros(6), N=1)
        assert run.tensors["y_ptr"].tolist() == [0, 1, 2, 10, 11, 12]

    def test_an_early_return_ends_one_program(self) -> None:
        source = (
            "def k(y_ptr):\n    n = tl.program_id(0)\n    if n == 1:\n        return\n"
            "    tl.store(y_ptr + n, 1.0)\n"
        )
        assert read(source, (3,), y_ptr=torch.zeros(3)).tensors["y_ptr"].tolist() == [1, 0, 1]

    def test_bytes_are_counted_once_for_each_access(self) -> None:
        source = (
            "def k(x_ptr, y_ptr):\n    v = tl.arange(0, 4)\n"
            "    x = tl.load(x_ptr + v * 0) + tl.load(x_ptr + v, mask=v < 2, other=0.0)\n"
            "    tl.store(y_ptr + v, x)\n"
        )
        run = read(source, x_ptr=torch.ones(4), y_ptr=torch.zeros(4))
        assert (run.loaded_bytes["x_ptr"], run.stored_bytes["y_ptr"]) == (4 + 8, 16)

    def test_tf32_keeps_ten_bits(self) -> None:
        source = (
            "def k(x_ptr, y_ptr):\n    v = tl.arange(0, 16)\n"
            "    x = tl.load(x_ptr + v[:, None] * 16 + v[None, :])\n"
            "    eye = tl.where(v[:, None] == v[None, :], 1.0, 0.0)\n"
            "    tl.store(y_ptr + v[:, None] * 16 + v[None, :], tl.dot(x, eye))\n"
        )
        x = Draw(3).tensor(16, 16)
        y = read(source, x_ptr=x, y_ptr=torch.zeros(16, 16)).tensors["y_ptr"]
        assert torch.equal(y, tf32(x))
        assert 2**-13 < float(((y - x) / x).abs().max()) <= 2**-11

    def test_padding_is_the_next_power_of_two(self) -> None:
        assert [padded(n) for n in (1, 2, 3, 64, 65, 600)] == [1, 2, 4, 64, 128, 1024]
