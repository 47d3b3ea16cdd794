"""How fast a class is graded: against nbgrader as it comes, from ten submissions to a thousand,
after a kill, and on two workers of a Dask cluster.

    python -m bench.grading [--sizes 10,100,1000] [--only PART] [--out FILE]

Prints a table and writes FILE, one JSON object with what was measured and on what. Beside other
work processor seconds tell more than wall seconds; both are there.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from autograder.attacks.sample_class import ROOT, released, right_answers
from autograder.checks import lab01_strides
from autograder.classroom.run.work import ROUNDS
from autograder.judge import LocalStudent, State, ask
from autograder.sandbox.host import zygote_client

from . import plain_nbgrader
from .hand_ins import write_class, write_spinning
from .timed import Mark, Run, run

Measured = dict[str, Any]
MANY = 16
"""Times as many submissions, to tell what one more of ours takes from what starting takes."""
TURNS = 3
"""How often that is measured: a shared machine is half as fast from one minute to the next."""


def autograde(hand_ins: Path, out: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "autograder.cli", "grade", str(hand_ins), "--out", str(out)]
    return [*command, "--course", str(ROOT), *options]


def graded(folder: Path, n: int, *options: str, cpus: list[int] | None = None) -> Run:
    """A fresh class of `n`, graded into a fresh folder."""
    return _graded(Path(tempfile.mkdtemp(dir=folder)), n, *options, cpus=cpus)


def _graded(
    place: Path,
    n: int,
    *options: str,
    cpus: list[int] | None = None,
    mark: int = 0,
) -> Run:
    """mark: a number of verdicts up to which processor time is asked for."""
    write_class(place / "in", n, salt=place.name)
    command = autograde(place / "in", place / "out", *options)
    marks = Mark(lambda: len(verdict_times(place)), mark) if mark else None
    return run(command, cwd=place, cpus=cpus, mark=marks)


def pace_s(place: Path, first: int, last: int) -> float:
    """Seconds from one verdict to the next in the journal, from the `first`th to the `last`th:
    nothing of starting or ending is in it."""
    times = verdict_times(place)
    return (times[last - 1] - times[first - 1]) / (last - first)


def verdict_times(place: Path) -> list[float]:
    """When each verdict was in the journal, in seconds of this machine's clock, rising."""
    return sorted(path.stat().st_mtime for path in place.glob("out/journal/*/*.json"))


def against_nbgrader(folder: Path, n: int) -> Measured:
    """Lab 01 on one core, ours and nbgrader's: a class of `n`, and then what each submission more
    takes, by difference. Ours needs larger classes for that than nbgrader does, and is taken
    TURNS times, its answers alone between them.

    Publishing is counted apart: the same records, published once more. nbgrader's own is its
    autograde without the running of the notebooks, and its generate_feedback.

    What the grader takes beyond the answers is counted up to the last verdict: on one core the
    pages come after it, and nothing that varies as much as they do is taken off. Both classes are
    so large that what is done once is done in both.
    """
    core = [min(psutil.Process().cpu_affinity())]
    graded(folder, 1, cpus=core)  # what is read from the disk for the first time
    theirs = [_nbgraders(folder, k, core) for k in (2, n)]
    theirs_published = [_nbgraders_publishing(folder, k, core) for k in (2, n)]
    settled = n + zygote_client.MANY
    pairs, published, owns, verdicts_s, overheads = [], [], [], [], []
    for _ in range(TURNS):
        places = [Path(tempfile.mkdtemp(dir=folder)) for _ in range(3)]
        began = time.time()
        few = _graded(places[0], n, "--workers", "1", cpus=core)
        verdicts_s.append(max(verdict_times(places[0])) - began)
        many = _graded(places[1], MANY * n, "--workers", "1", cpus=core, mark=MANY * n)
        pairs.append([few, many])
        published.append([_published_again(place, cpus=core) for place in places[:2]])
        less = _graded(places[2], settled, "--workers", "1", cpus=core, mark=settled)
        with _on(core):
            owns.append(own_time_s())
        overheads.append(_each((less, many), "mark_cpu_s", settled, MANY * n) - owns[-1])
    found: Measured = {"submissions": n, "load": os.getloadavg()[0], "own_cpu_s": owns}
    found["verdicts_s"] = median(verdicts_s)
    for clock in ("wall_s", "cpu_s"):
        whole = [_each(pair, clock, n, MANY * n) for pair in pairs]
        publishing = [_each(pair, clock, n, MANY * n) for pair in published]
        verdicts = [one - its for one, its in zip(whole, publishing, strict=True)]
        found[clock] = {
            "ours": median(getattr(few, clock) for few, _ in pairs),
            "nbgrader": getattr(theirs[1], clock),
            "ours_each": whole,
            "ours_verdict_each": verdicts,
            "ours_publishing_each": publishing,
            "nbgrader_each": _each(theirs, clock, 2, n),
            "nbgrader_publishing_each": _each(theirs_published, clock, 2, n),
        }
    found["overhead_ms"] = [1000 * overhead for overhead in overheads]
    return found


