"""CUDA on the CPU: every fault that it promises to report, planted, is reported with its line."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import torch

from onelayer import cuda_cpu

pytestmark = pytest.mark.compiler

PLANTED = Path(__file__).parent / "planted" / "faults.cu"
TWINS, UNSEEN = PLANTED.with_name("twins.cu"), PLANTED.with_name("unseen.cu")
PAGE = Path(__file__).parents[3] / "docs" / "cuda_cpu.md"
N = 40
INVALID_VALUE, INVALID_CONFIGURATION, LAUNCH_FAILURE = 1, 9, 719

# function -> the one kind that must be reported, and words of its sentence
EXPECTED = {
    "reads_past": (
        "out_of_bounds",
        "thread (8, 0, 0) of block (1, 0, 0) reads x[40], past its end",
    ),
    "writes_past": ("out_of_bounds", "writes y[40], past its end: it has 40 elements"),
    "reads_before": ("out_of_bounds", "reads x[-1], before its beginning"),
    "null": ("out_of_bounds", "writes through a null pointer"),
    "past_shared_array": ("out_of_bounds", "thread (7, 0, 0) of block (0, 0, 0) reads a[8]"),
    "past_dynamic_shared": ("out_of_bounds", "byte 124 of dynamic shared memory"),
    "past_column_of_a_tile": ("out_of_bounds", "uses index 8"),
    "past_local_array": ("out_of_bounds", "uses index 4"),
    "past_device_table": ("out_of_bounds", "reads table[4], past its end"),
    "memcpy_past": ("out_of_bounds", "reads x[40]"),
    "past_allocation": ("out_of_bounds", "writes byte 28 of cudaMalloc number"),
    "after_free": ("out_of_bounds", "which cudaFree gave back"),
    "host_copy_past": ("out_of_bounds", "164 bytes that are not all device memory"),
    "misaligned_vector": ("misaligned", "16 bytes at an address (x[3])"),
    "host_reads": ("host_access", "host code reads x[39]"),
    "host_writes": ("host_access", "host code writes y[0]"),
    "unwritten_static": ("unwritten_shared", "thread (31, 0, 0) of block (0, 0, 0) reads s[31]"),
    "unwritten_histogram": ("unwritten_shared", "no thread of its block has written"),
    "unwritten_in_the_second_block": ("unwritten_shared", "block (1, 0, 0) reads s,"),
    "missing_barrier": ("race", "with no __syncthreads() between"),
    "missing_second_barrier": ("race", "with no __syncthreads() between"),
    "missing_syncwarp": ("race", "s[16]"),
    "lost_update": ("race", "no barrier orders two blocks"),
    "early_histogram": ("race", "updated it atomically"),
    "early_exit": ("divergent_barrier", "40 of the 64 threads of block (0, 0, 0) wait"),
    "two_barriers": ("divergent_barrier", "thread (40, 0, 0) at the barrier in line"),
    "absent_lanes": ("divergent_warp", "thread (20, 0, 0), which its mask 0xffffffff names, is in"),
    "outside_the_mask": ("divergent_warp", "lane 16 and calls this with mask 0x0000ffff"),
    "nobody_there": ("undefined_shuffle", "is lane 8 and reads from lane 16, which does not exist"),
    "no_blocks": ("impossible_launch", "the grid is (0, 1, 1)"),
    "no_threads": ("impossible_launch", "the block is (0, 1, 1)"),
    "too_many_threads": ("impossible_launch", "1056 threads, and 1024 is the most"),
    "block_too_deep": ("impossible_launch", "(1024, 1024, 64)"),
    "grid_too_high": ("impossible_launch", "(2147483647, 65535, 65535)"),
    "too_much_dynamic": ("impossible_launch", "49153 bytes of dynamic shared memory"),
    "too_much_together": ("impossible_launch", "49156 bytes of shared memory"),
    "launch_in_a_kernel": ("impossible_launch", "a kernel launches a kernel"),
    "by_zero": ("division_by_zero", "divides an integer by zero"),
    "false_claim": ("assertion", "assert(n % 16 == 0)"),
    "never_ends": ("stuck", "does not end: 33554432 loads and stores, and no barrier"),
    "waits_forever": ("stuck", "waits for a value"),
    "unwritten_workspace": ("unwritten_global", "reads byte 156 of cudaMalloc number"),
    "sum_without_zero": ("unwritten_global", "and nothing has been written there yet"),
    "freed_twice": ("invalid_free", "has given back already"),
    "freed_in_the_middle": ("invalid_free", "cudaFree of byte 16 of cudaMalloc number"),
    "freed_for_the_caller": ("invalid_free", "cudaFree of y, which cudaMalloc did not give"),
    "freed_on_the_host": ("invalid_free", "which cudaMalloc did not give in this call or before"),
    "no_return": ("missing_return", "thread (0, 0, 0) of block (0, 0, 0) comes to the end"),
    "beyond_its_bounds": ("impossible_launch", "64 threads, and the kernel's __launch_bounds__"),
    "two_in_one_line": ("divergent_barrier", "from two places in one line: these are two barriers"),
    "two_callers": ("divergent_barrier", "and thread (40, 0, 0) from line"),
}
WARNED = {
    "same_value": (
        "same_value_race",
        "thread (1, 0, 0) of block (0, 0, 0) writes y[0], and thread",
    ),
    "never_freed": ("leak", "160 bytes of this cudaMalloc are never given back"),
}
WITHOUT_WATCHING = [  # what needs no call before each load and store
    *("early_exit", "two_barriers", "absent_lanes", "outside_the_mask", "nobody_there"),
    *("no_blocks", "too_many_threads", "too_much_dynamic", "too_much_together", "false_claim"),
    *("beyond_its_bounds", "freed_twice", "freed_for_the_caller", "no_return"),
]
BY_ASAN = ["reads_past", "writes_past", "past_shared_array", "past_dynamic_shared"]
BY_TSAN = ["missing_barrier", "missing_second_barrier", "missing_syncwarp"]


@cache
def kernels(**how: object) -> cuda_cpu.Kernels:
    return cuda_cpu.build(PLANTED, **how)  # type: ignore[arg-type]


def line_of(mark: str, function: str) -> int | None:
    lines = PLANTED.read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1) if re.search(rf"// {mark} {function}$", line)]
    return found[0] if found else None


def call(function: str, **how: object) -> cuda_cpu.Run:
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(N, generator=generator), torch.zeros(64)
    past = function in ("writes_past", "memcpy_past", "host_copy_past")
    return kernels(**how).call(function, x, y[:N] if past else y, N)


@pytest.mark.parametrize("function", EXPECTED)
def test_a_planted_fault_is_reported_with_its_line(function: str) -> None:
    kind, words = EXPECTED[function]
    run = call(function)
    assert not run.ok
    assert {fault.kind for fault in run.faults} == {kind}, str(run)
    here, there = line_of("here", function), line_of("there", function)
    assert here is not None
    assert {(f.line, f.other_line) for f in run.faults} & {
        (here, there),
        (here, None),
        (here, here),
    }
    assert words in " ".join(fault.sentence for fault in run.faults), str(run)
    assert run.faults[0].code in PLANTED.read_text()


@pytest.mark.parametrize("function", WITHOUT_WATCHING)
@pytest.mark.parametrize("fibers", [None, "portable", "threads"])
def test_barriers_warps_and_launches_are_watched_in_every_mode(
    function: str, fibers: str | None
) -> None:
    run = call(function, check=False, fibers=fibers)
    assert [fault.kind for fault in run.faults][:1] == [EXPECTED[function][0]], str(run)
    assert run.faults[0].line == line_of("here", function)


def test_portable_fibers_watch_loads_and_stores_too() -> None:
    for function in ("reads_past", "missing_barrier", "unwritten_static"):
        run = call(function, fibers="portable")
        assert {fault.kind for fault in run.faults} == {EXPECTED[function][0]}


@pytest.mark.parametrize("function", BY_ASAN)
def test_asan_finds_the_line(function: str) -> None:
    run = call(function, sanitize="address")
    assert [(f.kind, f.line) for f in run.faults] == [("out_of_bounds", line_of("here", function))]
    assert "AddressSanitizer" in run.evidence


@pytest.mark.parametrize("function", BY_TSAN)
def test_tsan_finds_both_lines_of_a_race(function: str) -> None:
    run = call(function, sanitize="thread")
    lines = {(f.line, f.other_line) for f in run.faults}
    here, there = line_of("here", function), line_of("there", function)
    assert {f.kind for f in run.faults} == {"race"}, run.evidence
    assert lines & {(here, there), (there, here)}


def test_every_planted_function_is_expected_and_every_kind_is_planted() -> None:
    planted = EXPECTED | WARNED
    assert set(kernels().signatures) == set(planted)
    assert {kind for kind, _ in planted.values()} == set(cuda_cpu.KINDS)


@pytest.mark.parametrize("function", WARNED)
def test_a_rule_that_is_broken_without_harm_is_a_warning_with_its_line(function: str) -> None:
    kind, words = WARNED[function]
    run = call(function)
    assert run.ok, str(run)
    assert [(f.kind, f.line) for f in run.warnings] == [(kind, line_of("here", function))]
    assert words in run.warnings[0].sentence
    assert str(run.warnings[0]) in str(run)


def test_a_twin_without_the_fault_is_clean() -> None:
    twins = cuda_cpu.build(TWINS)
    assert set(twins.signatures) < set(EXPECTED | WARNED)
    for function in twins.signatures:
        for _ in range(2):
            run = twins.call(function, torch.ones(N), torch.zeros(64), N)
            assert (run.faults, run.warnings) == ((), ()), str(run)


def test_what_is_not_seen_is_not_said_and_the_page_names_it() -> None:
    unseen = cuda_cpu.build(UNSEEN)
    page = PAGE.read_text(encoding="utf-8")
    for function in unseen.signatures:
        assert f"`{function}`" in page
        run = unseen.call(function, torch.ones(32), torch.zeros(64), 32)
        expected = ["leak"] if function == "kept_in_the_heap" else []
        assert ([*run.faults], [w.kind for w in run.warnings]) == ([], expected), str(run)


def test_each_row_of_the_page_is_a_kind_and_planted_functions_of_it() -> None:
    rows = [row.split(" | ") for row in PAGE.read_text(encoding="utf-8").splitlines()]
    seen = [(re.findall(r"`(\w+)`", here)[:1], re.findall(r"`(\w+)`", by)) for *_, here, by in
            (row for row in rows if len(row) == 4 and "`" in row[2])]  # fmt: skip
    planted = EXPECTED | WARNED
    for kinds, functions in seen:
        assert functions
        assert {planted[function][0] for function in functions} == set(kinds)
    assert {kinds[0] for kinds, _ in seen} == set(cuda_cpu.KINDS)


def test_what_comes_fresh_from_torch_empty_is_fresh_when_the_call_says_so() -> None:
    x, y = torch.ones(N), torch.empty(64)
    fresh = kernels().call("reads_past", x, y, N, unwritten=[x])
    assert [fault.kind for fault in fresh.faults][:1] == ["unwritten_global"], str(fresh)
    assert "reads x[0], and nothing has been written" in fresh.faults[0].sentence
    assert call("same_value").ok
    assert kernels().call("same_value", x, y, N, unwritten=[y]).ok  # written, and never read
    rest = kernels().call("same_value", x, y, N, unwritten=[x[10:20]])
    assert [f.thread for f in rest.faults] == [(10, 0, 0)]


def test_an_invalid_free_is_an_invalid_value_and_frees_nothing() -> None:
    assert call("freed_in_the_middle").value == INVALID_VALUE
    assert call("beyond_its_bounds").value == INVALID_VALUE


def test_a_leak_is_not_told_after_a_fault_which_may_have_ended_the_function() -> None:
    assert not call("never_freed", check=False).warnings
    assert not call("freed_in_the_middle").warnings


def test_a_bad_store_never_happens_and_the_device_is_lost_until_the_call_ends() -> None:
    y = torch.zeros(64)
    run = kernels().call("writes_past", torch.ones(N), y[:N], N)
    assert y[:N].sum() == N
    assert y[N:].sum() == 0
    assert run.value == LAUNCH_FAILURE
    assert len(run.launches) == 1  # the second was refused
    again = kernels().call("writes_past", torch.ones(64), y, 64)
    assert again.ok
    assert len(again.launches) == 2


def test_the_error_codes_of_an_impossible_launch_are_cudas() -> None:
    assert call("no_blocks").value == INVALID_CONFIGURATION
    assert call("too_many_threads").value == INVALID_CONFIGURATION


def test_a_fault_reads_as_a_person_would_say_it() -> None:
    told = str(call("missing_barrier"))
    assert re.search(r"race, line \d+ of reversed: thread \(\d+, 0, 0\) of block", told)
    assert "    | " not in told.splitlines()[0]
    with pytest.raises(cuda_cpu.KernelFault, match="out_of_bounds, line"):
        call("reads_past").expect_clean()
