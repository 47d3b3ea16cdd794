"""Lab 09's repairs: what a tape is held to, and tapes that no loop writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from autograder.checks.lab09_profiling import lab
from autograder.checks.lab09_profiling.played import MAX_LIST, MAX_NUMEL, MAX_ROWS, played
from autograder.judge import Doubles, Draw, LocalStudent, Wrong, ask
from onelayer.profiling.tape import Tape

mended = import_module("autograder.checks.lab09_profiling.mended_loop")
dealt = import_module("autograder.checks.lab09_profiling.dealt_out")
REPAIRS = [question for question in lab if question.name in ("mended_loop", "dealt_out")]
HOST = {"batch": torch.ones(2, 3)}
DEVICE = {"w": torch.ones(3, 2), "u": torch.ones(2, 2)}


@pytest.mark.slow
def test_every_known_wrong_answer_fails_by_its_name_on_every_seed() -> None:
    for question in REPAIRS:
        for seed in range(5):
            doubles = Doubles(question, seed)
            for wrong in question.wrong_answers:
                student = LocalStudent(wrong.functions)
                verdict = ask(question, student, seed=seed, doubles=doubles)
                assert verdict.misconception == wrong.name, (wrong.name, seed)


def test_the_loop_as_found_trains_and_stays_finite() -> None:
    for seed in range(20):
        host, device, names = mended._drawn(Draw(seed), 6, 6)
        _, losses, weights = mended._run(mended.as_found(*names), host, device)
        assert torch.isfinite(torch.cat(losses)).all()
        assert len(set(torch.cat(losses).tolist())) == 6
        assert all((device[f"w{k}"] != w).any() for k, w in enumerate(weights))


def test_the_repair_is_faster_on_the_machine() -> None:
    host, device, names = mended._drawn(Draw(3), 5, 4)
    before, after = (
        mended._run(answer(*names), host, device)[0].took_us
        for answer in (mended.as_found, mended._loop)
    )
    assert after < 0.7 * before


def rows(*calls: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(*call, {}) if len(call) == 3 else call for call in calls]


@pytest.mark.parametrize(
    "tape",
    [
        None,
        [None],
        [("v", "copy", ["batch"], {})],
        rows((["v"], "aten.mm.default", ["w", "batch"])),
        rows((["v"], "copy", ["w"])),
        rows((["v"], "read", ["batch"])),
        rows((["v"], "read", [])),
        rows((["v"], "pin", [["batch"]])),
        rows((["v"], "aten.mm.default", ["w", "w"])),
        rows((["v"], "aten.zeros.default", [[9, 9]])),
        rows((["v"], "aten._foreach_add_.List", [["w"], ["w"]])),
        rows((["v"], "__import__", ["os"])),
        rows((["v", "v2"], "aten.relu.default", ["w"])),
        rows(([], "aten._foreach_neg.default", [["w"]])),
        rows((["v"], "gradients", ["w", ["w"]])),
        rows((["v"], "gradients", ["nothing", ["w"]])),
        rows((["v"], "aten.add.Tensor", ["w", "w"], {"alpha": [1]})),
        rows((["v"], "aten.add.Tensor", ["w", "w"], {"out": "w"})),
        rows((["v"], "aten.stack.default", [["w"] * (MAX_LIST + 1)])),
        rows((["v"], "aten.add.Tensor", [{"a": 1}, "w"])),
        rows(*[(["w"], "aten.stack.default", [["w"] * MAX_LIST])] * 9),
        rows(*[(["v"], "aten.relu.default", ["w"])] * (MAX_ROWS + 1)),
    ],
)
def test_a_row_that_is_none_is_a_wrong_answer_and_never_a_fault(tape: Any) -> None:
    with pytest.raises(Wrong):
        played(tape, HOST, DEVICE)


@pytest.mark.parametrize(
    ("tape", "told"),
    [
        (rows((["v"], "read", [["w", "u"]])), "aten.stack.default"),
        (rows((["v"], "aten._foreach_add_.List", [["w"], ["w"]])), "aten._foreach_add.List"),
    ],
)
def test_what_a_tape_takes_is_said(tape: Any, told: str) -> None:
    with pytest.raises(Wrong) as wrong:
        played(tape, HOST, DEVICE)
    assert told in str(wrong.value.why)


def test_values_stay_small_whatever_is_asked() -> None:
    big = {"w": torch.ones(MAX_NUMEL // 2 + 1)}
    with pytest.raises(Wrong, match="numbers"):
        played(rows((["v"], "aten.stack.default", [["w", "w"]])), {}, big)


def test_only_a_pinned_batch_that_may_go_ahead_does_not_wait() -> None:
    for pin in (False, True):
        for non_blocking in (False, True):
            tape = Tape()
            batch = tape.pin("batch") if pin else "batch"
            tape.copy(batch, non_blocking=non_blocking)
            state = played(tape.rows, HOST, DEVICE)
            assert len(state.waits) == (not (pin and non_blocking))
            assert len(state.pageable) == (not pin)


def test_a_read_is_a_wait_and_gives_the_value() -> None:
    tape = Tape()
    name = tape.read(tape.op("aten.mm.default", tape.copy("batch"), "w"))
    state = played(tape.rows, HOST, DEVICE)
    assert torch.equal(state.host[name], HOST["batch"] @ DEVICE["w"])
    assert len(state.waits) == 2


def test_what_a_list_that_lives_on_and_a_list_turned_around_do_is_told() -> None:
    class OneForAll(Tape):
        def __init__(self) -> None:
            self.rows = written

    written: list[Any] = []

    def kept(*names: Any) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(mended, "Tape", OneForAll)
            return mended._loop(*names)

    def turned(*names: Any) -> Any:
        rows, losses, weights = mended._loop(*names, reads="none")
        tape = Tape(list(rows))
        return tape.rows, [tape.read(tape.op("aten.stack.default", losses[::-1]))], weights

    (question,) = [question for question in REPAIRS if question.name == "mended_loop"]
    for answer, sentence in ((kept, mended.KEPT), (turned, mended.TURNED)):
        assert ask(question, LocalStudent({"mended_loop": answer}), seed=1).sentence == sentence


def test_batches_pinned_ahead_of_the_loop_and_copied_by_their_old_names_are_told() -> None:
    def pinned_ahead(batches: Any, weights: Any, moments: Any) -> Any:
        def copy(tape: Tape, batch: str) -> str:
            if not tape.rows:
                for name in batches:
                    tape.pin(name)
            return tape.copy(batch, non_blocking=True)

        return mended._loop(batches, weights, moments, copy=copy)

    (question,) = [question for question in REPAIRS if question.name == "mended_loop"]
    verdict = ask(question, LocalStudent({"mended_loop": pinned_ahead}), seed=1)
    assert verdict.sentence == mended.PIN_DROPPED


@pytest.mark.parametrize("seed", range(30))
def test_dealing_by_hand_and_by_moves_is_even_enough(seed: int) -> None:
    """Two other ways to the rule, from deals that break it."""
    ranks = 2 + seed % 4
    lengths = dealt._drawn(Draw(seed), ranks)
    shares = [[*range(r, len(lengths), ranks)] for r in range(ranks)]
    for _ in range(500):
        tokens = [sum(lengths[k] for k in share) for share in shares]
        most, least = tokens.index(max(tokens)), tokens.index(min(tokens))
        helps = [k for k in shares[most] if tokens[least] + lengths[k] < tokens[most]]
        if not helps:
            break
        shares[most].remove(max(helps))
        shares[least].append(max(helps))
    factors = [ranks * sum(lengths[k] for k in share) / sum(lengths) for share in shares]
    dealt._expect_even(shares, lengths)
    dealt._expect_factors(factors, shares, lengths)
    losses = torch.rand(len(lengths), dtype=torch.float64)  # of each sentence, summed
    means = [losses[share].sum() / sum(lengths[k] for k in share) for share in shares]
    mean = sum(f * m for f, m in zip(factors, means, strict=True)) / ranks
    assert torch.isclose(torch.as_tensor(mean), losses.sum() / sum(lengths))
