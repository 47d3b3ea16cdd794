"""The whole run: a kernel in the jail, kernels of every origin, then lab by lab every known answer
on the GPU; and on the CPU, which `make selftest` has asked them all, those with another verdict."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from autograder.classroom.intake.release import Release, releases
from autograder.classroom.run import nvidia_smi
from autograder.classroom.run.pool import Pool, processors
from autograder.classroom.run.worker import Setting, lent_gpu, serve
from autograder.sandbox import CUDA, Jail

from . import provenance, results_page
from .answers import CHECKS, Known, known_answers, left_to_selftest
from .lab_run import Asked, Found, asked, outcome
from .place import Place, place_with
from .trials import tried

WORKERS = 16  # of one GPU: a context takes half a gigabyte of it, and these answers little more


class Run:
    """On one GPU, with the labs of one course folder."""

    def __init__(self, course: Path, device: str, console: Console) -> None:
        """Raises NoLaunch where no sandbox of this machine launches a kernel on it, and UserError
        where the driver does not know it."""
        self.course, self.device, self.console = course, device, console
        self.started = time.monotonic()
        self.gpu = lent_gpu(device, alone=True)
        self.place: Place = place_with(self.gpu)
        self.say(f"a kernel ran in the tier {self.place.tier.name!r}, on {self.gpu.title}")

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self.started:6.0f} s  {text}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def results(
        self, wanted: Iterable[str] = (), *, wrong_ones: bool = True
    ) -> Iterator[results_page.Results]:
        """What is kept: after the kernels, and again after each lab, so that a run which is cut off
        leaves what it has; the last is the whole. wanted: names of labs; none of them means all.
        wrong_ones: whether known wrong answers are asked, too. Raises UserError where the GPU is
        lost on the way."""
        known, names = releases(self.course), tuple(wanted)
        chosen = [name for name in known if not names or name in names]
        kernels, labs = dict(self._kernels()), dict[str, Any]()
        yield self._so_far(kernels, labs, chosen, wrong_ones)
        for name, lab in self._labs((known[name] for name in chosen), wrong_ones):
            labs[name] = lab
            yield self._so_far(kernels, labs, chosen, wrong_ones)

    def _so_far(
        self, kernels: dict[str, Any], labs: dict[str, Any], chosen: Sequence[str], wrong_ones: bool
    ) -> results_page.Results:
        known = releases(self.course)
        asked = [question for name in labs for question in known[name].lab]
        return {
            "machine": provenance.described(self.gpu, self.course, wrong_ones=wrong_ones),
            "sandbox": {**asdict(self.place.tier), "refused": list(self.place.refused)},
            "seconds": round(time.monotonic() - self.started, 1),
            "kernels": kernels,
            "labs": dict(labs),
            "not_yet": [name for name in chosen if name not in labs],
            "not_asked": {
                q: why for name in labs for q, why in left_to_selftest(known[name]).items()
            },
            "on_the_cpu": {question.name: question.host for question in asked if question.host},
            "faults": list(_faults(kernels, labs, chosen)),
        }

    def _kernels(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.gpu.kind != CUDA:  # nobody would compute them
            return
        with Jail(tier=self.place.tier, gpu=self.gpu) as jail:
            for name, one in tried(jail):
                self.say(f"kernels by {name}: {one.text}")
                yield name, asdict(one) | {"failed": one.failed}

    def _labs(
        self, chosen: Iterable[Release], wrong_ones: bool
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        with (
            tempfile.TemporaryDirectory(prefix="autograder-") as folder,
            closing(self._pool(Path(folder), on_gpu=True)) as there,
            closing(self._pool(Path(folder), on_gpu=False)) as here,
        ):
            for release in chosen:
                known = list(known_answers(release, wrong_ones=wrong_ones))
                gpu = asked(there, known, self._used_bytes)
                judged = outcome(known, gpu.found, partial(_asked_again, here))
                right = f"{judged.right} right, {judged.wrong} wrong"
                self.say(f"{release.name}: {right}, as they must be")
                yield release.name, _lab(release, gpu) | asdict(judged)

    def _pool(self, folder: Path, *, on_gpu: bool) -> Pool:
        """Workers as a class has them; what they see besides is the checks, for wrong answers."""
        tier, log = self.place.tier, folder / "grade.log"
        setting = Setting(tier, log, folder, os.getpid(), readable=(CHECKS,))
        devices = (self.device,) if on_gpu else ()
        return Pool(setting, serve, size=min(processors(), WORKERS), devices=devices)

    def _used_bytes(self) -> int | None:
        return nvidia_smi.used_bytes(self.device) if self.gpu.kind == CUDA else None


def _asked_again(pool: Pool, known: Sequence[Known]) -> Found:
    return asked(pool, known, lambda: None).found


def _lab(release: Release, gpu: Asked) -> dict[str, Any]:
    """What is not a verdict."""
    return {
        "questions": len(release.lab.questions),
        "seconds": gpu.seconds,
        "peak_bytes": gpu.peak_bytes,
    }


def _faults(kernels: dict[str, Any], labs: dict[str, Any], chosen: Sequence[str]) -> Iterator[str]:
    for name, one in kernels.items():
        if one["failed"]:
            yield f"kernels by {name}: {one['text']}"
    for name, lab in labs.items():
        yield from (f"{name}, {fault}" for fault in lab["faults"])
    if not chosen:
        yield "no lab was found, so nothing was asked"