def _each(pair: Sequence[Run], clock: str, few: int, many: int) -> float:
    """What one submission more takes, by difference of classes of `few` and of `many`."""
    small, large = (getattr(run, clock) for run in pair)
    taken: float = (large - small) / (many - few)
    return taken


def _published_again(place: Path, *, cpus: list[int] | None = None) -> Run:
    """The graded class of `place`, published into an empty gradebook: nothing is graded."""
    for name in ("gradebook.db", "submitted", "autograded", "feedback"):
        path = place / "out" / name
        path.unlink() if path.is_file() else shutil.rmtree(path)
    return run(autograde(place / "in", place / "out"), cwd=place, cpus=cpus)


@contextlib.contextmanager
def _on(cpus: list[int]) -> Iterator[None]:
    """This process runs on these cores only, as what it is compared with does."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _nbgraders(folder: Path, n: int, core: list[int]) -> Run:
    hand_ins, course = folder / f"peer-in-{n}", folder / f"peer-{n}"
    write_class(hand_ins, n)
    plain_nbgrader.prepare(course, hand_ins)
    return plain_nbgrader.grade(course, cpus=core)


def _nbgraders_publishing(folder: Path, n: int, core: list[int]) -> Run:
    hand_ins, course = folder / f"peer-in-{n}", folder / f"peer-published-{n}"
    plain_nbgrader.prepare(course, hand_ins)
    return plain_nbgrader.publish(course, cpus=core)


def own_time_s() -> float:
    """Processor seconds that one submission takes of itself: its answers, asked as often, in this
    very process."""
    answers: dict[str, Any] = {}
    for cell in released()["cells"]:
        if "setup" in cell["metadata"].get("tags", []):
            exec(cell["source"], answers)
    for source in right_answers().values():
        exec(source, answers)
    taken = [_asked_s(LocalStudent(answers), seed) for seed in range(8)]
    return median(taken[1:])  # the first imports what torch puts off


def _asked_s(student: LocalStudent, seed: int) -> float:
    started = time.process_time()
    verdicts = [ask(question, student, seed=seed, rounds=ROUNDS) for question in lab01_strides.lab]
    wrong = [verdict.question for verdict in verdicts if verdict.state is not State.PASS]
    if wrong:
        raise RuntimeError(f"the right answers to {wrong} did not pass: there is nothing to time")
    return time.process_time() - started


def growth(folder: Path, sizes: list[int]) -> list[Measured]:
    """Seconds per submission and memory as the class grows.

    early_s, late_s: from verdict to verdict among the first submissions of a class (as many as the
    smallest size, without those that the workers began with) and among as many of its last.
    each_s, cpu_each_s: of the whole run, start-up left out by difference, so that it tells nothing
    about classes of a few.
    """
    found = []
    workers = len(psutil.Process().cpu_affinity())
    start = graded(folder, workers)  # so that each of them has started
    few = sizes[0] - workers
    for n in sizes:
        place = Path(tempfile.mkdtemp(dir=folder))
        done = _graded(place, n)
        found.append(
            {
                "submissions": n,
                "load": os.getloadavg()[0],
                "wall_s": done.wall_s,
                "early_s": pace_s(place, workers, workers + few),
                "late_s": pace_s(place, n - few, n),
                "each_s": (done.wall_s - start.wall_s) / (n - workers),
                "cpu_each_s": (done.cpu_s - start.cpu_s) / (n - workers),
                "grader_bytes": done.peak_bytes["grader"],
                "worker_bytes": done.peak_bytes.get("worker", 0),
            }
        )
        shutil.rmtree(place)
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


def publishing(folder: Path, n: int) -> Measured:
    """What the gradebook and the pages cost by themselves: the records of a graded class, published
    again into an empty gradebook. Start-up is left out by difference (2 and `n` submissions)."""
    found = []
    for k in (2, n):
        place = Path(tempfile.mkdtemp(dir=folder))
        _graded(place, k)
        found.append(_published_again(place))
    each = {clock: _each(found, clock, 2, n) for clock in ("wall_s", "cpu_s")}
    return {"submissions": n, "load": os.getloadavg()[0], **each}


def first_verdict(folder: Path, n: int) -> Measured:
    """From the command to the first verdict in the journal, of a class of `n`. In turns with it
    what is not ours: `import torch` by itself, and nbgrader's whole command for one notebook."""
    cores = sorted(psutil.Process().cpu_affinity())[:2]
    alone = [sys.executable, "-c", "import torch"]
    turns = []
    for turn in range(TURNS):
        place, peer = Path(tempfile.mkdtemp(dir=folder)), folder / f"turn-{turn}"
        peer.mkdir()
        began = time.time()
        whole = _graded(place, n, cpus=cores)
        first = min(verdict_times(place))
        turns.append(
            {
                "first_s": first - began,
                "cpu_s": whole.cpu_s,
                "import_torch_s": run(alone, cwd=place, cpus=cores).wall_s,
                "nbgrader_s": _nbgraders(peer, 1, cores).wall_s,
            }
        )
    middle = {name: median(turn[name] for turn in turns) for name in turns[0]}
    return {"submissions": n, "load": os.getloadavg()[0], **middle}


