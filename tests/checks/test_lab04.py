"""Lab 04's own truths, against torch: a schedule's price, and what a saved tensor costs."""

from __future__ import annotations

import ast
import random
import re
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from autograder.checks.lab04_contracts import lab
from autograder.checks.lab04_contracts.answers import ANOTHER_CALLS
from autograder.checks.lab04_contracts.dropout_block import checkpointed
from autograder.checks.lab04_contracts.fused_loss import right_backward
from autograder.checks.lab04_contracts.schedules import again as flops_again
from autograder.checks.lab04_contracts.schedules import peak as peak_of
from autograder.judge import LocalStudent, Verdict, ask

PAGE = Path(__file__).parents[2] / "solutions" / "04_contracts" / "04_contracts.py"
ROWS = 3


class Activations(TorchDispatchMode):
    """What the layers of a chain write: the bytes alive, their peak, and which layers ran."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.widths = widths  # all different, so that a shape names its layer
        self.now = self.peak = 0
        self.ran: list[int] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.addmm.default:
            self.ran.append(self.widths.index(args[1].shape[1]))
            if result.shape[1] != self.widths[-1]:  # the chain's result is nobody's input
                self.hold(result)
        return result

    def hold(self, t: Tensor) -> None:
        self.now += t.nbytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(t.untyped_storage(), self.release, t.nbytes).atexit = False

    def release(self, nbytes: int) -> None:
        self.now -= nbytes


def checkpointed_by_torch(widths: list[int], keep: list[int]) -> tuple[int, list[int], list[int]]:
    """-> (the peak from the end of the forward on, the layers that ran again, FLOPs of each)."""
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(widths)]

    def run(x: Tensor, start: int, end: int) -> Tensor:
        for layer in layers[start:end]:
            x = layer(x)
        return x

    def loss(seen: Activations) -> Tensor:
        leaf = torch.ones(ROWS, widths[0], requires_grad=True)
        x = leaf * 1
        seen.hold(x)
        for start, end in zip(keep, [*keep[1:], len(layers)], strict=True):
            if end - start == 1:
                x = run(x, start, end)
            else:
                x = checkpoint(run, x, start, end, use_reentrant=False)
        return x.sum()

    with Activations(widths) as seen:
        total = loss(seen)
        seen.peak = seen.now
        seen.ran.clear()
        total.backward()
    return seen.peak, sorted(seen.ran), [2 * ROWS * layer.weight.numel() for layer in layers]


def schedules() -> Iterator[tuple[list[int], list[int]]]:
    drawn = random.Random(4)
    for _ in range(8):
        layers = drawn.randint(1, 8)
        widths = drawn.sample(range(2, 40), layers + 1)
        yield widths, [0, *(k for k in range(1, layers) if drawn.random() < 0.4)]
    yield [9, 8, 7, 6, 5, 4], [0]
    yield [9, 8, 7, 6, 5, 4], [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("widths", "keep"), list(schedules()))
def test_a_schedule_costs_what_torchs_own_checkpoint_costs(
    widths: list[int], keep: list[int]
) -> None:
    peak, again, flops = checkpointed_by_torch(widths, keep)
    nbytes = [4 * ROWS * width for width in widths[:-1]]
    assert peak_of(nbytes, keep) == peak
    assert flops_again(flops, keep) == sum(flops[i] for i in again)


def asked(name: str, **functions: Callable[..., Any]) -> Verdict:
    question = lab.questions[name]
    return ask(question, LocalStudent(functions), seed=11)


def test_a_saved_slice_counts_with_all_of_its_storage() -> None:
    def forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        z = F.linear(x, w, b)
        return F.cross_entropy(z, target), [x, w, b, target, z[:, 0]]

    verdict = asked("head_loss", head_loss_forward=forward)
    assert verdict.state == "fail"
    assert verdict.expected.startswith("at most")


def test_two_storages_of_one_number_for_each_row_are_allowed_and_three_are_not() -> None:
    def forward_saving(many: int) -> Callable[..., Any]:
        def forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
            loss = F.cross_entropy(F.linear(x, w, b), target)
            return loss, [x, w, b, target, *(torch.zeros(len(x)) for _ in range(many))]

        return forward

    two, three = (
        asked("head_loss", head_loss_forward=forward_saving(n), head_loss_backward=right_backward)
        for n in (2, 3)
    )
    assert (two.state, three.state) == ("pass", "fail")


def test_what_a_node_saved_and_what_the_halves_save_is_computed() -> None:
    questions = lab.questions
    witnessed = [name for name, question in questions.items() if question.witnessed]
    assert witnessed == []


def test_what_the_page_says_of_a_schedule_is_what_the_judge_says() -> None:
    (given, said) = re.findall(r"`schedule_cost\((.*?)\)` is `(.*?)`", PAGE.read_text("utf-8"))[0]
    nbytes, flops, keep = ast.literal_eval(f"({given})")
    assert ast.literal_eval(said) == (peak_of(nbytes, keep), flops_again(flops, keep))


def rolled(seed: int, x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    torch.manual_seed(seed)
    return F.linear(F.dropout(F.gelu(F.linear(x, w1)), 0.1), w2)


def test_a_block_that_starts_from_the_seed_is_not_the_block_that_was_asked_for() -> None:
    @torch.random.fork_rng(devices=[])
    def forward(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Any:
        y = rolled(seed, x, w1, w2)
        return y, [x, w1, w2], torch.rand(2)

    verdict = asked("checkpoint_block", checkpoint_forward=forward)
    assert verdict.state == "fail"
    assert verdict.misconception == "seeded"


def test_what_is_0_behind_the_dropout_need_not_have_been_dropped() -> None:
    """gelu(0) is 0 as well, and its slope there is 0.5."""

    @torch.random.fork_rng(devices=[])
    def backward(saved: list[Tensor], dy: Tensor, seed: int) -> Any:
        torch.manual_seed(seed)
        torch.rand(3)
        x, w1, w2, state = saved
        a = F.linear(x, w1).detach().requires_grad_()
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            h = F.dropout(F.gelu(a), 0.1)
        (da,) = torch.autograd.grad(F.gelu(a), a, (dy @ w2) * (h != 0) / 0.9)
        return [da @ w1, da.T @ x, dy.T @ h.detach()], torch.rand(2)

    halves = {"checkpoint_forward": checkpointed, "checkpoint_backward": backward}
    verdict = asked("checkpoint_block", **halves)
    assert verdict.state == "fail"
    assert "in dx at [3, " in str(verdict)


@pytest.mark.parametrize(
    ("name", "saved", "read"),
    [
        ("cap_in_place", "save_for_backward(z <= limit)", "(passed,) = ctx.saved_tensors"),
        ("loss_curvature", "save_for_backward(z, target)", "z, target = ctx.saved_tensors"),
    ],
)
def test_what_a_class_keeps_for_all_of_its_calls_is_not_saved(
    name: str, saved: str, read: str
) -> None:
    found = re.search(rf'id="{name}" role="solution"\n(.*?)\n# %%', PAGE.read_text("utf-8"), re.S)
    assert found
    assert found[1].count(saved) == found[1].count(read) == 1
    aside = saved.replace("save_for_backward(", "KEPT[:] = (").replace(")", ",)")
    kept = found[1].replace(f"ctx.{saved}", aside)
    kept = kept.replace(read, read.replace("ctx.saved_tensors", "KEPT"))
    for text, state in ((found[1], "pass"), (kept, "fail")):
        page: dict[str, Any] = {"torch": torch, "F": F, "KEPT": []}
        exec(text, page)
        assert asked(name, **{name: page[name]}).state == state


@pytest.mark.parametrize(
    ("name", "made"),
    [("cap_in_place", "z <= limit"), ("loss_curvature", "F.one_hot(target, z.shape[1])")],
)
def test_what_is_kept_for_a_shape_is_not_that_of_the_next_call(name: str, made: str) -> None:
    found = re.search(rf'id="{name}" role="solution"\n(.*?)\n# %%', PAGE.read_text("utf-8"), re.S)
    assert found
    assert found[1].count(made) == 1
    kept = found[1].replace(made, f"KEPT.setdefault((z.shape, z.dtype), {made})")
    for text, state in ((found[1], "pass"), (kept, "fail")):
        page: dict[str, Any] = {"torch": torch, "F": F, "KEPT": {}}
        exec(text, page)
        verdict = asked(name, **{name: page[name]})
        assert verdict.state == state
    assert verdict.sentence == ANOTHER_CALLS


def test_logits_of_which_exp_is_infinite_in_float64_too_are_asked() -> None:
    def forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Any:
        z = F.linear(x, w, b)
        lse = z.double().exp().sum(1).log().to(z.dtype)
        return (lse - z[torch.arange(len(z)), target]).mean(), [x, w, b, target]

    verdict = asked("head_loss", head_loss_forward=forward, head_loss_backward=right_backward)
    assert (verdict.state, verdict.got) == ("fail", "inf")
    assert verdict.sentence


@pytest.mark.parametrize("lacking", ["bytes", "FLOPs"])
def test_what_has_no_bytes_or_costs_no_flops_is_held_and_made_again(lacking: str) -> None:
    def schedule_cost(nbytes: list[int], flops: list[int], keep: list[int]) -> tuple[int, int]:
        held, again, most = set(keep), 0, sum(nbytes[k] for k in keep)
        for i in reversed(range(len(nbytes))):
            if i not in held and (flops[i] or lacking == "bytes"):
                start = max(k for k in held if k < i)
                again += sum(flops[start:i])
                held |= {k for k in range(start + 1, i + 1) if nbytes[k] or lacking == "FLOPs"}
            most = max(most, sum(nbytes[k] for k in held))
            held.discard(i)
        return most, again

    assert asked("schedule_cost", schedule_cost=schedule_cost).state == "fail"


def test_a_row_that_loses_little_is_cut_off_like_the_others() -> None:
    found = re.search(
        r'id="cap_in_place" role="solution"\n(.*?)\n# %%', PAGE.read_text("utf-8"), re.S
    )
    assert found
    assert found[1].count("z.clamp_(max=limit)") == 1
    loud = "z.copy_(torch.where(lost[:, None] > 0.5, z.clamp(max=limit), z))"
    page: dict[str, Any] = {"torch": torch, "F": F}
    exec(found[1].replace("z.clamp_(max=limit)", loud), page)
    assert asked("cap_in_place", cap_in_place=page["cap_in_place"]).state == "fail"
