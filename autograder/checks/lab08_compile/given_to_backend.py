"""A backend that counts: what it is given, and how often that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab
from .programs import Arguments, Given, compiled, operations, remembered

Counted = tuple[list[int], int]
_RAISED = {
    "BackendCompilerFailed": "Your backend raised an error, or returned no function. Dynamo calls "
    "it with a graph and expects a function back: one that counts and calls the graph.",
    "TypeError": "What your backend returns is called in the graph's place, with the graph's "
    "inputs: it takes *args, and returns what graph_module(*args) returns.",
    "UnboundLocalError": "`ran += 1` inside a function makes a new `ran`, unless that function "
    "says `nonlocal ran` first.",
}


@lab.question(
    "given_to_backend",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "A backend is a function of a graph module and example inputs. When is it called, and when "
        "is what it returns called?",
        "Once for each graph that Dynamo has captured: append the count there. What you return "
        "runs in place of the graph, at each call: count runs there, with `nonlocal ran`.",
        'given.append(sum(node.op.startswith("call_") for node in graph_module.graph.nodes))',
    ),
    budget_s=60.0,
    host="What sets the GPU as default changes what kind of node a call becomes in a graph.",
)
def given_to_backend(student: Student, draw: Draw) -> None:
    """What torch.compile gives a backend for a program, and how often that runs.

    source (defines `step`), calls (lists of arguments) -> (operations of each graph, in the order
    in which they were given; how often graphs were run, all together).
    """
    programs = [_program(draw, breaks) for breaks in (1, draw.integer(0, 2), 0)]
    cases = _early(draw), _equal(draw, 1), *programs, _in_place(draw), _either(draw)
    for source, calls in (*cases, _equal(draw, 2)):
        with explaining(_RAISED):
            got = student.call("given_to_backend", source, calls)
        listed, ran = expect_tuple(got, 2, "(operations of each graph, runs)")
        given = _given(source, calls)
        with within("given,"):
            runs = sum(given.runs)
            each_run = isinstance(listed, (list, tuple)) and len(listed) == runs
            many = each_run and runs != len(given.graphs)
            why = _AT_EACH_RUN if many else _counted_by_kind(listed, given)
            expect_equal(listed, _operations(given), why=why)
        with within("ran,"), saying(_of_the_runs(ran, given, calls)):
            expect_equal(ran, runs)


_AT_FIRST = (
    "As many runs are missing as there are graphs. A graph runs in the call that brought it, too."
)


def _of_the_runs(ran: Any, given: Given, calls: Sequence[Arguments]) -> str:
    """What is true of a wrong number of runs."""
    runs = sum(given.runs)
    if type(ran) is not int:
        return ""
    if ran == runs - len(given.graphs):
        return _AT_FIRST
    if ran > runs:
        return (
            f"{ran - runs} too many were counted. Each of the {len(calls)} calls is made once, and "
            "runs each graph on its way once."
        )
    return (
        f"{runs - ran} runs are missing. Each of the {len(calls)} calls runs each graph on its "
        "way, those that an earlier call brought as well."
    )


_AT_EACH_RUN = (
    "This list has as many entries as there were runs. A graph is listed once, when the backend "
    "gets it."
)


_LISTED_AT_EACH_RUN = (
    "A graph is listed once for each of its runs, as where what runs lists it, or where each call "
    "compiles anew. Compile once, and count in the backend, which gets each graph once."
)


def _counted_by_kind(listed: Any, given: Given) -> str:
    """Of the first graph that was counted wrongly: what its operations are."""
    right = _operations(given)
    if not isinstance(listed, (list, tuple)):
        return ""
    if len(listed) != len(right):
        return f"The backend was given {len(right)} graphs. The list has a number for each."
    k = next((k for k, n in enumerate(right) if listed[k] != n), 0)
    kinds = [node.op for node in given.graphs[k].graph.nodes]
    functions, methods = kinds.count("call_function"), kinds.count("call_method")
    inputs, attributes = kinds.count("placeholder"), kinds.count("get_attr")
    names = ", ".join(n.name for n in given.graphs[k].graph.nodes if n.op.startswith("call_"))
    return (
        f"Graph {k} has {right[k]} operations ({names}): {functions} nodes call a function and "
        f"{methods} a method. {inputs} inputs, {attributes} nodes that fetch an attribute and the "
        "output are none."
    )


def _program(draw: Draw, breaks: int) -> tuple[str, list[list[Any]]]:
    """A program that breaks so many times, and four calls, two of them alike in shape."""
    lines = ["def step(x, w, b):", "    y = F.linear(x, w, b)"]
    for part in range(breaks + 1):
        if part:
            lines += ["    if y.sum() > 0:", f"        y = y / {draw.integer(2, 9)}"]
        most = 2 if part else 3  # the graph behind one break is the shorter one: an order shows
        ops = draw.shuffled(("torch.tanh(y)", "y * 2", "y.relu()"))[: draw.integer(1, most)]
        lines += [f"    y = {op}" for op in (*ops, *[ops[0]] * 3)]  # one operation several times
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    w, b = draw.tensor(v, d), draw.tensor(v).abs() + 9  # so that the sum is above 0
    calls = [[draw.tensor(rows, d), w, b] for rows in (n, n, n + 3, n + 5)]
    return "\n".join([*lines, "    return y", ""]), calls


def _equal(draw: Draw, calls: int) -> tuple[str, list[list[Any]]]:
    """A program whose first two graphs have as many operations: each of them is listed, also when
    the same text comes again, before a Dynamo that has seen nothing."""
    source = """
