"""Lab 11's own truths, against torch; and answers of students with one thing left out, on real
processes: each must fail, with the sentence that names what is missing."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

import onelayer
from autograder import selftest
from autograder.checks.lab11_distributed import (
    every_word,
    fsdp_step,
    harness,
    lab,
    sharded_head,
    vocab_loss,
)
from autograder.checks.lab11_distributed.ddp_step import _drawn as drawn_ranks
from autograder.checks.lab11_distributed.ddp_step import ddp_step
from autograder.checks.lab11_distributed.faulty_ddp import HUNG
from autograder.checks.lab11_distributed.language_net import Params, net_loss, stepped
from autograder.checks.lab11_distributed.pipeline import all_forward_first, one_f_one_b, run
from autograder.checks.lab11_distributed.stage_order import BEYOND
from autograder.checks.lab11_distributed.step_bytes import sent_bytes, step_bytes
from autograder.checks.lab11_distributed.trace_events import MISMATCH
from autograder.judge import Draw, LocalStudent, State, Verdict, ask

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "solutions" / "11_distributed" / "11_distributed.py"


def code(cell: str) -> str:
    """The source of a cell of the solution."""
    (found,) = re.findall(rf'^# %% id="{cell}".*?\n(.*?)(?=^# %%)', PAGE.read_text(), re.M | re.S)
    return str(found)


def answered(question: str, *edits: tuple[str, str], patience_s: float = 10.0) -> Verdict:
    """The verdict on the solution with these edits, of which each has to find its place."""
    source = code(question)
    for old, new in edits:
        assert source.count(old), f"{old!r} is not in {question}"
        source = source.replace(old, new)
    setup = code("the-ranks-code").replace("timeout_s=10.0", f"timeout_s={patience_s}")
    names: dict[str, Any] = {}
    for name, text in (("setup", code("setup")), ("ranks", setup), (question, source)):
        exec(compile(text, f"<cell {name}>", "exec"), names)
    return ask(lab.questions[question], LocalStudent(names), seed=7)


def sentence_of(question: str, known: str) -> str:
    (found,) = [w.sentence for w in lab.questions[question].wrong_answers if w.name == known]
    return found


def test_what_ranks_did_is_not_in_the_hands_of_who_started_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = [(torch.ones(2), [("all_reduce", 8)])]
    monkeypatch.setattr(onelayer, "run_ranks", lambda *_, **how: ran)
    monkeypatch.setattr(harness, "GIVEN", [[()]])
    monkeypatch.setattr(harness, "RUNS", [])
    ((answer, trace),) = harness.on_ranks(lambda: None, [])
    answer.zero_()
    trace.clear()
    ((answer, trace),) = harness.RUNS[0]
    assert (answer.tolist(), trace) == ([1.0, 1.0], [("all_reduce", 8)])


START = "started.append((members, flat, dist.all_reduce(flat, async_op=True)))"
IN_ORDER = """        while len(started) < len(buckets) and ready.issuperset(buckets[len(started)]):
            members = [params[k] for k in buckets[len(started)]]
"""
WHEN_FULL = """        for bucket in buckets:
            members = [params[k] for k in bucket]
            begun = [p for others, _, _ in started for p in others]
            if not ready.issuperset(bucket) or any(p is members[0] for p in begun):
                continue
