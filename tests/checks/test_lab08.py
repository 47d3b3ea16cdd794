"""Lab 08's own truths against torch, what its page promises, and what a strange listing meets."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import onelayer
from autograder import selftest
from autograder.checks.lab08_compile import (
    bytes_moved,
    harness,
    lab,
    read_wrapper,
    which_calls_compile,
)
from autograder.checks.lab08_compile.bytes_moved import Rules
from autograder.checks.lab08_compile.listings import expect_same, read, run
from autograder.judge import Draw, LocalStudent, State, Verdict, Wrong, ask
from onelayer import read_inductor_file
from onelayer.compiler.listing import graph_of, listing_of

PAGE = Path(__file__).parents[2] / "solutions" / "08_compile" / "08_compile.py"
SOURCE = PAGE.read_text("utf-8")


def page_of(name: str, *edits: tuple[str, str]) -> dict[str, Any]:
    """The names that the page's own answer to `name` defines, after each edit (from, to)."""
    head = rf'id="(?:setup|an-opaque-step-code|{name})".*?\n(.*?)(?=\n# %%)'
    cells = re.findall(head, SOURCE, re.DOTALL)
    assert len(cells) == 3
    text = "\n".join(cells)
    for before, after in edits:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    page: dict[str, Any] = {}
    exec(text, page)
    return page


def solved(name: str, *edits: tuple[str, str], seed: int = 11) -> Verdict:
    return ask(lab.questions[name], LocalStudent(page_of(name, *edits)), seed=seed)


def asked(name: str, answer: Callable[..., Any]) -> Verdict:
    return ask(lab.questions[name], LocalStudent({name: answer}), seed=11)


def test_a_tensor_is_not_asked_whether_it_came_out_of_a_graph() -> None:
    watch, made, other = harness.Watch(), torch.ones(2), torch.ones(2)
    assert watch.recording(lambda: [made, 3])() == [made, 3]
    other.data_ptr = made.data_ptr  # type: ignore[method-assign]
    assert watch.has_made([made, made.view(2)])
    assert not watch.has_made([made, other])


def test_what_was_written_into_a_graph_s_result_came_out_of_no_graph() -> None:
    watch, made = harness.Watch(), torch.ones(2)
    watch.recording(lambda: [made])()
    assert not watch.has_made([made.view(torch.int32)])
    made.data.copy_(torch.zeros(2))
    assert not watch.has_made([made])


def test_results_without_an_element_came_out_of_graphs_too() -> None:
    watch, empty = harness.Watch(), [torch.ones(0), torch.ones(0, 3)]
    watch.recording(lambda: empty)()
    assert watch.has_made(empty)


def test_what_a_backend_does_to_its_graph_does_not_run() -> None:
    def backend(graph_module: fx.GraphModule, example_inputs: Any) -> Any:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                node.target = torch.sub
                node.meta.clear()
        return graph_module.recompile()

    with harness.watched() as watch:
        doubled = torch.compile(lambda x: torch.add(x, x), backend=backend)(torch.ones(3))
    assert doubled.tolist() == [2.0, 2.0, 2.0]
    assert watch.graphs == 1
    assert watch.has_made([doubled])


def test_no_point_rests_on_what_the_student_s_process_says() -> None:
    witnessed = [name for name, question in lab.questions.items() if question.witnessed]
    assert witnessed == []


@pytest.mark.compiler
def test_the_bytes_that_fusion_leaves_are_those_of_torch_s_own_file() -> None:
    draw = Draw(5)
    for kind in ("head", "plain"):
        for before in (0, 1, 2):
            rows, shapes = bytes_moved._drawn(draw, kind, before, bool(before % 2))
            assert bytes_moved._measured(rows, shapes) == Rules().predict(rows, shapes)


@pytest.mark.compiler
@pytest.mark.parametrize("program", read_wrapper.PROGRAMS)
def test_running_a_file_and_reading_it_say_the_same(program: str) -> None:
    text = read_wrapper._file(program, 5, 24)
    launched, allocated = read_wrapper._read(text)
    told = read_inductor_file(text)
    assert [kernel.name for kernel in told.kernels] == launched
    assert [buffer.nbytes for buffer in told.allocated] == allocated


