"""Lab 05's own truths: against a second way to find them, and against torch's own records."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from autograder.checks.lab05_memory_and_time import lab
from autograder.checks.lab05_memory_and_time.overlap_plan import _plan, _played, _shortest_us
from autograder.checks.lab05_memory_and_time.plan_that_fits import (
    PARTS,
    _drawn_work,
    _expect_fit,
    _freed,
)
from autograder.checks.lab05_memory_and_time.recorded_streams import _drawn_program, _needed
from autograder.checks.lab05_memory_and_time.training_steps import held_in_second_step
from autograder.checks.lab05_memory_and_time.waiting_lines import _fragments, _waits
from autograder.judge import Cause, Doubles, Draw, LocalStudent, ask
from onelayer.recordings import read_recording
from onelayer.recordings.mocked import FOLDER, MockedRun

SEEDS = range(1, 9)
ON_STREAMS = ("use", "record", "wait")


@pytest.mark.slow
def test_every_known_wrong_answer_fails_by_its_name_on_every_seed() -> None:
    for question in (q for q in lab if q.name != "bytes_held"):  # measures torch: the selftest does
        for seed in SEEDS:
            doubles = Doubles(question, seed)
            for wrong in question.wrong_answers:
                student = LocalStudent(wrong.functions)
                verdict = ask(question, student, seed=seed, doubles=doubles)
                assert verdict.misconception == wrong.name, (question.name, wrong.name, seed)


def ordered(program: list[tuple[object, ...]]) -> set[tuple[str, int]]:
    """The needed records by reachability over the steps: slow, and another way to say it."""
    arrows: set[tuple[int, int]] = set()
    for i, (verb, *rest) in enumerate(program):
        for j in range(i + 1, len(program)):
            later, *more = program[j]
            on_streams = verb in ON_STREAMS and later in ON_STREAMS
            same = on_streams and rest[-1] == more[-1]
            event = verb == "record" and later == "wait" and rest[0] == more[0]
            if same or event or "sync" in (verb, later):
                arrows.add((i, j))
    reach = {i: {i} for i in range(len(program))}
    for i in reversed(range(len(program))):
        for a, b in arrows:
            if a == i:
                reach[i] |= reach[b]
    home = {rest[0]: rest[1] for verb, *rest in program if verb == "alloc"}
    freed = {rest[0]: i for i, (verb, *rest) in enumerate(program) if verb == "free"}
    found: set[tuple[str, int]] = set()
    for i, (verb, *rest) in enumerate(program):
        if verb == "use":
            name, stream = str(rest[0]), int(str(rest[1]))
            end = freed[name]
            known = [
                j
                for j in reach[i]
                if j < end
                and (program[j][0] == "sync" or program[j][-1] == home[name])
                and program[j][0] in (*ON_STREAMS, "sync")
            ]
            if not known:
                found.add((name, stream))
    return found


@pytest.mark.parametrize("name", [q.name for q in lab if q.name != "bytes_held"])
def test_no_known_wrong_answer_needs_a_drawn_case_to_fail(name: str) -> None:
    for wrong, found, _ in Doubles(lab.questions[name], seed=1, rounds=0).each():
        assert found["cause"] is not Cause.PASSED, wrong.name


def test_a_host_that_is_never_far_ahead_is_refused() -> None:
    """It waits until the device is a millisecond behind."""

    def close(steps: Any, launch_us: int) -> tuple[int, int, int]:
        host, spans = 0, [(0, 0)]
        for verb, *us in steps:
            host = max(host, spans[-1][1] - 1000 if verb == "launch" else 0)
            host += us[0] if verb == "host" else launch_us if verb == "launch" else 0
            if verb == "launch":
                begin = max(host, spans[-1][1])
                spans.append((begin, begin + us[0]))
            elif verb == "sync":
                host = max(host, spans[-1][1])
        idle = spans[-1][1] - spans[1][0] - sum(end - begin for begin, end in spans)
        return host, spans[-1][1], idle

    verdict = ask(lab.questions["queue_times"], LocalStudent({"queue_times": close}), seed=1)
    assert "3000000" in str(verdict), str(verdict)


def test_a_host_that_stands_still_before_a_full_queue_is_refused() -> None:
    """A real queue holds 1,024 launches or so; the page's host runs ahead of any number."""

    def full(steps: Any, launch_us: int) -> tuple[int, int, int]:
        host = idle = 0
        ends: list[int] = []
        for verb, *us in steps:
            if verb == "launch":
                host = max(host, ends[-1024] if len(ends) >= 1024 else 0) + launch_us
                begin = max([host, *ends[-1:]])
                idle += begin - ends[-1] if ends else 0
                ends.append(begin + us[0])
            else:
                host = max([host, *ends[-1:]]) if verb == "sync" else host + us[0]
        return host, ends[-1], idle

    verdict = ask(lab.questions["queue_times"], LocalStudent({"queue_times": full}), seed=1)
    assert "(5500, 99005, 0)" in str(verdict), str(verdict)