"""
NO_REDUCE = (
    START,
    START.replace("dist.all_reduce(flat, async_op=True)", "dist.barrier(async_op=True)"),
)
WAITING = """work = dist.all_reduce(flat, async_op=True)
            work.wait()
            started.append((members, flat, work))"""
LEFT_OUT: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("ddp_step", "own_start", [("        dist.broadcast(p, src=0)\n", "")]),
    ("ddp_step", "mean_start", [("dist.broadcast(p, src=0)", "dist.all_reduce(p); p /= world")]),
    (
        "ddp_step",
        "sent_before_added",
        [("register_post_accumulate_grad_hook(arrived)", "register_hook(arrived)")],
    ),
    (
        "ddp_step",
        "quiet_arrivals_counted",
        [("set(), []", "{k for *_, language in quiet for k in (2, 3, language)}, []")],
    ),
    ("ddp_step", "missing_all_reduce", [NO_REDUCE, ("lr / world", "lr")]),
    ("ddp_step", "missing_all_reduce_divided", [NO_REDUCE]),
    ("ddp_step", "not_averaged", [("lr / world", "lr")]),
    ("ddp_step", "nothing_moved", [("p -= lr / world *", "p -= 0 *")]),
    ("ddp_step", "started_when_full", [(IN_ORDER, WHEN_FULL)]),
    ("ddp_step", "after_backward", [("            start_full_ones()\n\n", "\n")]),
    ("ddp_step", "not_waited", [("            work.wait()\n", "")]),
    (
        "ddp_step",
        "waited_in_the_hook",
        [(START, WAITING)],
    ),
    (
        "every_word",
        "missing_all_reduce",
        [("    dist.all_reduce(dw)\n", ""), ("    dist.all_reduce(words)\n", "")],
    ),
    ("every_word", "own_count", [("    dist.all_reduce(words)\n", "")]),
    ("every_word", "divided_by_ranks", [("dw / words", "dw / dist.get_world_size()")]),
    (
        "every_word",
        "as_many_everywhere",
        [("    dist.all_reduce(words)\n", "    words *= dist.get_world_size()\n")],
    ),
    ("every_word", "word_0_not_counted", [("(target != -100).sum()", "(target > 0).sum()")]),
    ("every_word", "padding_alone_is_a_word", [("-100).sum()", "-100).sum().clamp(min=1)")]),
    (
        "shard_rows",
        "remainder_dropped",
        [("-(-len(t) // world)", "len(t) // world"), ("= t\n", "= t[: world * rows]\n")],
    ),
    (
        "fsdp_step",
        "remainder_dropped",
        [
            ("padded = F.pad(dw, (0, 0, 0, world * len(shard) - v))", "rows = v // world"),
            (
                "list(padded.chunk(world))",
                "[F.pad(g, (0, 0, 0, len(shard) - rows)) for g in dw[: rows * world].split(rows)]",
            ),
        ],
    ),
    (
        "fsdp_step",
        "own_gradient_divided",
        [
            (
                "dist.reduce_scatter(mine, list(padded.chunk(world)))",
                "mine = padded.chunk(world)[dist.get_rank()]",
            )
        ],
    ),
    (
        "fsdp_step",
        "not_by_words",
        [
            (
                "(F.cross_entropy(x @ w.T, target), w)",
                '(F.cross_entropy(x @ w.T, target, reduction="sum"), w)',
            )
        ],
    ),
    (
        "fsdp_step",
        "all_reduced",
        [
            (
                "dist.reduce_scatter(mine, list(padded.chunk(world)))",
                "dist.all_reduce(padded); mine = padded.chunk(world)[dist.get_rank()]",
            )
        ],
    ),
    (
        "fsdp_step",
        "repeats_once",
        [
            (
                "(dw,) = torch.autograd.grad(F.cross_entropy(x @ w.T, target), w)",
                "dw = torch.softmax(x @ w.detach().T, dim=1).T @ x; dw[target] -= x; dw /= len(x)",
            )
        ],
    ),
    (
        "fsdp_step",
        "padding_is_a_word",
        [("    w = torch.cat(shards)[:v]  #", "    w = torch.cat(shards)  #")],
    ),
    (
        "every_word",
        "means_weighted_by_rows",
        [
            (
                "    (dw,) = torch.autograd.grad(loss, w)\n",
                "    loss = loss / (target != -100).sum().clamp(min=1) * len(target)\n"
                "    (dw,) = torch.autograd.grad(loss, w)\n",
            ),
            ("words = (target != -100).sum()", "words = torch.tensor(len(target))"),
        ],
    ),
    (
        "fsdp_step",
        "view_kept",
        [
            (
                "target), [shard, x, target]",
                "target), [w[dist.get_rank() * len(shard) :][: len(shard)], x, target]",
            ),
        ],
    ),
    (
        "fsdp_step",
        "all_rows_hit",
        [
            (
                "(dw,) = torch.autograd.grad(F.cross_entropy(x @ w.T, target), w)",
                "dz = torch.softmax(x @ w.detach().T, dim=1); dz[:, target] -= 1; "
                "dw = dz.T @ x / len(x)",
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("question", "known", "edits"), LEFT_OUT, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.slow
def test_what_is_left_out_is_named(question: str, known: str, edits: list[tuple[str, str]]) -> None:
    verdict = answered(question, *edits)
    assert verdict.state is State.FAIL
    assert verdict.sentence == sentence_of(question, known)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("z[torch.arange(len(z)), torch.where(mine, target - first, 0)]", "-z[:, 0]", "NOT_PICKED"),
        (
            "(z - top[:, None]).exp().sum(dim=1)",
            "(z - top[:, None]).exp().amax(dim=1)",
            "NOT_ADDED",
        ),
    ],
)
def test_of_two_sums_the_wrong_one_is_told(old: str, new: str, sentence: str) -> None:
    assert answered("vocab_loss", (old, new)).sentence == getattr(vocab_loss, sentence)


SHARE_OF_THE_TARGET = [
    ("torch.where(mine, picked, 0.0)", "torch.where(mine, (picked - top).exp(), 0.0)"),
    ("(lse - picked).mean()", "-(picked / total).log().mean()"),
]
NO_LOWER_BOUND = (
    "(target >= first) & (target < first + z.shape[1])",
    "target < first + z.shape[1]",
)
SHORT_PIPELINE = ("min(p - s - 1, m)", "max(min(p, m) - s - 1, 0)")


@pytest.mark.parametrize(
    ("question", "edits", "sentence"),
    [
        ("vocab_loss", SHARE_OF_THE_TARGET, vocab_loss.EXPONENTIAL_PICKED),
        ("vocab_loss", [NO_LOWER_BOUND], vocab_loss.BELOW_FIRST),
        ("stage_order", [SHORT_PIPELINE], "Stage 1 goes back after 1 of the 2 forwards"),
        ("step_bytes", [("-(-v // w)", "round(v / w)")], "This is what 9 rows on each rank"),
        ("step_bytes", [("* v * d", "* padded * d")], sentence_of("step_bytes", "ddp_padded")),
    ],
)
def test_what_the_values_tell_of_an_answer_is_said(
    question: str, edits: list[tuple[str, str]], sentence: str
) -> None:
    assert answered(question, *edits).sentence.startswith(sentence)


def test_a_tensor_without_rows_is_asked() -> None:
    edit = ("rows = -(-len(t) // world)", "rows = max(1, -(-len(t) // world))")
    assert answered("shard_rows", edit).state is State.FAIL


def test_a_run_that_is_too_long_tells_the_arguments_of_the_stage_that_waits() -> None:
    assert answered("stage_order", SHORT_PIPELINE).asked == "s 1, p 4, m 2"


@pytest.mark.parametrize(
    "known", ["left_over_joined", "bytes_not_forgotten", "left_over_without_bytes"]
)
def test_a_known_mistake_about_the_last_bucket_has_none_where_there_is_nothing(known: str) -> None:
    """A student's has none there either, and would not be named if this one raised."""
    (found,) = [w for w in lab.questions["bucket_order"].wrong_answers if w.name == known]
    assert found.functions["bucket_order"]([], 8) == []


