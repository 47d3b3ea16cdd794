"""Lab 09's own truths: its drawn traces have the form of torch's, and what the machine knows to be
true is what a slow reading of the trace finds; the solution reads torch's own traces as well."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autograder.checks.lab09_profiling import lab
from autograder.checks.lab09_profiling.machine import (
    ENGINE,
    LATENCY_US,
    Copy,
    Launch,
    Machine,
    Span,
    Wait,
)
from autograder.judge import Doubles, Draw, LocalStudent, State, ask, pack
from onelayer.profiling.loop_traces import FOLDER, LoopTraces
from onelayer.profiling.profiled import profiled
from onelayer.profiling.slow_loops import LOOPS
from onelayer.profiling.tape import Tape
from onelayer.profiling.waiting_rank import traces_of_two_ranks
from onelayer.recordings import read_recording

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "solutions" / "09_profiling" / "09_profiling.py"
TRACED = ("busy_us", "host_waits", "pageable_copies", "launches", "self_times")


def drawn(question: str, seed: int) -> list[dict[str, Any]]:
    """The events of a drawn trace of this question."""
    module = import_module(f"autograder.checks.lab09_profiling.{question}")
    events: list[dict[str, Any]] = module._drawn(Draw(seed))[0]
    return events


def answers() -> dict[str, Any]:
    """The functions of the solution."""
    names: dict[str, Any] = {"defaultdict": defaultdict, "Tape": Tape}
    for cell in re.findall(
        r'^# %% id="\w+" role="solution"\n(.*?)(?=^# %%)', PAGE.read_text("utf-8"), re.M | re.S
    ):
        exec(cell, names)
    return names


def recorded(name: str) -> LoopTraces:
    found = read_recording(f"loop_{name}", folder=FOLDER).content
    assert isinstance(found, LoopTraces)
    return found


def torchs_form(events: Sequence[dict[str, Any]]) -> None:
    """Asserts that every field of a drawn event is one of torch's, of the same type, where torch's
    events of this kind are among `events`."""
    theirs: dict[Any, dict[str, type]] = defaultdict(dict)
    for e in events:
        theirs[e["ph"], e["cat"]] |= _fields(e)
    kinds = set()
    for question in TRACED:
        for e in drawn(question, 3):
            if (kind := (e["ph"], e["cat"])) in theirs:
                assert _fields(e).items() <= theirs[kind].items(), e
                kinds.add(e["cat"])
    assert {"kernel", "cuda_runtime", "ac2g", "cpu_op", "user_annotation"} <= kinds


class TestForm:
    def test_no_field_is_made_up(self) -> None:
        events = [e for name in LOOPS for e in recorded(name).before]
        torchs_form([*events, *profiled(LOOPS["reads_the_loss"]("cpu", repaired=False), steps=1)])

    def test_every_kind_of_event_is_one_of_torchs(self) -> None:
        theirs = {(e["ph"], e["cat"]) for name in LOOPS for e in recorded(name).before}
        ours = {(e["ph"], e["cat"]) for question in TRACED for e in drawn(question, 4)}
        assert ours <= theirs

    def test_a_field_that_is_made_up_is_found(self) -> None:
        events = [e for name in LOOPS for e in recorded(name).before]
        bent = [{**e, "dur": str(e["dur"])} if e["cat"] == "kernel" else e for e in events]
        with pytest.raises(AssertionError):
            torchs_form(bent)

    def test_names_of_copies_and_waits_are_torchs(self) -> None:
        theirs = {e["name"] for name in LOOPS for e in recorded(name).before}
        theirs |= {e["name"] for name in LOOPS for e in recorded(name).after}
        ours = {e["name"] for question in TRACED for e in drawn(question, 5)}
        copies = {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"}
        others = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpyAsync"}
        assert copies | others | {"aten::item", "cudaLaunchKernel"} <= theirs & ours

    def test_every_copy_says_from_where_and_to_where_as_torchs_do(self) -> None:
        names = {e["name"] for question in TRACED for e in drawn(question, 5)}
        copies = {name for name in names if name.startswith("Memcpy ")}
        assert {"Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pageable -> Device)"} <= copies
        assert all(re.fullmatch(r"Memcpy \w+ \(\w+ -> \w+\)", name) for name in copies)

    @pytest.mark.slow
    def test_a_collective_has_the_form_of_gloos(self) -> None:
        module = import_module("autograder.checks.lab09_profiling.late_rank")
        (ours, *_), _ = module._drawn(Draw(1), 3)
        theirs = traces_of_two_ranks("cpu", repaired=False)[0]
        by_name = {e["name"]: _fields(e) for e in theirs}
        checked = [e for e in ours if e["name"] in ("gloo:all_reduce", "c10d::allreduce_")]
        assert len(checked) == 16
        for e in checked:
            assert _fields(e).items() <= by_name[e["name"]].items()
        assert {e["cat"] for e in theirs if e["name"] == "gloo:all_reduce"} == {"user_annotation"}

    @pytest.mark.parametrize("question", TRACED)
    def test_a_trace_fits_into_a_call(self, question: str) -> None:
        for seed in range(4):
            pack(((drawn(question, seed),), {}))


def _fields(event: dict[str, Any]) -> dict[str, type]:
    """Its fields with their types; a number's may be float or int."""
    plain = {k: v for k, v in event.items() if k != "args"}
    plain |= {f"args.{k}": v for k, v in event.get("args", {}).items()}
    kinds = {k: float if isinstance(v, int) else type(v) for k, v in plain.items()}
    return {k: kind for k, kind in kinds.items() if k != "tid"}


