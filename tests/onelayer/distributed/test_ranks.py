"""run_ranks: a function of a cell on several processes, and what is said when one goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
import torch.distributed as dist
from nbclient import NotebookClient

import onelayer
from onelayer.distributed.one_rank import Failed
from onelayer.distributed.rank_report import report
from onelayer.distributed.ranks import RanksFailed, RanksWait
from tests.processes import children_with


def _as_in_a_cell() -> Callable[[torch.Tensor], tuple[int, torch.Tensor]]:
    def add_up(x: torch.Tensor) -> tuple[int, torch.Tensor]:
        dist.all_reduce(x)
        return dist.get_rank(), x

    return add_up


add_up = _as_in_a_cell()  # travels whole, as what a cell defines: the ranks need no import of this


def children() -> set[int]:
    """The ranks that are alive: children of the fork server, which stays."""
    return {process.pid for process in children_with("forkserver", recursive=True)}


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_rank_answers_in_order(n: int) -> None:
    given = torch.ones(3)
    results = onelayer.run_ranks(n, add_up, given)
    assert [rank for rank, _ in results] == list(range(n))
    assert all(total.equal(torch.full((3,), float(n))) for _, total in results)
    assert given.equal(torch.ones(3))  # they changed their own copies


@pytest.mark.slow
def test_a_closure_over_tensors_and_layers_travels(capsys: pytest.CaptureFixture[str]) -> None:
    head, x = onelayer.head(), torch.ones(2, 64)
    results = onelayer.run_ranks(2, lambda: head(x).sum(), show=False)
    assert all(result.allclose(head(x).sum()) for result in results)
    assert capsys.readouterr().out == ""


def test_what_a_rank_prints_stands_under_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    def speak() -> None:
        print("hello from", dist.get_rank())
        os.write(2, b"and from C\n")

    results = onelayer.run_ranks(2, speak)
    assert results.printed == ["hello from 0\nand from C\n", "hello from 1\nand from C\n"]
    assert capsys.readouterr().out.splitlines() == [
        "[rank 0] hello from 0",
        "[rank 0] and from C",
        "[rank 1] hello from 1",
        "[rank 1] and from C",
    ]


@pytest.mark.slow
def test_a_deadlock_ends_and_says_where_each_rank_waits() -> None:
    def one_forgot_its_turn() -> None:
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(1))
        else:
            dist.barrier()

    with pytest.raises(RanksFailed) as failed:
        onelayer.run_ranks(2, one_forgot_its_turn, timeout_s=1.5)
    said = str(failed.value)
    assert "rank 0 was not back after 1.5 s, and waiting in all_reduce()" in said
    assert "rank 1 was not back after 1.5 s, and waiting in barrier()" in said
    assert failed.value.waiting == (0, 1)
    assert said.count("in one_forgot_its_turn") == 2
    assert "multiprocessing" not in said


def test_an_exception_is_told_with_the_ranks_lines_and_who_waited() -> None:
    def fails() -> None:
        if dist.get_rank() == 1:
            raise ValueError("600 rows do not divide by 7")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RanksFailed) as failed:
        onelayer.run_ranks(3, fails)
    cause, *others = re.split(r"\nranks? ", str(failed.value))[1:]
    assert cause.startswith("1 raised ValueError: 600 rows do not divide by 7")
    assert "test_ranks.py" in cause
    assert "one_rank.py" not in str(failed.value)
    assert [other.split(" in ")[0] for other in others] == ["0, 2 were still waiting"]


def test_ranks_of_one_fate_stand_in_their_own_order_whichever_came_first() -> None:
    same, other = Failed("ZeroDivisionError", "division by zero", ()), Failed("KeyError", "'w'", ())
    said = report({2: same, 1: other, 0: same}, {}, 1.0).splitlines()
    assert said[1:] == [
        "ranks 0, 2 raised ZeroDivisionError: division by zero",
        "rank 1 raised KeyError: 'w'",
    ]


@pytest.mark.slow
def test_ranks_that_wait_for_one_that_is_done_are_told_together_with_their_lines() -> None:
    def one_goes_home() -> None:
        with onelayer.record_collectives():  # whose own frames say nothing
            if dist.get_rank() != 2:
                dist.all_reduce(torch.ones(1), async_op=True).wait()

    with pytest.raises(RanksWait) as failed:
        onelayer.run_ranks(3, one_goes_home, timeout_s=1.5)
    _, waiting, place, done = str(failed.value).splitlines()
    assert waiting == "ranks 0, 1 were not back after 1.5 s, and waiting in Work.wait()"
    line = "in one_goes_home: dist.all_reduce(torch.ones(1), async_op=True).wait()"
    assert place.endswith(line)
    assert done == "done: rank 2, without the call that ranks 0, 1 wait for"


@pytest.mark.parametrize("ends", ["os._exit(3)", "os.kill(os.getpid(), 9)", "sys.exit(4)"])
def test_a_rank_that_ends_is_named_first(ends: str) -> None:
    def leaves() -> None:
        if dist.get_rank() == 0:
            exec(ends, {"os": os, "sys": sys})
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RanksFailed, match=r"came back\nrank 0 (ended|raised SystemExit)"):
        onelayer.run_ranks(2, leaves)


def test_a_rank_that_ends_is_told_with_its_last_words() -> None:
    def aborts() -> None:
        os.write(2, b"a first line\n24 vs 8: a collective mismatch\n\n")
        os._exit(3)

    with pytest.raises(RanksFailed) as failed:
        onelayer.run_ranks(1, aborts, show=False)
    told = "rank 0 ended with exit code 3; the last it wrote was: 24 vs 8: a collective mismatch"
    assert str(failed.value).endswith(told)


def test_what_is_refused() -> None:
    for n in (0, -1, 65):
        with pytest.raises(ValueError, match="ranks: from 1 to 64"):
            onelayer.run_ranks(n, add_up, torch.ones(1))


def test_no_process_is_left_whichever_way_it_goes() -> None:
    onelayer.run_ranks(1, lambda: None)
    before = children()  # the fork server, and Python's resource tracker

    def hangs() -> None:
        signal.pause()

    onelayer.run_ranks(2, add_up, torch.ones(1))
    with pytest.raises(RanksFailed, match="were not back"):
        onelayer.run_ranks(2, hangs, timeout_s=0.5)
    assert children() == before


KILLED = """
import os, signal, onelayer
def hangs():
    print(os.getpid(), flush=True)
    signal.pause()