@pytest.mark.slow
def test_a_graph_with_a_plain_n_outlives_one_with_a_symbol() -> None:
    """N = 2, 9, 2: the third call is on the other side of the limit, and finds the first graph."""

    def replacing(calls: Any, limit: int) -> list[bool]:
        return which_calls_compile._Rules(symbols_replace_alike=True).predict(calls, limit)

    calls = [(n, torch.float32, True) for n in (2, 9, 2)]
    assert which_calls_compile._torchs(calls, 5) == [True, True, False] != replacing(calls, 5)
    verdict = asked("which_calls_compile", replacing)
    assert (verdict.state, "serves no longer" in verdict.sentence) == (State.FAIL, True)


@pytest.mark.slow
def test_the_guards_of_the_page_are_those_of_dynamo() -> None:
    draw = Draw(7)
    for _ in range(3):
        calls = [which_calls_compile._call(draw, 5) for _ in range(6)]
        rules = which_calls_compile._Rules()
        assert rules.predict(calls, 5) == which_calls_compile._torchs(calls, 5)


def test_what_the_page_says_of_its_examples_is_what_the_answers_say() -> None:
    (source,) = re.findall(r'^SOURCE = """(.*?)"""', SOURCE, re.DOTALL | re.MULTILINE)
    (words,) = re.findall(r'^x = onelayer.hidden\("(.*?)"\)', SOURCE, re.MULTILINE)
    head, x = onelayer.head(), onelayer.hidden(words)
    w, b = head.weight.detach(), head.bias.detach()
    counted = page_of("given_to_backend")["given_to_backend"](source, [[x, w, b], [x, w, b]])
    assert f"`({counted[0]}, {counted[1]})`" in SOURCE
    broken = page_of("where_it_breaks")["where_it_breaks"](source, [x, w, b])
    assert f'`["{broken[0]}"]`' in SOURCE
    (found,) = re.findall(r"^def step_as_found\(.*?^    return", SOURCE, re.DOTALL | re.MULTILINE)
    page = page_of("given_to_backend")
    exec(found, page)
    explained = torch._dynamo.explain(page["step_as_found"])(x, w, b, 30.0)
    assert explained.graph_break_count == 2
    assert "It breaks twice" in SOURCE
    f32 = torch.float32
    calls = [(n, f32, True) for n in (2, 2, 3, 4, 1)]
    assert f"`{page_of('which_calls_compile')['which_calls_compile'](calls, 5)}`" in SOURCE
    rows = [
        *((name, "input", [], {}) for name in "xb"),
        ("y", "aten.add.Tensor", ["x", "b"], {}),
        ("z", "aten.relu.default", ["y"], {}),
        ("out", "output", ["z"], {}),
    ]
    eager, compiled = page_of("bytes_moved")["bytes_moved"](rows, {"x": [2, 3], "b": [3]})
    assert f"eager {eager} bytes, compiled {compiled}." in SOURCE


PASSES = {
    "bias_into_product": ("mm", "mm", "add.Tensor", "add.Tensor", "t", "tanh"),
    "merge_twins": ("add.Tensor", "t", "neg", "neg", "add_.Tensor", "mul_.Tensor", "rand_like"),
}


def a_graph(chance: random.Random, operators: tuple[str, ...]) -> list[Any]:
    """Rows of square tensors: any operator of these on any tensors there are by then."""
    names, rows = ["x", "state"], [X, ("state", "input", [], {})]
    for k in range(chance.randint(1, 9)):
        op = chance.choice(operators)
        full = f"aten.{op}" if "." in op else f"aten.{op}.default"
        args: list[Any] = [chance.choice(names) for _ in range(1 + (op[:2] in ("mm", "ad", "mu")))]
        if op in ("add.Tensor", "add_.Tensor") and chance.random() < 0.2:
            args[1] = 1.5
        scaled = op == "add.Tensor" and isinstance(args[1], str) and chance.random() < 0.3
        rows.append((f"n{k}", full, args, {"alpha": 0.5} if scaled else {}))
        names.append(f"n{k}")
    results = chance.sample(names, min(len(names), chance.randint(1, 3)))
    return [*rows, ("out", "output", results, {})]


