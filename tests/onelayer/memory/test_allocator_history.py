"""The allocator's history: from torch's documented snapshot, and from a training step."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onelayer.memory.allocator_history import BEFORE, AllocatorHistory, read_snapshots
from onelayer.memory.allocator_picture import page_of
from onelayer.model.gpt import GPT
from onelayer.recordings import step_memory
from onelayer.recordings.step_memory import record_step_memory

# As the docstring of `torch.cuda.memory._snapshot` describes it.
TORCHS = inspect.signature(torch.cuda.memory._record_memory_history_impl)
BASE, OTHER, STREAM = 0x7F00_0000_0000, 0x7F00_4000_0000, 0x55D1_2345_6780


def block(address: int, size: int, asked: int, state: str) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": asked,
        "state": state,
        "frames": [{"filename": "/home/alice/train.py", "line": 3, "name": "step"}],
    }


def segment(address: int, *blocks: dict[str, Any], stream: int = 0) -> dict[str, Any]:
    return {
        "device": 0,
        "address": address,
        "total_size": sum(b["size"] for b in blocks),
        "stream": stream,
        "segment_type": "small",
        "blocks": list(blocks),
    }


def line(action: str, address: int, size: int, at: int, stream: int = 0) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": stream,
        "time_us": 1_700_000_000_000_000 + at,
        "frames": [{"filename": "/home/alice/train.py", "line": 3, "name": "step"}],
    }


HELD = segment(
    BASE, block(BASE, 512, 400, "active_allocated"), block(BASE + 512, 1536, 0, "inactive")
)
TRACE = [
    line("snapshot", 0, 400, 0),
    line("alloc", BASE + 512, 1000, 5),
    line("segment_alloc", OTHER, 4096, 6, STREAM),
    line("alloc", OTHER, 3000, 7, STREAM),
    line("snapshot", 0, 4400, 8),
    {"action": "oom", "size": 9, "stream": 0, "device_free": 1, "time_us": 0, "frames": []},
    line("free_requested", BASE + 512, 1000, 9),
    line("free_completed", BASE + 512, 1000, 9),
    line("free_requested", BASE, 400, 10),
    line("alloc", BASE + 512, 700, 11),
]
FREE = [block(BASE, 512, 400, "inactive"), block(BASE + 512, 1024, 700, "active_allocated")]
LAST = [
    segment(BASE, *FREE, block(BASE + 1536, 512, 0, "inactive")),
    segment(OTHER, block(OTHER, 4096, 3000, "active_awaiting_free"), stream=STREAM),
]


def snapshot(lines: int, segments: list[dict[str, Any]]) -> dict[str, Any]:
    return {"segments": segments, "device_traces": [TRACE[:lines]]}


@pytest.fixture
def history() -> AllocatorHistory:
    phases = [("forward", snapshot(4, LAST)), ("backward", snapshot(len(TRACE), LAST))]
    return read_snapshots(snapshot(0, [HELD]), phases)


class TestSnapshot:
    def test_each_line_has_its_phase_and_a_snapshot_is_none(
        self, history: AllocatorHistory
    ) -> None:
        told = [(r.phase, r.action, r.address, r.bytes) for r in history.requests]
        assert told == [
            ("forward", "alloc", 512, 1000),
            ("forward", "segment_alloc", OTHER - BASE, 4096),
            ("forward", "alloc", OTHER - BASE, 3000),
            ("backward", "free_requested", 512, 1000),
            ("backward", "free_completed", 512, 1000),
            ("backward", "free_requested", 0, 400),
            ("backward", "alloc", 512, 700),
        ]

    def test_addresses_streams_and_times_are_of_no_machine(self, history: AllocatorHistory) -> None:
        assert {r.stream for r in history.requests} == {0, 1}
        assert [r.time_us for r in history.requests] == [0, 1, 2, 4, 4, 5, 6]
        assert [s.address for s in history.after] == [0, OTHER - BASE]
        assert "alice" not in str(history.plain())

    def test_who_holds_what(self, history: AllocatorHistory) -> None:
        held = list(history.held())
        assert held[0] == {BEFORE: 400, "forward": 1000, "backward": 0}
        assert held[2] == {BEFORE: 400, "forward": 4000, "backward": 0}
        assert held[-1] == {BEFORE: 0, "forward": 3000, "backward": 700}
        at, most = history.peak
        assert (at.phase, most) == ("forward", 4400)
        assert list(history.reserved()) == [2048, 6144, 6144, 6144, 6144, 6144, 6144]

    def test_segments_keep_their_blocks_for_whoever_replays_them(
        self, history: AllocatorHistory
    ) -> None:
        (before,) = history.before
        assert before.blocks == ((512, 400, "active_allocated"), (1536, 0, "inactive"))
        assert [s.bytes for s in history.after] == [2048, 4096]

    def test_it_travels_as_plain_data(self, history: AllocatorHistory) -> None:
        assert AllocatorHistory.from_plain(history.plain()) == history

    def test_what_it_shows(self, history: AllocatorHistory) -> None:
        table = str(history).splitlines()
        assert table[0].startswith("7 lines of trace; at the peak, in forward, ")
        assert table[2].split() == ["before", "forward", "backward", "in", "all"]
        page = page_of(history)
        assert page.count("<img") == 2
        assert "at the peak, in forward" in page

    def test_what_was_traced_before_the_first_phase_belongs_to_none(self) -> None:
        seen = read_snapshots(snapshot(4, [HELD]), [("backward", snapshot(len(TRACE), LAST))])
        assert seen.phases == ("backward",)
        assert len(seen.requests) == 4

    def test_lines_that_were_lost_are_noticed(self) -> None:
        phases = [("forward", snapshot(6, LAST)), ("backward", snapshot(4, LAST))]
        with pytest.raises(ValueError, match="shorter after backward"):
            read_snapshots(snapshot(0, [HELD]), phases)

    def test_a_trace_in_which_nothing_was_asked_for_is_refused(self) -> None:
        with pytest.raises(ValueError, match="nobody asked"):
            read_snapshots(snapshot(0, [HELD]), [("forward", snapshot(1, LAST))])


class Allocator(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Stands for CUDA's: writes the same trace about the storages that a CPU really makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace: list[dict[str, Any]] = []
        self.switched: list[str | None] = []
        self.alive: set[int] = set()
        self.snapshots = 0

    def _record_memory_history(self, *, enabled: str | None, **options: Any) -> None:
        TORCHS.bind(enabled=enabled, **options)  # refuses what torch would refuse
        self.switched.append(enabled)

    def _snapshot(self) -> dict[str, Any]:
        self.snapshots += 1
        return {"segments": [], "device_traces": [list(self.trace)]}

    def _note(self, action: str, number: int, size: int) -> None:
        if self.switched and self.switched[-1]:
            self.trace.append(line(action, number, size, len(self.trace)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._born(leaf.untyped_storage())
        return result

    def _born(self, storage: torch.UntypedStorage) -> None:
        number, size = storage._cdata, storage.nbytes()
        if number not in self.alive:
            self.alive.add(number)
            self._note("alloc", number, size)
            weakref.finalize(storage, self._died, number, size).atexit = False

    def _died(self, number: int, size: int) -> None:
        self.alive.discard(number)
        self._note("free_requested", number, size)


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    stands_in = Allocator()
    monkeypatch.setattr(step_memory, "memory", stands_in)
    return stands_in


class TestTrainingStep:
    def test_what_a_step_of_training_holds(self, allocator: Allocator) -> None:
        """Parameters, gradients of the same size, twice that of Adam's; no activation is left."""
        with allocator:
            history = record_step_memory("cpu", sentences=8)
        steps = [f"{part}{again}" for again in ("", " 2") for part in ("forward", "backward")]
        assert [p for p in history.phases if p in steps] == steps
        ends = {r.phase: h for r, h in zip(history.requests, history.held(), strict=True)}
        parameters = [p.nbytes for p in GPT().parameters()]
        nbytes, counters = sum(parameters), 4 * len(parameters)
        assert ends["backward"]["backward"] == pytest.approx(nbytes, rel=0.01)
        assert ends["optimizer"]["optimizer"] == pytest.approx(2 * nbytes + counters, rel=0.01)
        assert ends["optimizer 2"]["forward 2"] == 0
        assert history.peak[0].phase == "backward 2"
        assert allocator.switched == ["all", None]

    def test_the_trace_is_switched_off_whatever_happens(
        self, allocator: Allocator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails() -> dict[str, Any]:
            raise RuntimeError("the snapshot failed")

        monkeypatch.setattr(allocator, "_snapshot", fails)
        with pytest.raises(RuntimeError, match="the snapshot failed"):
            record_step_memory("cpu", sentences=8)
        assert allocator.switched == ["all", None]
