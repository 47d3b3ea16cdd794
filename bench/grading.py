"""How fast a class is graded: against nbgrader as it comes, from ten submissions to a thousand,
after a kill, and on two workers of a Dask cluster.

    python -m bench.grading [--sizes 10,100,1000] [--out FILE]

Prints a table and writes FILE, one JSON object with what was measured and on what.
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from autograder.checks import lab01_strides
from autograder.classroom.work import ROUNDS
from autograder.judge import LocalStudent, State, ask
from tests.sample_class import ROOT, released, right_answers

from . import plain_nbgrader
from .hand_ins import write_class
from .timed import Run, run

Measured = dict[str, Any]


def autograde(hand_ins: Path, out: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "autograder.cli", "grade", str(hand_ins), "--out", str(out)]
    return [*command, "--course", str(ROOT), *options]


def graded(folder: Path, n: int, *options: str, cpus: list[int] | None = None) -> Run:
    """A fresh class of `n`, graded into a fresh folder."""
    place = Path(tempfile.mkdtemp(dir=folder))
    write_class(place / "in", n, salt=place.name)
    return run(autograde(place / "in", place / "out", *options), cwd=place, cpus=cpus)


def against_nbgrader(folder: Path, n: int) -> Measured:
    """Submissions per minute of lab 01 on one core, ours and nbgrader's, taken in turns."""
    write_class(folder / "peer-in", n)
    plain_nbgrader.prepare(folder / "peer", folder / "peer-in")
    one_core = [min(psutil.Process().cpu_affinity())]
    ours = graded(folder, n, "--workers", "1", cpus=one_core)
    theirs = plain_nbgrader.grade(folder / "peer", cpus=one_core)
    return {
        "submissions": n,
        "ours_per_minute": 60 * n / ours.wall_s,
        "nbgrader_per_minute": 60 * n / theirs.wall_s,
        "ratio": theirs.wall_s / ours.wall_s,
    }


def own_time_s() -> float:
    """What one submission takes of itself: its answers, asked as often, in this very process."""
    answers: dict[str, Any] = {}
    for cell in released()["cells"]:
        if "setup" in cell["metadata"].get("tags", []):
            exec(cell["source"], answers)
    for source in right_answers().values():
        exec(source, answers)
    taken = [_asked_s(LocalStudent(answers), seed) for seed in range(4)]
    return median(taken[1:])  # the first imports what torch puts off


def _asked_s(student: LocalStudent, seed: int) -> float:
    started = time.perf_counter()
    verdicts = [ask(question, student, seed=seed, rounds=ROUNDS) for question in lab01_strides.lab]
    wrong = [verdict.question for verdict in verdicts if verdict.state is not State.PASS]
    if wrong:
        raise RuntimeError(f"the right answers to {wrong} did not pass: there is nothing to time")
    return time.perf_counter() - started


def growth(folder: Path, sizes: list[int]) -> list[Measured]:
    """Seconds per submission and memory as the class grows, start-up left out by difference."""
    found = []
    start = graded(folder, 1)
    for n in sizes:
        done = graded(folder, n)
        each = (done.wall_s - start.wall_s) / (n - 1)
        found.append(
            {
                "submissions": n,
                "wall_s": done.wall_s,
                "each_s": each,
                "grader_bytes": done.peak_bytes["grader"],
                "worker_bytes": done.peak_bytes.get("worker", 0),
            }
        )
    return found


def after_a_kill(folder: Path, n: int) -> Measured:
    """kill -9 of the grader when half the class is in the journal; the same command again."""
    place = Path(tempfile.mkdtemp(dir=folder))
    write_class(place / "in", n)
    command = autograde(place / "in", place / "out")
    quiet = subprocess.DEVNULL
    journal = place / "out" / "journal"
    first = subprocess.Popen(command, cwd=place, stdout=quiet, stderr=quiet)
    while first.poll() is None and len(list(journal.glob("*/*.json"))) < n // 2:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {path: path.stat().st_mtime_ns for path in journal.glob("*/*.json")}
    again = run(command, cwd=place)
    twice = [path for path, when in kept.items() if path.stat().st_mtime_ns != when]
    whole = graded(folder, n)
    return {
        "submissions": n,
        "kept": len(kept),
        "graded_twice": len(twice),
        "lost": n - len(list(journal.glob("*/*.json"))),
        "ratio_to_a_whole_run": again.wall_s / whole.wall_s,
    }


def two_workers_against_one(folder: Path, n: int) -> Measured:
    one, two = (graded(folder, n, "--cluster", f"local:{w}").wall_s for w in (1, 2))
    return {"submissions": n, "ratio": one / two}


def machine() -> Measured:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": psutil.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "nbgrader": version("nbgrader"),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def measured(sizes: list[int], say: Callable[[str], None]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        found: Measured = {"machine": machine(), "own_s": own_time_s()}
        say("against nbgrader")
        found["against_nbgrader"] = against_nbgrader(folder, sizes[0])
        say("two workers against one")
        found["dask"] = two_workers_against_one(folder, sizes[0])
        say("after a kill")
        found["after_a_kill"] = after_a_kill(folder, sizes[0])
        say(f"growth to {sizes[-1]}")
        found["growth"] = growth(folder, sizes)
    first, last = found["growth"][0], found["growth"][-1]
    workers = psutil.cpu_count() or 1
    found["overhead_ms"] = 1000 * (last["each_s"] * workers - found["own_s"])
    found["each_last_over_first"] = last["each_s"] / first["each_s"]
    found["grader_bytes_last_over_first"] = last["grader_bytes"] / first["grader_bytes"]
    return found


def rows(found: Measured) -> list[tuple[str, str]]:
    peer, kill = found["against_nbgrader"], found["after_a_kill"]
    first, last = found["growth"][0], found["growth"][-1]
    return [
        (
            f"throughput per core against nbgrader, {peer['submissions']} submissions",
            f"{peer['ratio']:.1f} x ({peer['ours_per_minute']:.0f} to "
            f"{peer['nbgrader_per_minute']:.0f} per minute)",
        ),
        ("overhead per submission, over its own time", f"{found['overhead_ms']:.0f} ms"),
        (
            f"time per submission, {last['submissions']} against {first['submissions']}",
            f"{found['each_last_over_first']:.2f} x",
        ),
        ("grader's memory, the same two", f"{found['grader_bytes_last_over_first']:.2f} x"),
        (
            "grader, worker at the peak",
            f"{last['grader_bytes'] / 2**20:.0f}, {last['worker_bytes'] / 2**20:.0f} MiB",
        ),
        (
            f"after kill -9 with {kill['kept']} of {kill['submissions']} done",
            f"{kill['lost']} lost, {kill['graded_twice']} twice, "
            f"{kill['ratio_to_a_whole_run']:.2f} of a whole run",
        ),
        ("two Dask workers against one", f"{found['dask']['ratio']:.2f} x"),
    ]


@click.command()
@click.option("--sizes", default="10,100,1000", show_default=True, help="Class sizes, rising.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/grading.json"))
def main(sizes: str, out: Path) -> None:
    """Measure the grader."""
    console = Console()
    with console.status("own time") as status:
        found = measured([int(size) for size in sizes.split(",")], status.update)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    table = Table("measured", "result")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    console.print(f"[dim]{out}", highlight=False)


if __name__ == "__main__":
    main()
