"""Recordings: none without its provenance, none with a machine's names, none without a GPU."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import onelayer
from bench import head_loss, loss_devices, record
from onelayer import recordings
from onelayer.memory.allocator_history import AllocatorHistory, Request
from onelayer.memory.stream_trace import StreamTrace, Work
from onelayer.profiling.loop_traces import LoopTraces
from onelayer.recordings import storing
from onelayer.recordings.cleaning import cleaned
from onelayer.recordings.head_code import HeadCode
from onelayer.recordings.head_times import HeadTimes, page_of
from onelayer.recordings.mocked import CudaCall, MockedRun
from onelayer.recordings.provenance import FIELDS, Provenance, provenance_here
from onelayer.recordings.step_overlap import record_step_overlap
from onelayer.recordings.storing import store

REPO = Path(__file__).resolve().parents[3]
GPU = Provenance(
    device="a device",
    ran_on="cuda",
    driver="1.2.3",
    torch="2.13.0",
    triton="3.6.0",
    date="2026-01-02",
    made_by="python -m bench.record NAME",
)
MOCKED_TOO = [name for name in record.RECORDERS if name not in record.UNFIT["mocked"]]
MOCKED = replace(GPU, device="mocked device", ran_on="mocked", driver="none")
CODE = (REPO / "tests" / "onelayer" / "compiler" / "inductor_triton.txt").read_text(
    "utf-8"
)  # nothing that a GPU wrote
CONTENTS = {
    "loop": LoopTraces(
        [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2.0, "args": {"stream": 7}}],
        [],
    ),
    "code": HeadCode({"forward": CODE}),
    "times": HeadTimes.from_plain(
        {
            "dtype": "torch.bfloat16",
            "absent": ["liger"],
            "tokens": {
                "16": {"ms": {"eager": 1.0}, "bytes": {"eager": 2**20}},
                "64": {
                    "ms": {"eager": 8.0, "triton": 2.0},
                    "bytes": {"eager": 2**22, "triton": 2**20},
                    "floor": {"floor_ms": 1.0, "tflops": 700.0},
                },
            },
        }
    ),
    "memory": AllocatorHistory(
        requests=(
            Request("forward", "segment_alloc", 0, 2**21, 0, 0),
            Request("forward", "alloc", 0, 2**20, 0, 1),
            Request("backward", "alloc", 2**20, 2**19, 0, 2),
            Request("backward", "free_requested", 0, 2**20, 0, 3),
        ),
        before=(),
        after=(),
    ),
    "overlap": StreamTrace(
        {
            "host thread 1": (Work("aten::mm", 0.0, 10.0),),
            "kernels, stream 7": (Work("gemm", 5.0, 20.0),),
        }
    ),
}
CONTENTS["mocked"] = MockedRun(
    device="a device",
    source="def cell():\n    return 1",
    result=[1, {"two": 2.5}],
    calls=(CudaCall("cudaMalloc", "", "x = 1", 0, 512, 0.0, 1.5, None, None),),
    history=CONTENTS["memory"],
)
every_kind = pytest.mark.parametrize("shows", sorted(recordings.SHOWS))


def test_there_is_a_sample_of_each_kind() -> None:
    assert set(CONTENTS) == set(recordings.SHOWS)
    others = {"loop", "mocked"}  # a mocked device alone makes these
    assert len(record.RECORDERS) == len(set(recordings.SHOWS) - others)


class TestReading:
    def test_what_nobody_recorded_says_so(self, tmp_path: Path) -> None:
        missing = recordings.read_recording("head_loss", folder=tmp_path)
        assert not missing.exists
        assert "no recording" in repr(missing)
        assert missing.bundle() == {"text/plain": repr(missing)}

    @every_kind
    def test_it_comes_back_as_it_was_and_says_where_it_comes_from(
        self, tmp_path: Path, shows: str
    ) -> None:
        store("made", CONTENTS[shows], GPU, tmp_path)
        made = recordings.read_recording("made", folder=tmp_path)
        assert made.made == GPU
        assert made.content is not None
        assert made.content.plain() == cleaned(CONTENTS[shows].plain())
        told = (GPU.device, GPU.driver, GPU.torch, GPU.triton, GPU.date, GPU.made_by)
        assert all(word in made.provenance for word in told)
        assert repr(made).endswith(str(made.content))
        bundle = made.bundle()
        assert bundle["text/plain"] == repr(made)
        assert all(word in bundle["text/html"] for word in told)
        assert f"<code>{GPU.made_by}</code>" in bundle["text/html"]

    @pytest.mark.parametrize("field", [*FIELDS, "shows", "content"])
    def test_one_without_provenance_is_refused(self, tmp_path: Path, field: str) -> None:
        file = store("made", CONTENTS["times"], GPU, tmp_path)
        file.write_text(json.dumps(json.loads(file.read_text()) | {field: ""}))
        with pytest.raises(ValueError, match=field):
            recordings.read_recording("made", folder=tmp_path)

    @every_kind
    def test_one_that_is_not_what_it_says_is_refused(self, tmp_path: Path, shows: str) -> None:
        file = store("made", CONTENTS[shows], GPU, tmp_path)
        held = json.loads(file.read_text())
        others = [kind for kind in recordings.SHOWS if kind != shows]
        for wrong in ({"shows": other} for other in others):
            file.write_text(json.dumps(held | wrong))
            with pytest.raises(ValueError, match=r"made\.json holds no"):
                recordings.read_recording("made", folder=tmp_path)
        file.write_text(json.dumps(held | {"shows": "dreams"}))
        with pytest.raises(ValueError, match="dreams"):
            recordings.read_recording("made", folder=tmp_path)

    def test_what_is_shipped_is_complete_and_comes_from_a_gpu_or_a_mocked_one(self) -> None:
        mocked = [recordings.MOCKED / f"{name}.json" for name in MOCKED_TOO]
        for file in [*recordings.HERE.glob("*.json"), *mocked]:
            shipped = recordings.read_recording(file.stem, folder=file.parent)
            assert shipped.made is not None
            assert file.stem in record.RECORDERS
            assert shipped.made.ran_on == ("mocked" if file in mocked else "cuda")
            assert file.stem not in record.UNFIT[shipped.made.ran_on]
            assert ("mocked" in shipped.made.device) == (shipped.made.ran_on == "mocked")
            assert file.stat().st_size <= storing.MOST_BYTES

    def test_where_no_gpu_has_recorded_the_mocked_device_is_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recordings, "HERE", tmp_path)
        shown = recordings.read_recording("step_memory", folder=tmp_path)
        assert shown.made is not None
        assert shown.made.ran_on == "mocked"
        assert not recordings.read_recording("dreams", folder=tmp_path).exists

    def test_every_recording_that_a_chapter_shows_is_there(self) -> None:
        sources = [file.read_text("utf-8") for file in (REPO / "notebooks").glob("*.py")]
        names = re.findall(r'show_recording\("(\w+)"\)', "\n".join(sources))
        assert names
        for name in names:
            assert onelayer.show_recording(name).exists, name

    @every_kind
    def test_a_mocked_one_says_so_in_its_line_and_in_its_figure(self, shows: str) -> None:
        made = recordings.Recording("made", MOCKED, CONTENTS[shows])
        assert "mocked" in made.provenance
        assert "no GPU" in made.provenance
        page_of = recordings._found(recordings.SHOWS[shows][1])
        assert page_of(CONTENTS[shows], MOCKED.device) in made.bundle()["text/html"]
        assert page_of(CONTENTS[shows], MOCKED.device) != page_of(CONTENTS[shows])

    def test_a_cpus_is_no_gpus_and_says_so(self, tmp_path: Path) -> None:
        store("made", CONTENTS["overlap"], provenance_here("cpu", "a trial"), tmp_path)
        assert "no GPU" in recordings.read_recording("made", folder=tmp_path).provenance


class TestAgainstAGpu:
    """What the mocked device showed, beside what an H100 did."""

    def both(self, name: str) -> list[Any]:
        found = [
            recordings.read_recording(name, folder=f) for f in (recordings.HERE, recordings.MOCKED)
        ]
        assert [one.made and one.made.ran_on for one in found] == ["cuda", "mocked"]
        return [one.content for one in found]

    def test_the_allocator_is_asked_for_the_same_bytes_in_the_same_order(self) -> None:
        """But for the sort in the embedding's backward, whose room is that of the torch version:
        docs/mock_cuda.md says what the same version asks for."""
        asked = [
            [(r.phase, r.bytes) for r in one.requests if r.action == "alloc"]
            for one in self.both("step_memory")
        ]
        assert len(asked[0]) == len(asked[1]) > 300
        others = [pair for pair in zip(*asked, strict=True) if pair[0] != pair[1]]
        assert [(h100[0], mocked[0]) for h100, mocked in others] == [
            ("backward", "backward"),
            ("backward 2", "backward 2"),
        ]

    def test_inductor_writes_as_many_kernels_that_move_the_same_bytes(self) -> None:
        seen = [re.sub(r"triton_\w+", "triton", one.summary) for one in self.both("head_loss")]
        assert seen[0] == seen[1]

    def test_the_same_share_of_the_copies_is_hidden_behind_kernels(self) -> None:
        shares = []
        for trace in self.both("step_overlap"):
            (kernels,) = [lane for lane in trace.lanes if lane.startswith("kernels")]
            (copies,) = [lane for lane in trace.lanes if lane.startswith("copies")]
            assert len(trace.lanes[copies]) == 6
            shares.append(trace.overlap_us(kernels, copies) / trace.busy_us(copies))
        assert shares == pytest.approx([5 / 6, 5 / 6], abs=0.01)


class TestStoring:
    def test_a_cpus_is_never_shipped(self) -> None:
        before = sorted(recordings.HERE.iterdir())
        with pytest.raises(ValueError, match="comes from a GPU"):
            store("made", CONTENTS["overlap"], provenance_here("cpu", "a trial"))
        assert sorted(recordings.HERE.iterdir()) == before

    def test_a_mocked_one_never_replaces_a_gpus(self, tmp_path: Path) -> None:
        store("made", CONTENTS["times"], MOCKED, tmp_path)
        file = store("made", CONTENTS["overlap"], GPU, tmp_path)
        before = file.read_bytes()
        with pytest.raises(ValueError, match="a GPU's stays"):
            store("made", CONTENTS["times"], MOCKED, tmp_path)
        assert file.read_bytes() == before

    def test_one_that_is_too_large_leaves_the_old_one(self, tmp_path: Path) -> None:
        file = store("made", CONTENTS["overlap"], GPU, tmp_path)
        before = file.read_bytes()
        works = tuple(Work(f"kernel {n}", 9.0 * n, 5.0) for n in range(10_000))
        with pytest.raises(ValueError, match="over 200,000"):
            store("made", StreamTrace({"kernels, stream 7": works}), GPU, tmp_path)
        assert file.read_bytes() == before

    def test_one_that_cannot_be_read_back_leaves_the_old_one(self, tmp_path: Path) -> None:
        class Broken(HeadCode):
            def plain(self) -> dict[str, Any]:
                return {"forward": "no file of Inductor's"}

        Broken.__module__, Broken.__name__ = HeadCode.__module__, HeadCode.__name__
        file = store("made", CONTENTS["code"], GPU, tmp_path)
        before = file.read_bytes()
        with pytest.raises(ValueError, match="holds no code"):
            store("made", Broken({"forward": CODE}), GPU, tmp_path)
        assert file.read_bytes() == before
        assert [one.name for one in tmp_path.iterdir()] == ["made.json"]

    def test_a_write_that_breaks_off_leaves_the_old_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = store("made", CONTENTS["times"], GPU, tmp_path)
        before = file.read_bytes()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            store("made", CONTENTS["overlap"], GPU, tmp_path)
        assert file.read_bytes() == before
        assert [one.name for one in tmp_path.iterdir()] == ["made.json"]

    def test_no_path_and_no_name_of_the_machine_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Planted where Inductor and a profiler put them: in comments, names and keys."""
        monkeypatch.setattr(socket, "gethostname", lambda: "gpu-07.cluster.site-9")
        monkeypatch.setattr(getpass, "getuser", lambda: "alice")
        home = "/home/alice/my course/onelayer/compiler/story.py"
        monkeypatch.setattr(Path, "home", lambda: Path("/home/alice/my course"))
        planted = (
            "# kernel path: /tmp/torchinductor_alice/ab/cabdef.py\n"
            f"# File: {home}:31 in head_loss, code: z = F.linear(x)\n"
            "# cubin:/opt/alice/k.cubin (/opt/alice) '/opt/alice/'\n"
            "# alice@gpu-07 on gpu-07.cluster.site-9, /scratch/alice\n"
        )
        file = store("made", HeadCode({"forward": planted + CODE}), GPU, tmp_path)
        text = file.read_text()
        for word in ("alice", "gpu-07", "site-9", "/tmp", "/home", "/scratch", "my course"):
            assert word not in text, word
        for word in ("cabdef.py", "story.py:31 in head_loss, code: z = F.linear(x)", "someone"):
            assert word in text, word
        trace = StreamTrace({"host of alice": (Work("/usr/lib/alice/k.cu", 0.0, 1.0),)})
        assert "alice" not in store("traced", trace, GPU, tmp_path).read_text()

    @pytest.mark.parametrize(
        "text",
        [
            "tmp0 = x // 600; y = (a)/2 + b/c  # n/2",
            "tmp2 = tmp1/tmp0; tmp3 = (tmp1)/tmp0 / tmp1; 'device': 'cuda'",
            "#include <torch/csrc/inductor/cpp_prefix.h>",
            "https://docs.pytorch.org/docs/stable/index.html",
            "/* C */ f(); // comment",
            "text/html, image/png",
            CODE,
        ],
    )
    def test_what_is_no_path_stays_as_it_is(
        self, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(getpass, "getuser", lambda: "root")
        monkeypatch.setattr(socket, "gethostname", lambda: "cuda")
        for key in ("USER", "LOGNAME", "SUDO_USER"):
            monkeypatch.delenv(key, raising=False)
        assert cleaned(text) == text


class TestTimes:
    @pytest.mark.slow
    def test_the_benchmark_gives_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a CPU with few tokens, and for one of the peers: each needs a process of its own."""
        monkeypatch.setattr(head_loss, "NAMES", ("chunked", "triton"))
        monkeypatch.setattr(loss_devices.Cpu, "sizes", (256,))
        monkeypatch.setattr(head_loss, "TURNS", 1)
        threads = torch.get_num_threads()
        times = head_loss.record_head_times("cpu")
        torch.set_num_threads(threads)
        (row,) = times.rows
        assert (row.tokens, row.peer) == (256, "chunked")
        assert row.ms > 0
        assert times.absent == ("triton",)
        store("times", times, provenance_here("cpu", "a trial"), tmp_path)
        assert recordings.read_recording("times", folder=tmp_path).content == times

    def test_the_table_and_the_bars_say_what_was_measured(self) -> None:
        times = CONTENTS["times"]
        assert isinstance(times, HeadTimes)
        (line,) = [line for line in str(times).splitlines() if "triton" in line]
        assert line.split() == ["64", "triton", "2.000", "1.0", "50%"]
        assert "not to be had: liger" in str(times)
        assert {row.peer: row.ms for row in times.largest} == {"eager": 8.0, "triton": 2.0}
        assert page_of(times).count("<figure") == 2


class TestCommand:
    @pytest.mark.slow
    def test_without_a_gpu_make_says_so_in_a_line_and_changes_nothing(self) -> None:
        before = {file: file.read_bytes() for file in recordings.HERE.glob("*.json")}
        done = subprocess.run(
            ["make", "-s", "record", f"GPU_PYTHON={sys.executable}"],
            cwd=REPO,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert done.stdout == ""
        (line,) = [one for one in done.stderr.splitlines() if "***" not in one]
        assert line.startswith("Nothing was recorded: this machine lacks")
        assert "a CUDA GPU" in line
        assert {file: file.read_bytes() for file in recordings.HERE.glob("*.json")} == before

    def test_a_python_without_torch_is_a_line_too(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(record, "find_spec", lambda name: None)
        assert record.main([]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "the Python package torch" in line

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["dreams"], "dreams is none of"),
            (["--device", "cpu"], "is not shipped"),
            (["step_memory", "--device", "cpu", "--into", "x"], "no allocator but CUDA's"),
            (["head_loss_times", "--device", "mocked"], "are a model"),
        ],
    )
    def test_what_cannot_be_asked_is_a_line(
        self, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert record.main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line

    @pytest.mark.slow
    def test_a_node_with_torch_alone_can_record(self, tmp_path: Path) -> None:
        """Nothing is imported that a student's or an author's machine adds to torch."""
        program = f"""
import sys
from pathlib import Path
for absent in ("click", "rich", "matplotlib", "IPython", "cloudpickle", "nbgrader", "PIL"):
    sys.modules[absent] = None
from importlib import import_module
from bench import record
for recorder in record.RECORDERS.values():
    module, _, function = recorder.partition(":")
    assert callable(getattr(import_module(module), function))
print(record.record("step_overlap", "cpu", Path({str(tmp_path)!r})))
"""
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "step_overlap.json" in done.stdout
        made = recordings.read_recording("step_overlap", folder=tmp_path)
        assert isinstance(made.content, StreamTrace)

    @pytest.mark.slow
    def test_one_that_fails_is_named_and_leaves_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Without a GPU torch refuses to say what was allocated on one."""
        if torch.cuda.is_available():
            pytest.skip("with a GPU this one succeeds")
        assert record._alone("step_memory", "cpu", tmp_path) == 1
        assert "step_memory was not recorded: " in capfd.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_the_profiler_of_a_cpu_shows_the_host_alone() -> None:
    trace = record_step_overlap("cpu")
    assert all(lane.startswith("host thread") for lane in trace.lanes)
    names = {work.name for lane in trace.lanes.values() for work in lane}
    assert {"aten::linear", "MmBackward0"} <= names
    assert StreamTrace.from_plain(trace.plain()).plain() == trace.plain()