def test_an_event_of_before_a_sync_knows_nothing_of_what_came_after_it() -> None:
    def anew(program: Any) -> list[tuple[str, int]]:
        """Clocks begin at 0 again behind a sync, and events keep their old numbers."""
        clock = [[0] * 3 for _ in range(3)]
        own, uses, events, calls = {}, {}, {}, []
        for verb, *rest in program:
            if verb == "alloc":
                own[rest[0]], uses[rest[0]] = rest[1], dict[int, int]()
            elif verb == "use":
                clock[rest[1]][rest[1]] += 1
                uses[rest[0]][rest[1]] = clock[rest[1]][rest[1]]
            elif verb == "record":
                events[rest[0]] = list(clock[rest[1]])
            elif verb == "wait":
                clock[rest[1]] = list(map(max, clock[rest[1]], events[rest[0]]))
            elif verb == "sync":
                clock, uses = [[0] * 3 for _ in range(3)], {name: {} for name in uses}
            else:
                knows = clock[own[rest[0]]]
                calls += [(rest[0], s) for s, at in sorted(uses[rest[0]].items()) if at > knows[s]]
        return calls

    verdict = ask(
        lab.questions["recorded_streams"], LocalStudent({"recorded_streams": anew}), seed=1
    )
    assert "('sync',), ('use', 'a', 1), ('wait', 'e', 0)" in " ".join(str(verdict).split())


def test_a_plan_that_waits_without_need_hears_which_work_does() -> None:
    def overlap_plan(batches: list[tuple[int, int, int]]) -> object:
        """Three streams in turn: a copy in comes behind a copy out."""
        plan: list[tuple[str, int, int]] = []
        for i in range(len(batches)):
            plan += [("wait", i - 2, i % 3)] if i > 1 else []
            plan += [("in", i, i % 3), ("kernel", i, i % 3), ("record", i, i % 3)]
            plan += [("out", i, i % 3)]
        return plan

    verdict = ask(
        lab.questions["overlap_plan"], LocalStudent({"overlap_plan": overlap_plan}), seed=1
    )
    assert {"in3", "out0"} <= set(str(verdict.explanation).replace(",", "").split())


def test_a_clock_read_before_the_kernel_is_over_is_told_which_sync_is_missing() -> None:
    def honest_timing(repeats: int) -> object:
        pairs = [(f"a{k}", f"b{k}") for k in range(repeats)]
        timed = [[("flush",), ("sync",), ("clock", a), ("run",), ("clock", b)] for a, b in pairs]
        return [*[("run",)] * 10, *(step for five in timed for step in five)], pairs

    student = LocalStudent({"honest_timing": honest_timing})
    verdict = ask(lab.questions["honest_timing"], student, seed=1)
    assert "no sync lies behind the run" in str(verdict.explanation)


@pytest.mark.parametrize("seed", range(0, 150, 10))
def test_lines_that_wait_equally_long_may_stand_in_any_order(seed: int) -> None:
    """A set, a stable sort and a reversed one differ in nothing else."""
    student = LocalStudent(
        {"waiting_lines": lambda log: sorted(_waits(log), key=lambda wait: (-wait[1], -wait[0]))}
    )
    for each in range(seed, seed + 10):
        verdict = ask(lab.questions["waiting_lines"], student, seed=each)
        assert verdict.cause is Cause.PASSED, (each, verdict)