if __name__ == "__main__":
    onelayer.run_ranks(2, hangs, timeout_s=600)
"""


@pytest.mark.slow
def test_the_ranks_end_with_a_notebook_that_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED])
    grown = psutil.Process(process.pid)
    deadline = time.monotonic() + 120
    ranks: list[psutil.Process] = []
    while len(ranks) < 4 and time.monotonic() < deadline:  # the server, the tracker, two ranks
        ranks = grown.children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(ranks, timeout=30)
    assert len(ranks) >= 4
    assert alive == []


@pytest.mark.slow
def test_a_program_is_not_run_again_in_its_ranks(tmp_path: Path) -> None:
    """It needs no `if __name__ == "__main__"`, and what it imports costs its ranks nothing."""
    script = tmp_path / "script.py"
    script.write_text("import onelayer\nprint('once', sum(onelayer.run_ranks(2, lambda: 21)))")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("once 42\n", "")


def test_a_process_with_threads_is_not_forked_though_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONELAYER_RANKS", "fork")
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    try:
        parents = set(onelayer.run_ranks(2, os.getppid, show=False))
    finally:
        done.set()
        waiting.join()
    assert os.getpid() not in parents


@pytest.mark.slow
def test_a_function_of_a_notebook_cell() -> None:
    cells = [
        "import torch, torch.distributed as dist, onelayer\nseven = torch.tensor([7])",
        "def f():\n    x = seven + dist.get_rank()\n    dist.all_reduce(x)\n    return x.item()",
        "onelayer.run_ranks(2, f)",
        "onelayer.run_ranks(2, lambda: 1 / 0)",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    NotebookClient(made, timeout=120, kernel_name="python3", allow_errors=True).execute()
    assert made.cells[2].outputs[0]["data"]["text/plain"] == "[15, 15]"
    assert "ranks 0, 1 raised ZeroDivisionError" in made.cells[3].outputs[-1]["evalue"]


def test_a_rank_on_gloo_sees_no_gpu() -> None:
    """FSDP takes the accelerator that it sees: beside one GPU, rank 1 found no second."""

    def seen() -> str:
        import os

        return os.environ["CUDA_VISIBLE_DEVICES"]

    assert onelayer.run_ranks(1, seen) == [""]