def assert_same(got: Any, rows: list[Any], inputs: dict[str, torch.Tensor]) -> None:
    try:
        expect_same(read(got), rows, inputs)
    except Wrong as wrong:
        raise AssertionError(f"{rows}\nbecame\n{got}\n{wrong}") from None


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.slow
def test_a_pass_of_the_course_keeps_what_any_graph_computes(name: str) -> None:
    """Graphs that no check draws: products of products, writes into results, `add(m, m)`."""
    folder = Path(__file__).parents[2] / "solutions" / "08_compile"
    others = selftest.alternatives(folder / "08_compile.ipynb")[name]
    answers = [page_of(name)[name], *(other[name] for other in others)]
    chance, ran = random.Random(8), 0
    for case in range(800):
        rows = a_graph(chance, PASSES[name])
        values = torch.Generator().manual_seed(case)
        inputs = {
            key: torch.randn(3, 3, generator=values, dtype=torch.float64) for key in ("x", "state")
        }
        with suppress(Wrong):  # torch refuses mul_(state.t(), state), which reads as it writes
            run(rows, {key: t.clone() for key, t in inputs.items()})
            ran += 1
            for answer in answers:
                assert_same(answer(rows), rows, inputs)
    assert ran > 400


BY_NEW_SIZES = (
    "            sizes.add(n)\n            symbol = len(sizes) > 1 and n >= 2\n",
    "            symbol = bool(sizes) and n not in sizes and n >= 2\n            sizes.add(n)\n",
)


@pytest.mark.slow
def test_a_frame_that_dynamo_tells_of_knows_its_line_of_the_text() -> None:
    by_line = ("lines[reason.user_stack[-1].lineno - 1].strip()", "reason.user_stack[-1].line")
    assert solved("where_it_breaks", by_line).state is State.PASS


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["given_to_backend", "where_it_breaks"])
def test_an_answer_that_is_kept_by_its_text_alone_is_wrong(name: str) -> None:
    answer, kept = page_of(name)[name], dict[str, Any]()
    assert asked(name, lambda text, given: answer(text, given)).state is State.PASS

    def by_text(text: str, given: Any) -> Any:
        if text not in kept:
            kept[text] = answer(text, given)
        return kept[text]

    assert asked(name, by_text).state is State.FAIL


@pytest.mark.compiler
def test_a_kernel_s_number_may_have_two_digits() -> None:
    one_digit = (r"(cpp_fused\w*|", r"(cpp_fused\w*?_\d|")
    assert solved("read_wrapper", one_digit).state is State.FAIL


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "edit", "misconception"),
    [
        ("given_to_backend", ('startswith("call_")', 'startswith("")'), "every_node"),
        ("given_to_backend", ('.startswith("call_")', ' == "call_function"'), "functions_only"),
        ("where_it_breaks",
         ("in reasons]", "in {r.user_stack[-1].line: r for r in reasons}.values()]"),
         "equal_lines_once"),
        ("one_graph", ("keep.sum().clamp(min=1)", "keep.sum()"), "no_row_counts"),
        ("one_graph", ("(z.sum(dim=1) > 0).to", "(z.sum(dim=1) >= 0).to"), "nought_too"),
        ("which_calls_compile", BY_NEW_SIZES, "symbol_forgotten"),
        ("which_calls_compile", ("graphs, sizes =", "limit -= 1; graphs, sizes ="),
         "limit_counts_as_above"),
        ("bias_into_product", ('{"alpha": alpha}', '{"beta": alpha}'), "alpha_on_the_wrong_side"),
        ("bias_into_product", ("inserting_before(add)", "inserting_before(product)"),
         "before_its_arguments"),
        ("bias_into_product", ("*product.args)", "*product.args[::-1])"), "arguments_swapped"),
        ("merge_twins", ("seen.clear()", "pass"), "stale_read"),
        ("merge_twins", (" or node in written", ""), "written_twin_merged"),
        ("merge_twins", ("node in acts or ", "node in writes or "), "draws_merged"),
        ("merge_twins", ("node.args, node.kwargs", "node.args"), "keywords_ignored"),
        ("merge_twins", ("str((node.target, node.args, node.kwargs))",
                         "(node.target, node.args, *node.kwargs.items())"), "numbers_by_value"),
        ("merge_twins", ("unread and node not in acts", "unread"), "as_found"),
        ("read_wrapper", ("getattr(torch, dtype).itemsize", "4"), "four_bytes_each"),
        ("bytes_moved", ("{(arg, kernel[name]) for", "{(arg, name) for"), "read_again_and_again"),
    ],
)  # fmt: skip
def test_an_answer_spoilt_by_one_line_is_named(
    name: str, edit: tuple[str, str], misconception: str
) -> None:
    verdict = solved(name, edit)
    known = {wrong.name: wrong.sentence for wrong in lab.questions[name].wrong_answers}
    assert (verdict.state, verdict.sentence) == (State.FAIL, known[misconception])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("given_to_backend", ("        return run\n", ""), "a function back"),
        ("one_graph", ("top = z.abs().max()  #", "top = z.abs().max().item()  #"), "first break"),
        ("opaque_step", ("return operator(", "return words_needed("), "cannot trace"),
        ("opaque_step", ("z.new_empty(z.shape[0],", "z.new_empty(len(xs[0]),"), "fake kernel"),
        ("opaque_step", ('op("lab08::words_needed"', 'op("lab08::needed"'), "no graph with"),
        ("bias_into_product", ("            graph.erase_node(add)\n", ""), "nobody reads"),
        ("bias_into_product", (" or len(product.users) > 1", ""), "somebody else reads"),
        ("bias_into_product", ("other is product", "False"), "so does add(m, m)"),
        (
            "merge_twins",
            ("if node in writes:", "if node in writes and 'tanh' not in str(node.args[0].target):"),
            "does something else",
        ),
    ],
)
def test_an_answer_that_breaks_is_told_what_that_means(
    name: str, edit: tuple[str, str], said: str
) -> None:
    verdict = solved(name, edit)
    assert verdict.state is State.FAIL
    assert said in verdict.sentence