def served(segments: Any, left: int, nbytes: int, *, gone: Any = sum, splits: bool = False) -> str:
    """gone: how many bytes whole free segments of the own pool and of the other bring together.
    splits: a free block serves only where nothing is left over, or enough to be split off."""
    block, mib = -(-nbytes // 512) * 512, 2**20
    pool = "small" if block <= mib else "large"
    own = max(20 * mib if block < 10 * mib else 0, -(-block // (2 * mib)) * 2 * mib)
    over = [n - block for _, p, parts in segments if p == pool for n, name in parts if not name]
    if any(n == 0 or n > (mib if splits and pool == "large" else 0) for n in over):
        return "cached"
    free = [(p, parts[0][0]) for _, p, parts in segments if [t for _, t in parts] == [None]]
    pools = [sum(n for p, n in free if (p == pool) is mine) for mine in (True, False)]
    wanted = 2 * mib if pool == "small" else own
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + gone(pools) else "out of memory"


@pytest.mark.parametrize("how", [{"gone": lambda pools: pools[0] or pools[1]}, {"splits": True}])
def test_a_free_block_and_what_goes_back_are_read_as_the_allocator_does(how: Any) -> None:
    for answer, passes in ((served, True), (partial(served, **how), False)):
        verdict = ask(lab.questions["how_served"], LocalStudent({"how_served": answer}), seed=1)
        assert (verdict.cause is Cause.PASSED) == passes, verdict


def test_a_line_is_not_lost_where_another_one_waits_as_long() -> None:
    def by_their_waits(log: Any) -> Any:
        lines = {us: line for line, us in _waits(log)}
        return [(line, us) for us, line in lines.items()]

    verdict = ask(
        lab.questions["waiting_lines"], LocalStudent({"waiting_lines": by_their_waits}), seed=1
    )
    assert "is missing" in str(verdict.explanation)


@pytest.mark.parametrize("seed", range(40))
def test_records_are_needed_where_no_chain_of_steps_leads_home(seed: int) -> None:
    program = _drawn_program(Draw(seed))
    assert _needed(program) == ordered(program)


def test_no_order_of_a_few_batches_is_shorter_than_the_plan() -> None:
    """The bound that is asked for is reached, and no shorter time is possible in that order."""
    rng = random.Random(0)
    for _ in range(30):
        batches = [tuple(rng.randint(1, 90) for _ in range(3)) for _ in range(rng.randint(1, 6))]
        assert _played(_plan(batches), batches).done_us == _shortest_us(batches)
        for k in range(3):
            alone = sum(batch[k] for batch in batches)
            assert _shortest_us(batches) >= alone
        assert _shortest_us(batches) >= max(map(sum, batches))


def test_names_of_streams_and_events_are_texts_or_numbers() -> None:
    questions = {question.name: question for question in lab}
    steps = [("run",)] * 10

    def honest_timing(repeats: int) -> object:
        pairs = [(2 * k, (k, "end")) for k in range(repeats)]
        timed = [[("flush",), ("record", a), ("run",), ("record", b)] for a, b in pairs]
        return [*steps, *(step for four in timed for step in four), ("sync",)], pairs

    def overlap_plan(batches: list[tuple[int, int, int]]) -> object:
        return [(kind, what, f"stream {stream}") for kind, what, stream in _plan(batches)]

    for answer in (honest_timing, overlap_plan):
        student = LocalStudent({answer.__name__: answer})
        verdict = ask(questions[answer.__name__], student, seed=1)
        assert verdict.cause is Cause.PASSED, verdict


def test_the_bytes_of_a_step_are_what_torch_keeps() -> None:
    """Of the head alone, by hand."""
    before, forward, peak, after = held_in_second_step([64, 600], 700)
    parameters, logits = 4 * 600 * 65, 4 * 700 * 600
    assert (before, forward) == (3 * parameters, 3 * parameters + logits)
    assert (peak, after) == (3 * parameters + 3 * logits, 4 * parameters)


def test_the_log_is_made_of_what_torch_called() -> None:
    """Lines of the recordings, in the order of their calls, and both kinds of copies."""
    texts = {text: (apis, ordinary) for text, apis, ordinary in _fragments()}
    run = read_recording("05_twelve_lines", folder=FOLDER).content
    assert isinstance(run, MockedRun)
    calls = [call.api for call in run.calls if call.line == "y = x.cpu()"]
    assert texts["05_twelve_lines y = x.cpu()"] == (tuple(calls), False)
    copies = [ordinary for text, (_, ordinary) in texts.items() if "there.copy_" in text]
    assert sorted(copies) == [False, True]


@pytest.mark.parametrize("last", [False, True])
def test_who_always_runs_what_adds_the_least_is_refused(last: bool) -> None:
    """A large first batch comes last then. last: of equal ones the one that was written last."""

    def plan_that_fits(work: list[tuple[str, list[str], int]], result: str) -> object:
        left, nbytes = {name: set(reads) for name, reads, _ in work}, {w[0]: w[2] for w in work}
        plan: list[tuple[str, str]] = []

        def gone(name: str) -> set[str]:
            return left[name] - set[str]().union(*(left[other] for other in left if other != name))

        while left:
            ready = [name for name in left if not left[name] & left.keys()][:: -1 if last else 1]
            name = min(ready, key=lambda n: nbytes[n] - sum(nbytes[read] for read in gone(n)))
            plan += [("run", name), *(("free", read) for read in gone(name))]
            del left[name]
        return plan

    student = LocalStudent({"plan_that_fits": plan_that_fits})
    verdict = ask(lab.questions["plan_that_fits"], student, seed=1)
    assert "out of memory" in str(verdict), str(verdict)


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_the_batches_fits(seed: int) -> None:
    """Whoever takes the last batch first, or the sums as they come, loses no point."""
    work, rng = _drawn_work(Draw(seed)), random.Random(seed)
    names = [name for name, _, _ in work]
    batches = len(names) // (len(PARTS) + 2)  # w; x, parts and all sums but one of each
    order = names[:1]
    for n in rng.sample(range(batches), batches):
        order += names[1 + n :: batches][: len(PARTS) + 1]
    order += [name for name in names if name not in order]
    _expect_fit(_freed(order, work, names[-1]), work)