def two_workers_against_one(folder: Path, n: int) -> Measured:
    one, two = (graded(folder, n, "--cluster", f"local:{w}").wall_s for w in (1, 2))
    return {"submissions": n, "ratio": one / two, "load": os.getloadavg()[0]}


def spinning(folder: Path) -> Measured:
    """A class of 25 without, and with, 20 that keep the processors busy."""
    honest = graded(folder, 25).wall_s
    found: Measured = {"submissions": 25, "load": os.getloadavg()[0]}
    for name, everywhere in (("one_answer", False), ("every_cell", True)):
        place = Path(tempfile.mkdtemp(dir=folder))
        write_spinning(place / "in", 20, everywhere=everywhere)
        found[name] = _graded(place, 5).wall_s / honest
    return found


def machine() -> Measured:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": psutil.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "nbgrader": version("nbgrader"),
        "machine": f"{platform.system()} {platform.machine()}",
    }


PARTS: dict[str, Callable[[Path, list[int]], Any]] = {
    "first_verdict": lambda folder, sizes: first_verdict(folder, sizes[0]),
    "against_nbgrader": lambda folder, sizes: against_nbgrader(folder, sizes[0]),
    "two_dask_workers": lambda folder, sizes: two_workers_against_one(folder, sizes[0]),
    "publishing": lambda folder, sizes: publishing(folder, sizes[0]),
    "after_a_kill": lambda folder, sizes: after_a_kill(folder, sizes[0]),
    "spinning": lambda folder, _: spinning(folder),
    "growth": growth,
}


def measured(parts: Sequence[str], sizes: list[int], say: Callable[[str], None]) -> Measured:
    found: Measured = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for part in parts:
            say(part.replace("_", " "))
            (Path(name) / part).mkdir()
            found[part] = PARTS[part](Path(name) / part, sizes)
    return found