class TestMachine:
    """What a device may do, in a trace of each question."""

    @pytest.mark.parametrize("question", TRACED)
    def test_work_begins_after_its_launch_and_one_by_one(self, question: str) -> None:
        for seed in range(3):
            whole = [e for e in drawn(question, seed) if e["ph"] == "X"]
            calls = {e["args"]["correlation"]: e for e in whole if e["cat"] == "cuda_runtime"}
            streams: dict[int, list[Any]] = defaultdict(list)
            for e in whole:
                if e["cat"] in ("kernel", "gpu_memcpy"):
                    call = calls[e["args"]["correlation"]]
                    assert e["ts"] >= call["ts"] + LATENCY_US - 0.01
                    streams[e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
            for spans in streams.values():
                spans.sort()
                assert all(b[0] >= a[1] - 0.01 for a, b in pairwise(spans))

    def test_a_wait_lasts_until_the_stream_is_done(self) -> None:
        machine = Machine(start_us=1000.0, pid=1)
        machine.run([Launch("cudaLaunchKernel", 3.0, [("k", 50.0)]), Wait("cudaX", 0.5)])
        assert machine.seen.work == [(1004.0, 1054.0)]
        assert machine.now == 1054.0

    def test_without_waits_the_host_goes_on_and_the_work_stays(self) -> None:
        program = [Launch("cudaLaunchKernel", 3.0, [("k", 50.0)]), Wait("cudaX", 0.5)] * 2
        slow, free = (Machine(start_us=0.0, pid=1, waiting=w) for w in (True, False))
        slow.run(program)
        free.run(program)
        assert free.now == 6.0
        assert free.seen.end_us == 104.0 < slow.seen.end_us == 108.0

    def test_a_pageable_copy_keeps_the_host(self) -> None:
        for waits, now in ((True, 4 + 20 + 1.5), (False, 2.0)):
            machine = Machine(start_us=0.0, pid=1)
            machine.run([Copy("HtoD (Pageable -> Device)", 4096, 20.0, 2.0, waits)])
            assert machine.now == machine.seen.blocked_us == now

    def test_own_time_is_without_the_operators_inside_and_knows_threads(self) -> None:
        leaf = Span("cpu_op", "leaf", 2.0)
        other = Span("cpu_op", "other", 4.0, thread=ENGINE)
        machine = Machine(start_us=0.0, pid=1)
        machine.run([Span("cpu_op", "outer", 6.0, [leaf, other])])
        own = machine.seen.self_us
        assert own["leaf"] == pytest.approx(2.0)
        assert own["other"] == pytest.approx(4.0)
        assert own["outer"] == pytest.approx(6.0 + 4.0 + 0.4)  # the other thread is no child


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return answers()


class TestTorchsOwnTraces:
    """The solution, which passes on drawn traces, on traces that torch's profiler wrote."""

    def test_the_function_that_reads_the_loss_is_named(self, solved: dict[str, Any]) -> None:
        traces = recorded("reads_the_loss")
        ((name, times, took),) = solved["host_waits"](traces.before)
        assert re.fullmatch(r"onelayer/profiling/slow_loops\.py\(\d+\): remember", name)
        assert times == 2
        waits = [e for e in traces.before if e["name"] == "cudaStreamSynchronize"]
        assert took == pytest.approx(sum(e["dur"] for e in waits))
        assert solved["host_waits"](traces.after) == []

    def test_pageable_bytes_are_those_of_the_batches(self, solved: dict[str, Any]) -> None:
        traces = recorded("copies_each_batch")
        copies, nbytes, _ = solved["pageable_copies"](traces.before)
        assert copies == 4
        rows = nbytes // (2 * (64 * 4 + 8))  # x in float32 and target in int64, two steps
        assert nbytes == 2 * rows * (64 * 4 + 8)
        assert solved["pageable_copies"](traces.after)[:2] == (0, 0)

    def test_the_optimizer_launches_most(self, solved: dict[str, Any]) -> None:
        traces = recorded("steps_each_parameter")
        before, after = (solved["launches"](side) for side in (traces.before, traces.after))
        assert max(before, key=lambda name: before[name][0]) == "optimizer"
        assert before["optimizer"][0] > 10 * after["optimizer"][0]
        assert before["backward"][:2] == after["backward"][:2]

    def test_busy_and_idle_add_up_to_the_span(self, solved: dict[str, Any]) -> None:
        for name in LOOPS:
            events = recorded(name).before
            work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
            busy, idle = solved["busy_us"](events)
            span = max(e["ts"] + e["dur"] for e in work) - min(e["ts"] for e in work)
            assert busy + idle == pytest.approx(span)
            assert 0 < busy <= sum(e["dur"] for e in work) + 0.01

    def test_a_trace_played_again_without_its_waits_is_no_longer(
        self, solved: dict[str, Any]
    ) -> None:
        traces = recorded("reads_the_loss")
        begin = min(e["ts"] for e in traces.before if e["name"].startswith("ProfilerStep#"))
        work = [e for e in traces.before if e.get("cat") in ("kernel", "gpu_memcpy")]
        was = max(e["ts"] + e["dur"] for e in work) - begin
        assert sum(e["dur"] for e in work) < solved["time_without_waits"](traces.before, 4.0) < was

    def test_own_times_are_above_zero_where_the_ones_as_found_are_not(
        self, solved: dict[str, Any]
    ) -> None:
        events = recorded("converts_and_recomputes").before
        source = PAGE.read_text("utf-8")
        found = r"^(def self_times_as_found.*?return dict\(own\)\n)"
        (cell,) = re.findall(found, source, re.M | re.S)
        exec(cell, solved)
        assert min(solved["self_times"](events).values()) > -0.01
        assert min(solved["self_times_as_found"](events).values()) < -1

    @pytest.mark.slow
    def test_the_late_rank_of_two_real_ones_is_found(self, solved: dict[str, Any]) -> None:
        rank, (early, late) = solved["late_rank"](traces_of_two_ranks("cpu", repaired=False))
        assert rank == 1
        assert early > late


def test_another_thread_calls_while_the_host_waits() -> None:
    module = import_module("autograder.checks.lab09_profiling.time_without_waits")
    events, _ = module._drawn(Draw(0), "host", LATENCY_US, "beside")
    calls = [e for e in events if e["cat"] == "cuda_runtime"]
    waits = [e for e in calls if e["name"].endswith("Synchronize")]
    inside = [(c, w) for c in calls for w in waits if 0 < c["ts"] - w["ts"] < w["dur"]]
    assert [c["tid"] != w["tid"] for c, w in inside] == [True, True]


@pytest.mark.parametrize("merges", [True, False])
def test_a_row_is_not_read_in_place_of_another_one_that_looks_alike(
    merges: bool, solved: dict[str, Any]
) -> None:
    """merges: operators on the same values and other numbers are one. Else what an operator made of
    a wide value comes back as the value before it."""

    def bent(rows: Any, dtypes: Any, fixed: Any) -> Any:
        same: dict[Any, Any] = {}
        seen: dict[Any, Any] = {}
        source: dict[Any, Any] = {}
        kept = []
        for name, op, given, kwargs in rows:
            args = [same.get(a, a) for a in given]
            names = [a for a in args if isinstance(a, str)]
            before = seen.setdefault((op, str(names), str(kwargs)), name) if merges else name
            if merges and op.startswith("aten") and before != name:
                same[name] = before
            elif not merges and kwargs.get("dtype") == "bfloat16" and args[0] in source:
                same[name] = source[args[0]]
            else:
                widens = kwargs.get("dtype") == "float32" and dtypes[args[0]] == "bfloat16"
                if widens or (len(args) == 1 and args[0] in source):
                    source[name] = source.get(args[0], args[0])
                kept.append((name, op, args, kwargs))
        return solved["tidy"](kept, dtypes, fixed)

    for seed in range(2, 5):
        verdict = ask(lab.questions["tidy"], LocalStudent({"tidy": bent}), seed=seed)
        assert "has the same value" in str(verdict.explanation), (seed, verdict)


@pytest.mark.parametrize("line", ["by_device", "chained"])
def test_work_is_played_in_the_order_of_calls_each_a_latency_after_its_own(line: str) -> None:
    """by_device: in the order in which the device worked. chained: each work of a graph is played a
    latency after the one before it, and not after the call."""

    def played(events: list[dict[str, Any]], latency: float) -> float:
        whole = [e for e in events if e["ph"] == "X"]
        calls = {e["args"]["correlation"]: e for e in whole if e["cat"] == "cuda_runtime"}
        waits = [e for e in calls.values() if e["name"].endswith("Synchronize")]
        work = [e for e in whole if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        called = {id(e): calls[e["args"]["correlation"]]["ts"] for e in work}
        free: dict[int, float] = {}
        seen: dict[float, int] = defaultdict(int)
        for e in sorted(work, key=lambda e: (line == "by_device" or called[id(e)], e["ts"])):
            at = called[id(e)]
            seen[at] += 1
            after = latency * (seen[at] if line == "chained" else 1)
            saved = sum(w["dur"] for w in waits if w["ts"] + w["dur"] <= at)
            free[e["tid"]] = max(at - saved + after, free.get(e["tid"], 0.0)) + e["dur"]
        begin: float = min(e["ts"] for e in whole if "ProfilerStep#" in e["name"])
        return max(free.values()) - begin

    student = LocalStudent({"time_without_waits": played})
    verdict = ask(lab.questions["time_without_waits"], student, seed=2)
    where = {"by_device": "other threads copy", "chained": "a graph of short kernels"}[line]
    assert where in str(verdict), str(verdict)


@pytest.mark.parametrize("seed", range(5))
def test_the_latest_clock_is_known_from_the_longest_collectives(seed: int) -> None:
    """Who goes by clocks is wrong in both traces of three ranks, and has another rank there than
    whoever takes the one that waits longest."""
    module = import_module("autograder.checks.lab09_profiling.late_rank")
    for once in (module.LATE_ONCE_US, (850, 900)):
        traces, (late, waited) = module._drawn(Draw(seed), 3, once)
        begins = [max(e["ts"] for e in events) for events in traces]
        assert begins.index(max(begins)) not in (late, waited.index(max(waited)))


def test_a_call_asks_for_two_copies_from_pageable_memory() -> None:
    copies = [e["args"] for e in drawn("pageable_copies", 0) if "HtoD (Pageable" in e["name"]]
    assert len({args["correlation"] for args in copies}) == len(copies) - 1


@pytest.mark.parametrize("question", lab.questions)
@pytest.mark.slow
def test_no_wrong_answer_is_lucky(question: str) -> None:
    """Each known wrong answer fails whatever is drawn, and is known by its own sentence."""
    asked = lab.questions[question]
    for seed in (100, 101):
        doubles = Doubles(asked, seed)
        for known in asked.wrong_answers:
            verdict = ask(asked, LocalStudent(known.functions), seed=seed, doubles=doubles)
            assert verdict.state is State.FAIL, (known.name, seed)
            assert verdict.sentence == known.sentence, (known.name, seed)


def test_what_is_asked_differs_from_seed_to_seed() -> None:
    for question in TRACED:
        seen = {str(sorted(e["name"] for e in drawn(question, seed))) for seed in range(5)}
        assert len(seen) == 5


def added_up(events: list[dict[str, Any]]) -> tuple[float, float]:
    """9.1 as it is first written: all durations in one sum."""
    work = ("kernel", "gpu_memcpy", "gpu_memset")
    done = [e for e in events if e["ph"] == "X" and e["cat"] in work]
    whole = max(e["ts"] + e["dur"] for e in done) - min(e["ts"] for e in done)
    return sum(e["dur"] for e in done), whole - sum(e["dur"] for e in done)


@pytest.mark.parametrize("seed", range(5))
def test_durations_added_up_another_way_are_still_known(seed: int) -> None:
    """A sum of `dur` and one of ends less beginnings differ by what a trace's clock rounds."""
    verdict = ask(lab.questions["busy_us"], LocalStudent({"busy_us": added_up}), seed=seed)
    assert verdict.misconception == "sum_of_durations"