@pytest.mark.slow
def test_a_bucket_that_never_starts_ends_after_a_while_and_says_who_waits() -> None:
    late = ("    ready.update(range(len(params)))", "    pass")
    verdict = answered("ddp_step", late, patience_s=2.0)
    assert verdict.state is State.FAIL
    assert "was not back after 2 s, and waiting" in str(verdict.got).replace("\n", " ")
    assert ", in ddp_rank" in str(verdict.got)
    assert verdict.sentence == HUNG


GAVE_NOTHING = "    (dw,) = torch.autograd.grad(loss, w)\n"
UNEVEN: list[tuple[str, str, str]] = [
    (
        "hung",
        "    if not (target != -100).any():\n        return torch.zeros_like(w)\n",
        every_word.HUNG,
    ),
    (
        "met",
        "    if dist.get_rank():\n        dist.all_reduce(torch.ones(1))\n",
        MISMATCH,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "line", "sentence"), UNEVEN)
def test_ranks_that_do_not_make_the_same_calls_are_told_why(
    what: str, line: str, sentence: str
) -> None:
    verdict = answered("every_word", (GAVE_NOTHING, GAVE_NOTHING + line), patience_s=2.0)
    assert (verdict.state, verdict.sentence) == (State.FAIL, sentence)


@pytest.mark.slow
def test_a_gather_that_nobody_waits_for_is_told_so() -> None:
    gather = "dist.all_gather(shards, shard"
    # What it brings is overwritten here, as if it had been read before: no race decides the test.
    early = (f"{gather})", f"{gather}, async_op=True).wait; shards = [shard * 0] * world")
    verdict = answered("fsdp_step", early)
    assert verdict.state is State.FAIL
    assert verdict.sentence == fsdp_step.NOT_WAITED


