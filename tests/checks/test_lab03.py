"""Lab 03 names a mistake also where two people write it differently: in another order, with other
rounding, by experiment instead of by thought."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks import find
from autograder.checks.lab03_autograd import lab
from autograder.checks.lab03_autograd.cross_entropy_backward import OVERFLOW, UNDERFLOW
from autograder.checks.lab03_autograd.edit_outcome import VIEWED
from autograder.checks.lab03_autograd.numeric_gradient import LOST
from autograder.checks.lab03_autograd.torchs_engine import settled, torchs_run
from autograder.checks.lab03_autograd.walk_graph import KEPT
from autograder.judge import LocalStudent, State, Verdict, ask

PAGE = Path(__file__).parents[2] / "solutions" / "03_autograd" / "03_autograd.py"


def asked(name: str, answer: Callable[..., Any], seed: int = 11) -> Verdict:
    return ask(find(name, [lab]), LocalStudent({name: answer}), seed=seed)


def sentence(name: str, known: str) -> str:
    wrong = {answer.name: answer.sentence for answer in find(name, [lab]).wrong_answers}
    return wrong[known]


def test_what_the_page_says_of_its_graph_is_what_torch_does() -> None:
    (cell,) = re.findall(r'id="the-engine-graph"\n(.*?)\n\n', PAGE.read_text("utf-8"), re.DOTALL)
    page: dict[str, Any] = {}
    exec(cell, page)
    lines = re.findall(r'# run_backward\(graph, ("\w+"), (.*?)\) +-> (.*)', cell)
    assert len(lines) == 2
    for root, grad, said in (map(ast.literal_eval, line) for line in lines):
        order, after = torchs_run(page["graph"], root, grad)
        assert said == (settled(order, page["graph"]), after)


def test_a_walk_in_another_order_is_told_what_it_left_out() -> None:
    def breadth_first_without_root(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)
        reached = [F.cross_entropy(F.linear(x, w, b), target).grad_fn]
        for node in reached:
            after = [n for n, _ in node.next_functions] if node else []
            reached += [n for n in dict.fromkeys(after) if n is not None and n not in reached]
        shapes = [getattr(node, "variable", None) for node in reached]
        return [
            [node.name(), None if leaf is None else leaf.shape]
            for node, leaf in list(zip(reached, shapes, strict=True))[1:][::-1]
            if node is not None
        ]

    verdict = asked("walk_graph", breadth_first_without_root)
    assert (verdict.state, verdict.sentence) == (
        State.FAIL,
        sentence("walk_graph", "root_left_out"),
    )


def test_a_walk_that_begins_without_a_graph_is_told_that_it_entered_a_none() -> None:
    def begins_anyway(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)
        node: Any = F.cross_entropy(F.linear(x, w, b), target).grad_fn
        return [(node.name(), None)]

    verdict = asked("walk_graph", begins_anyway)
    assert verdict.sentence == sentence("walk_graph", "entered_none")


def test_two_leaves_with_as_many_numbers_are_two() -> None:
    def one_leaf_a_size(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)
        waiting: list[Any] = [F.cross_entropy(F.linear(x, w, b), target).grad_fn]
        found: dict[Any, Any] = {}
        for node in filter(None, waiting):
            leaf = getattr(node, "variable", None)
            shape = None if leaf is None else tuple(leaf.shape)
            found.setdefault(node if leaf is None else leaf.numel(), (node.name(), shape))
            waiting += [after for after, _ in node.next_functions]
        return list(found.values())

    assert asked("walk_graph", one_leaf_a_size).state is State.FAIL


def test_a_copy_of_z_or_of_dz_is_told_that_nothing_reaches_the_original() -> None:
    def reshaped(z: Tensor, target: Tensor, h: float) -> Tensor:
        z = z.to(torch.float64)
        dz = torch.zeros_like(z)
        flat, slopes = z.reshape(-1), torch.zeros(z.numel(), dtype=torch.float64)
        for k in range(z.numel()):
            flat[k] += h
            up = F.cross_entropy(z, target)
            flat[k] -= 2 * h
            slopes[k] = (up - F.cross_entropy(z, target)) / (2 * h)
            flat[k] += h
        return dz + slopes.view(z.shape)

    def written_into_a_copy(z: Tensor, target: Tensor, h: float) -> Tensor:
        z = z.to(torch.float64)
        dz = torch.zeros_like(z)
        flat = dz.reshape(-1)
        for k, move in enumerate(h * torch.eye(z.numel(), dtype=z.dtype).view(-1, *z.shape)):
            up, down = F.cross_entropy(z + move, target), F.cross_entropy(z - move, target)
            flat[k] = (up - down) / (2 * h)
        return dz

    for answer in (reshaped, written_into_a_copy):
        assert asked("numeric_gradient", answer).sentence == LOST


def test_a_difference_with_other_rounding_is_told_that_it_is_doubled() -> None:
    def in_place(z: Tensor, target: Tensor, h: float) -> Tensor:
        z = z.to(torch.float64)
        dz = torch.zeros_like(z)
        for n in range(z.shape[0]):
            for v in range(z.shape[1]):
                z[n, v] += h
                up = F.cross_entropy(z, target)
                z[n, v] -= 2 * h
                down = F.cross_entropy(z, target)
                z[n, v] += h
                dz[n, v] = (up - down) / h
        return dz

    verdict = asked("numeric_gradient", in_place)
    assert verdict.sentence == sentence("numeric_gradient", "not_halved")


def test_any_sorted_order_is_told_which_one_is_torchs() -> None:
    def last_edge_first(nodes: Any, root: str, grad: dict[str, float]) -> Any:
        finished: dict[str, None] = {}

        def build(name: str) -> None:
            for child, _ in reversed(nodes[name]["next"]):
                if child is not None and child not in finished:
                    build(child)
            finished[name] = None

        build(root)
        return list(finished)[::-1], grad

    verdict = asked("run_backward", last_edge_first)
    assert verdict.sentence == sentence("run_backward", "an_order_of_its_own")


def by_experiment(wanted: str, *, twice: bool = False) -> Callable[..., str]:
    """The answer of somebody who tries it, asking for the gradients of the leaves or the clones."""

    def edit_outcome(op: str, inputs: list[Tensor], edited: Any, way: str) -> str:
        used = [leaf.clone() for leaf in inputs]
        out = getattr(torch, op)(*used)
        target = out if edited == "out" else used[edited]
        of = [t for t in (inputs if wanted == "leaves" else used) if t.requires_grad]
        before = torch.autograd.grad(out.sum(), of, retain_graph=not twice)
        ways = {"itself": target, "view": target[:], "detach": target.detach()}
        ways.get(way, target.data).add_(1)
        try:
            after = torch.autograd.grad(out.sum(), of)
        except RuntimeError:
            return "raises"
        return "harmless" if all(map(torch.equal, before, after)) else "silent"

    return edit_outcome


@pytest.mark.parametrize("seed", range(3))
def test_an_experiment_is_as_good_as_a_thought_and_its_traps_have_names(seed: int) -> None:
    assert asked("edit_outcome", by_experiment("leaves"), seed).state is State.PASS
    for experiment, known in [
        (by_experiment("clones"), "gradient_of_the_edited_tensor"),
        (by_experiment("leaves", twice=True), "backward_twice"),
    ]:
        assert asked("edit_outcome", experiment, seed).sentence == sentence("edit_outcome", known)


def test_a_view_that_cannot_be_made_is_not_taken_for_backwards_refusal() -> None:
    def flattened(op: str, inputs: list[Tensor], edited: Any, way: str) -> str:
        target = getattr(torch, op)(*inputs) if edited == "out" else inputs[edited].clone()
        if way == "view":
            target.view(-1)
        return by_experiment("leaves")(op, inputs, edited, way)

    def flattened_in_its_try(op: str, inputs: list[Tensor], edited: Any, way: str) -> str:
        try:
            return flattened(op, inputs, edited, way)
        except RuntimeError:
            return "raises"

    for answer in (flattened, flattened_in_its_try):
        assert asked("edit_outcome", answer).sentence == VIEWED


@pytest.mark.parametrize(("shift", "cause"), [(0.0, OVERFLOW), (1.0, UNDERFLOW)])
def test_nan_of_an_overflow_is_not_that_of_rows_without_a_number(shift: float, cause: str) -> None:
    def cross_entropy_backward(z: Tensor, target: Tensor, dloss: float) -> Tensor:
        e = (z - shift * z.max()).exp()
        kept = target != -100
        dz = (e / e.sum(1, keepdim=True) - F.one_hot(target * kept, z.shape[1])) * kept[:, None]
        return (dz * dloss / kept.sum()).float()  # always float32: no known answer does that too

    assert asked("cross_entropy_backward", cross_entropy_backward).sentence == cause


def test_a_list_that_lives_on_from_call_to_call_is_told_so() -> None:
    held: list[Any] = []

    def kept(tokens: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)
        walk = [F.cross_entropy(F.linear(x, w, b), target).grad_fn]
        for node in walk:
            after = dict.fromkeys(n for n, _ in node.next_functions) if node else ()
            walk += [n for n in after if n not in walk]
        named = [(n, getattr(n, "variable", None)) for n in walk if n is not None]
        held.extend((n.name(), None if leaf is None else leaf.shape) for n, leaf in named)
        return held

    assert asked("walk_graph", kept).sentence == KEPT


def test_a_copy_in_place_of_a_view_loses_the_edit() -> None:
    def flattened(op: str, inputs: list[Tensor], edited: Any, way: str) -> str:
        def run(is_edited: bool) -> tuple[Tensor, ...]:
            used = [leaf.clone() for leaf in inputs]
            out = getattr(torch, op)(*used)
            target = out if edited == "out" else used[edited]
            if way == "view":
                target = target.reshape(-1)  # a copy of what is transposed
            elif way != "itself":
                target = getattr(target, way)() if way == "detach" else target.data
            if is_edited:
                target.add_(1)
            return torch.autograd.grad(out.sum(), [t for t in inputs if t.requires_grad])

        try:
            same = all(map(torch.equal, run(True), run(False)))
        except RuntimeError:
            return "raises"
        return "harmless" if same else "silent"

    for seed in range(3):
        told = asked("edit_outcome", flattened, seed).sentence
        assert told == sentence("edit_outcome", "copied_for_a_view")


def strided_as_the_first_sentence(dy: Tensor, tokens: Tensor, rows: int) -> Tensor:
    flat = dy.reshape(-1, dy.shape[-1])
    if dy.stride(0) > dy.stride(1):
        flat = dy.as_strided(flat.shape, dy.stride()[1:])
    return dy.new_zeros(rows, dy.shape[-1]).index_add_(0, tokens.flatten(), flat)


def blind_to_edges_of_0(nodes: Any, root: str, grad: dict[str, float]) -> Any:
    seen = {
        name: {**node, "next": [(child, by) for child, by in node["next"] if by]}
        for name, node in nodes.items()
    }
    return torchs_run(seen, root, grad)


def exponentials_in_float64(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    e, kept = z.double().exp(), target >= 0
    dz = (e / e.sum(1, keepdim=True)).to(z.dtype) - F.one_hot(target * kept, z.shape[1])
    return dz * kept[:, None] * dloss / kept.sum()


def step_in_float64(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Any:
    dz = exponentials_in_float64(F.linear(x, w, b), target, 1.0)
    return w - lr * dz.T @ x, b - lr * dz.sum(0)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("embedding_backward", strided_as_the_first_sentence),
        ("run_backward", blind_to_edges_of_0),
        ("cross_entropy_backward", exponentials_in_float64),
        ("raise_the_words", step_in_float64),
    ],
)
def test_what_is_wrong_for_a_rare_argument_alone_fails_with_each_seed(
    name: str, answer: Callable[..., Any]
) -> None:
    for seed in range(3):
        verdict = asked(name, answer, seed)
        assert verdict.state == State.FAIL
        assert verdict.sentence