def step(x, w, b):
    y = torch.tanh(F.linear(x, w, b))
    torch._dynamo.graph_break()
    y = y.relu() * 2
    torch._dynamo.graph_break()
    return y + 1
"""
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    return source, [[draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)]] * calls


def _either(draw: Draw) -> tuple[str, list[list[Any]]]:
    """A program that decides inside its graph, which holds both ways: nodes that are no calls."""
    source = """
def step(x, w, b):
    y = F.linear(x, w, b)
    return torch.cond(y.sum() > 0, lambda z: z * 2, lambda z: z - 1, (y,))
"""
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    return source, [[draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)]]


def _early(draw: Draw) -> tuple[str, list[list[Any]]]:
    """A program that returns behind its first break, in the second of its calls. Of no number of
    them are there as many runs as there are calls."""
    source = """
def step(x, w, b):
    y = torch.tanh(F.linear(x, w, b))
    if y.sum() < 0:
        return y * 2
    y = y.relu() + 1
    if y.sum() > 0:
        y = y / 3
    return torch.tanh(y) * 2
"""
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v).abs() + 9
    return source, [[x, w, b], [x, -w, -b], *[[x, w, b]] * 4]


def _in_place(draw: Draw) -> tuple[str, list[list[Any]]]:
    """A program with operations whose result nobody reads."""
    source = """
def step(x, w, b):
    y = F.linear(x, w, b)
    y.add_(1)
    torch.tanh_(y)
    return y * 2