def rows(found: Measured) -> Iterator[tuple[str, str]]:
    if peer := found.get("against_nbgrader"):
        yield from _peer_rows(peer)
    if first := found.get("first_verdict"):
        yield (
            "from the command to the first verdict",
            f"{first['first_s']:.1f} s: {first['first_s'] / first['import_torch_s']:.1f} x "
            f"`import torch`, {first['first_s'] / first['nbgrader_s']:.2f} x nbgrader's command "
            "for one notebook",
        )
    if sizes := found.get("growth"):
        yield from _growth_rows(sizes[0], sizes[-1])
    if kill := found.get("after_a_kill"):
        yield (
            f"after kill -9 with {kill['kept']} of {kill['submissions']} done",
            f"{kill['lost']} lost, {kill['graded_twice']} twice, "
            f"{kill['ratio_to_a_whole_run']:.2f} of a whole run",
        )
    if published := found.get("publishing"):
        yield (
            "gradebook and page by themselves, each submission more",
            f"{published['cpu_s']:.3f} s of processor time, {published['wall_s']:.3f} s",
        )
    if spun := found.get("spinning"):
        yield (
            "a class of 25 of which 20 spin in one answer, or in every cell, against one without",
            f"{spun['one_answer']:.1f} x, {spun['every_cell']:.1f} x",
        )
    if dask := found.get("two_dask_workers"):
        yield "two Dask workers against one, start included", f"{dask['ratio']:.2f} x"


def _peer_rows(peer: Measured) -> Iterator[tuple[str, str]]:
    n = peer["submissions"]
    for clock, name in (("wall_s", "wall"), ("cpu_s", "processor")):
        t = peer[clock]
        if not t["ours"]:
            continue
        yield (
            f"one core against nbgrader, {name} time, {n} submissions with start-up",
            _ratio(t["nbgrader"], t["ours"]),
        )
        if clock == "wall_s":
            yield "the same, up to the last verdict", _ratio(t["nbgrader"], peer["verdicts_s"])
        yield (
            f"each submission more ({name} time)",
            _ratio(t["nbgrader_each"], median(t["ours_each"])),
        )
        yield (
            "the same, up to its verdict",
            _ratio(t["nbgrader_each"], median(t["ours_verdict_each"])),
        )
        yield (
            "the same, publishing alone on either side",
            _ratio(t["nbgrader_publishing_each"], median(t["ours_publishing_each"])),
        )
    if not peer["cpu_s"]["ours"]:
        return
    over = sorted(peer["overhead_ms"])
    yield (
        "processor time per submission up to its verdict, beyond its own",
        f"{median(over):.0f} ms ({over[0]:.0f} to {over[-1]:.0f} in {len(over)} turns; "
        f"its own: {1000 * median(peer['own_cpu_s']):.0f} ms)",
    )


def _ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.1f} x ({theirs:.2f} s to {ours:.3f} s)"


def _growth_rows(first: Measured, last: Measured) -> Iterator[tuple[str, str]]:
    sizes = f"{last['submissions']} submissions against {first['submissions']}"
    early, late = last["early_s"], last["late_s"]
    yield (
        f"from verdict to verdict, the last of {last['submissions']} against its first",
        f"{late / early:.2f} x ({1000 * early:.0f} ms to {1000 * late:.0f} ms)",
    )
    yield (
        f"the same, {sizes}",
        f"{late / first['late_s']:.2f} x (from {1000 * first['late_s']:.0f} ms)",
    )
    for key, name in (("each_s", "wall"), ("cpu_each_s", "processor")):
        yield f"{name} time per submission of {last['submissions']}", f"{1000 * last[key]:.0f} ms"
    yield "grader's memory, the same", f"{last['grader_bytes'] / first['grader_bytes']:.2f} x"
    yield (
        "grader, worker at the peak",
        f"{last['grader_bytes'] / 2**20:.0f}, {last['worker_bytes'] / 2**20:.0f} MiB",
    )


@click.command()
@click.option("--sizes", default="10,100,1000", show_default=True, help="Class sizes, rising.")
@click.option(
    "--only", multiple=True, type=click.Choice(list(PARTS)), help="This part; repeatable."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/grading.json"))
def main(sizes: str, only: tuple[str, ...], out: Path) -> None:
    """Measure the grader."""
    console = Console(emoji=False)
    with console.status("bench") as status:
        found = measured(only or list(PARTS), [int(n) for n in sizes.split(",")], status.update)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    table = Table("measured", "result")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    console.print(f"[dim]{out}", highlight=False)


if __name__ == "__main__":
    main()