OUT = ("out", "output", ["x"], {})
X = ("x", "input", [], {})


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        [X],
        [X, OUT, X],
        [OUT] * 300,
        [X, ("y", "aten.full.default", [[2**40], 1], {}), OUT],
        [X, ("y", "prims.iota.default", [10**12], {}), OUT],
        [X, ("y", "aten.relu.default", [["x"] * 9], {}), OUT],
        [X, ("y", "aten.relu.default", ["x"], {"out": None}), OUT],
        [X, ("y", 7, ["x"], {}), OUT],
        [("x", "input", []), OUT],
    ],
)
def test_a_strange_listing_is_wrong_and_runs_nothing(rows: Any) -> None:
    with pytest.raises(Wrong):
        read(rows)
    verdict = asked("merge_twins", lambda _: rows)
    assert verdict.state is State.FAIL


@pytest.mark.parametrize(
    "row",
    [
        ("y", "aten.relu.default", ["nobody"], {}),
        ("y", "aten.relu.default", [3], {}),
        ("y", "aten.mm.default", ["x"], {}),
        ("y", "aten.add_.Tensor", [1.5, "x"], {}),
        ("y", "aten.add.Tensor", ["x", "x"], {"alpha": 2**62}),
        ("y", "input", [], {}),
    ],
)
def test_a_listing_that_does_not_run_is_wrong_and_no_fault_of_ours(row: Any) -> None:
    verdict = asked("merge_twins", lambda rows: [*rows[:2], row, ("out", "output", ["y"], {})])
    assert verdict.state is State.FAIL
    assert verdict.expected


def test_a_listing_is_the_graph_and_the_graph_the_listing() -> None:
    rows = [
        X,
        ("y", "aten.add.Tensor", ["x", 2], {"alpha": 3}),
        ("z", "aten.mm.default", ["y", "y"], {}),
        ("output", "output", ["z", "x"], {}),
    ]
    assert listing_of(graph_of(rows)) == rows
    x = torch.eye(3)
    module = torch.fx.GraphModule(torch.nn.Module(), graph_of(rows))
    for mine, torchs in zip(run(rows, {"x": x}), module(x), strict=True):
        assert mine.equal(torchs)
    with pytest.raises(KeyError):
        graph_of([("y", "aten.relu.default", ["x"], {})])
    with pytest.raises(AttributeError):
        graph_of([X, ("y", "aten.no_such.default", ["x"], {})])