"""
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    return source, [[draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)]] * 2


_given = remembered(compiled)


def _operations(given: Given) -> list[int]:
    return list(map(operations, given.graphs))


def _by_node(counts: Callable[[Node], bool]) -> Callable[[str, Sequence[Arguments]], Counted]:
    """An answer that counts these nodes of each graph."""

    def answer(source: str, calls: Sequence[Arguments]) -> Counted:
        given = _given(source, calls)
        return [sum(map(counts, graph.graph.nodes)) for graph in given.graphs], sum(given.runs)

    return answer


given_to_backend.wrong(
    "every_node",
    "Inputs and the output were counted too. They are nodes of the graph; operations are those "
    'whose `op` begins with "call_".',
    given_to_backend=_by_node(lambda node: True),
)
given_to_backend.wrong(
    "inputs_counted",
    "The output was left out, and the inputs were counted: a placeholder is a node, and no "
    "operation.",
    given_to_backend=_by_node(lambda node: node.op != "output"),
)
given_to_backend.wrong(
    "attributes_counted",
    'More than the operations of this graph were counted. A node whose `op` is "get_attr" is '
    "none, and what stands in a graph that it fetches is not in this one.",
    given_to_backend=_by_node(lambda node: node.op not in ("placeholder", "output")),
)
given_to_backend.wrong(
    "unread_left_out",
    "Operations whose result nobody reads were left out. The graph that came has them too, and one "
    "that writes into a tensor does so unread.",
    given_to_backend=_by_node(lambda node: node.op.startswith("call_") and bool(node.users)),
)
given_to_backend.wrong(
    "functions_only",
    'Calls of methods are missing: `y.sum()` is a node whose `op` is "call_method". Count all that '
    'begin with "call_".',
    given_to_backend=_by_node(lambda node: node.op == "call_function"),
)


@given_to_backend.wrong(
    "runs_not_counted",
    "Each graph was counted once, which is how often the backend is called. What it returns is "
    "called at each run: count every run there, not every graph.",
)
def _(source: str, calls: Sequence[Arguments]) -> Counted:
    given = _given(source, calls)
    return _operations(given), len(given.graphs)


given_to_backend.wrong(
    "never_ran",
    "`ran` is 0 at the end. What the backend returns takes the graph's place: count inside that "
    "function, with `nonlocal ran`.",
    given_to_backend=lambda source, calls: (_operations(_given(source, calls)), 0),
)
given_to_backend.wrong(
    "calls_of_step",
    "This is how often `step` was called. A step that breaks runs several graphs in each call.",
    given_to_backend=lambda source, calls: (_operations(_given(source, calls)), len(calls)),
)


@given_to_backend.wrong(
    "at_each_run",
    _LISTED_AT_EACH_RUN,
)
def _(source: str, calls: Sequence[Arguments]) -> Counted:
    given = _given(source, calls)
    again = [n for n, k in zip(_operations(given), given.runs, strict=True) for _ in range(k)]
    return again, sum(given.runs)


@given_to_backend.wrong(
    "one_number",
    "The operations of all graphs were added up. Between two graphs Python runs: keep a number for "
    "each.",
)
def _(source: str, calls: Sequence[Arguments]) -> tuple[int, int]:
    given = _given(source, calls)
    return sum(_operations(given)), sum(given.runs)


@given_to_backend.wrong(
    "first_call_only",
    "Only the graphs of the first call are here, and the runs of all. A later call brings more "
    "where it goes another way or a guard fails: list each graph.",
)
def _(source: str, calls: Sequence[Arguments]) -> Counted:
    given = _given(source, calls[:1])
    return _operations(given), sum(_given(source, calls).runs)


def _counted(name: str, sentence: str, change: Callable[[Given, int], Any]) -> None:
    """change: of what the backend was given, and how many calls there were."""
    given_to_backend.wrong(
        name,
        sentence,
        given_to_backend=lambda source, calls: change(_given(source, calls), len(calls)),
    )


_counted(
    "output_counted",
    "Each graph has one too many here, as where its output is counted: it is a node, and no "
    "operation.",
    lambda given, calls: ([n + 1 for n in _operations(given)], sum(given.runs)),
)
_counted(
    "each_operation_once",
    "Equal operations were counted once. Each node is one, also where another calls the same.",
    lambda given, calls: (
        [
            len({node.target for node in graph.graph.nodes if node.op.startswith("call_")})
            for graph in given.graphs
        ],
        sum(given.runs),
    ),
)
_counted(
    "every_graph_each_time",
    "This is the number of graphs times the number of calls. A call runs only the graphs on its "
    "way, not those of another branch or another shape: count the runs.",
    lambda given, calls: (_operations(given), len(given.graphs) * calls),
)
given_to_backend.wrong(
    "every_graph_so_far",
    "In each call every graph that there was by then was counted. A call runs its own way through "
    "the program: count the runs, in what the backend returns.",
    given_to_backend=lambda source, calls: (
        _operations(_given(source, calls)),
        sum(len(_given(source, calls[: k + 1]).graphs) for k in range(len(calls))),
    ),
)
_counted(
    "how_many_graphs",
    "This is how many graphs there are. The number of operations of each is asked, in a list.",
    lambda given, calls: (len(given.graphs), sum(given.runs)),
)
_counted(
    "first_graph_only",
    "Only the first graph is here. Behind a break Dynamo begins another.",
    lambda given, calls: (_operations(given)[:1], sum(given.runs)),
)
_counted(
    "runs_first",
    "The two changed places: the list first, then how often graphs ran.",
    lambda given, calls: (sum(given.runs), _operations(given)),
)
_counted(
    "one_more_for_each_graph",
    "There are as many runs too many as there are graphs. The backend is called once for each: "
    "that call is no run, nor is one that it makes itself, to try the graph.",
    lambda given, calls: (_operations(given), sum(given.runs) + len(given.graphs)),
)
_counted(
    "the_example",
    "These are the numbers of the example. Count for the program that comes.",
    lambda given, calls: ([3, 1], 4),
)


@given_to_backend.wrong(
    "listed_at_each_run",
    _LISTED_AT_EACH_RUN,
)
def _(source: str, calls: Sequence[Arguments]) -> Counted:
    listed: list[int] = []
    for k in range(len(calls)):
        now, before = _given(source, calls[: k + 1]), _given(source, calls[:k])
        runs = [*before.runs, *[0] * len(now.runs)]
        ran = [a > b for a, b in zip(now.runs, runs, strict=False)]
        listed += [n for n, yes in zip(_operations(now), ran, strict=True) if yes]
    return listed, sum(_given(source, calls).runs)


@given_to_backend.wrong(
    "first_call_alone",
    "These are the numbers of the first call alone. The compiled function is called with each of "
    "`calls`.",
)
def _(source: str, calls: Sequence[Arguments]) -> Counted:
    given = _given(source, calls[:1])
    return _operations(given), sum(given.runs)


@given_to_backend.cost
def _(student: Student, draw: Draw) -> str:
    source, calls = _program(draw, 1)
    operations_of, runs = student.call("given_to_backend", source, calls)
    return (
        f"with one break: {len(operations_of)} graphs compiled, {runs} runs in {len(calls)} calls, "
        "and Python between the two halves of each"
    )