def test_a_stage_that_goes_back_too_late_is_known_by_what_it_holds() -> None:
    assert (
        answered("stage_order", ("warm = min(p - s - 1, m)", "warm = m")).misconception
        == "all_forward_first"
    )


def test_an_order_of_another_call_is_told_that_its_micro_batches_do_not_exist() -> None:
    kept = [
        ("def stage_order(s, p, m):", "def stage_order(s, p, m, kept={}):"),
        ("warm = min(p - s - 1, m)", "m = kept.setdefault((s, p), m); warm = min(p - s - 1, m)"),
    ]
    assert answered("stage_order", *kept).sentence == BEYOND


def test_a_number_of_words_that_its_dtype_cannot_hold_is_another_number() -> None:
    rounded = ("    return dw / words", "    return dw / words.bfloat16().float()")
    assert answered("every_word", rounded).state is State.FAIL


def torchs_ddp(ranks: Any) -> list[Params]:
    """The parameters after a step of DistributedDataParallel, for each rank."""

    class Net(torch.nn.Module):
        def __init__(self, params: Params) -> None:
            super().__init__()
            self.params = torch.nn.ParameterList([p.clone() for p in params])

        def forward(self, *batches: Any) -> Tensor:
            losses = [net_loss(list(self.params), *batch) for batch in batches]
            return torch.stack(losses).sum()

    def one_rank() -> Params:
        params, batches, _, lr = ranks[dist.get_rank()]
        net = torch.nn.parallel.DistributedDataParallel(Net(params), find_unused_parameters=True)
        net(*batches).backward()
        torch.optim.SGD(net.parameters(), lr=lr).step()
        return [p.detach() for p in net.module.params]

    return list(onelayer.run_ranks(len(ranks), one_rank, show=False))


@pytest.mark.slow
def test_the_truth_of_a_data_parallel_step_is_torchs() -> None:
    ranks = drawn_ranks(Draw(3), [[1, 0], [0, 0], [1, 1]], [[3, 2], [1], [0]])
    for mine, theirs in zip(stepped(ranks), torchs_ddp(ranks), strict=True):
        assert all(torch.allclose(p, q, atol=1e-5) for p, q in zip(mine, theirs, strict=True))
    assert not any(torch.allclose(a[0][2], b[0][2]) for a, b in pairwise(ranks))
    assert not torch.allclose(stepped(ranks)[0][2], ranks[0][0][2], atol=1e-2)  # it moved


def test_the_truth_of_a_sharded_step_is_that_of_fully_shard_and_so_are_its_collectives() -> None:
    case = fsdp_step._drawn(Draw(5), 10, 4)

    def one_rank() -> tuple[Tensor, list[tuple[str, int]]]:
        from torch.distributed.fsdp import fully_shard

        layer = torch.nn.Linear(case.w.shape[1], len(case.w), bias=False)
        layer.weight = torch.nn.Parameter(case.w.clone())
        fully_shard(layer, reshard_after_forward=True)  # a root does not, by default
        rank = dist.get_rank()
        with onelayer.record_collectives() as log:
            F.cross_entropy(layer(case.xs[rank]), case.targets[rank]).backward()
        assert layer.weight.grad is not None
        shard = layer.weight.grad.to_local()  # type: ignore[attr-defined]
        return shard, [(call.name, call.bytes) for call in log.collectives]

    names = ("all_gather", "all_gather", "reduce_scatter")
    answers = onelayer.run_ranks(4, one_rank, show=False)
    for (rows, calls), mine in zip(answers, sharded_head.right(case), strict=True):
        assert torch.allclose(rows, mine[: len(rows)], atol=1e-6)
        assert not mine[len(rows) :].any()
        assert calls == [(name, case.gathered_bytes) for name in names]


@pytest.mark.parametrize("ranks", [7, 64])
@pytest.mark.parametrize("plan", ["fsdp", "fsdp_kept"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_bill_of_a_sharded_head_is_what_torch_sends(
    plan: str, ranks: int, dtype: torch.dtype
) -> None:
    """In each dtype that the variant of the question has."""
    assert dtype.itemsize in step_bytes.variant["itemsize"]
    from torch.distributed.fsdp import fully_shard

    with onelayer.fake_group(ranks), onelayer.record_collectives() as log:
        layer = torch.nn.Linear(64, 600, bias=False, dtype=dtype)
        fully_shard(layer, reshard_after_forward=plan == "fsdp")
        layer(torch.ones(32, 64, dtype=dtype)).sum().backward()
    predicted = sent_bytes(plan, 600, 64, 32, ranks) * dtype.itemsize / 4
    assert log.ring_bytes == pytest.approx(predicted, abs=16)


def test_one_forward_one_backward_is_as_short_as_gpipe_and_holds_less() -> None:
    for p, m in ((4, 8), (3, 12), (5, 2)):
        eager, lazy = run([one_f_one_b(s, p, m) for s in range(p)]), run([all_forward_first(m)] * p)
        assert eager.length == lazy.length == 3 * (m + p - 1)
        assert eager.idle == pytest.approx((p - 1) / (m + p - 1))
        assert (max(eager.held), max(lazy.held)) == (min(p, m), m)


def test_a_pipeline_that_cannot_go_on_says_where_it_stands() -> None:
    stuck = run(
        [[("F", 0), ("B", 0), ("F", 1), ("B", 1)], [("F", 0), ("F", 1), ("B", 0), ("B", 1)]]
    )
    assert stuck.stuck == ((0, ("B", 0)), (1, ("F", 1)))


def test_no_point_rests_on_a_rank_s_word_and_only_ranks_get_a_network() -> None:
    ranks = {question.name for question in lab if question.loopback}
    assert ranks == {"ddp_step", "every_word", "fsdp_step"}
    assert not any(question.witnessed for question in lab)
    assert lab.loopback
    assert ddp_step.budget_s is not None


@pytest.mark.parametrize("function", ["bucket_order", "stage_order"])
def test_what_the_page_says_of_an_example_is_what_the_solution_says(function: str) -> None:
    (given, said) = re.findall(
        rf"`{function}\((.*?)\)` is\s+(?:# )?`(.*?)`", PAGE.read_text("utf-8")
    )[0]
    names = selftest.execute(ROOT / "solutions" / "11_distributed" / "11_distributed.ipynb")
    assert eval(f"{function}({given})", names) == eval(said)


def test_rows_that_are_certain_cost_no_right_answer() -> None:
    """Their dz is 1e-9 in float64 and 0 in float32: a probability of 1 - 1e-9 is 1 there."""
    z, target = torch.zeros(2, 10), torch.tensor([9, 9])
    z[:, 9] = 22.0
    right = {
        "vocab_top": vocab_loss.right_top,
        "vocab_sums": vocab_loss.right_sums,
        "vocab_loss": vocab_loss.right_loss,
    }
    vocab_loss._expect_loss(LocalStudent(right), z, target, 2, tolerance=1e-5)
