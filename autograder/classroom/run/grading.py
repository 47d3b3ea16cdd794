"""The second step: entries become records, and each record is in the journal before anybody hears
of it."""

import importlib.metadata
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autograder.sandbox import DEFAULT_SHARE, MOCKED, Tier, mocked_gpu, probe
from onelayer.mock_cuda.builds import NoMock

from ..errors import UserError
from ..intake.rebuild import to_run
from ..intake.release import Release
from ..intake.taking import Entry
from ..store import seed_secret
from ..store.journal import Journal, Record, key_of
from . import cluster, devices, pool
from .job import SUBMISSION_S, Job
from .worker import Setting

NOT_SAFE = (
    "Other people's code is not run here without walls. {reason} "
    "Put that right, or pass --i-trust-students to run it with your own rights."
)
NO_GPU = "There is no NVIDIA GPU here (no /dev/nvidia0), so nothing can be graded on cuda."
TORCH = importlib.metadata.version("torch")


@dataclass(frozen=True)
class Means:
    """What is graded with. trusting: also without a sandbox. cluster: "" for this machine, else as
    `cluster.graded` reads it. device: "cpu", "cuda", "mocked", or "" for a GPU where a question of
    the lab asks for one and it is there. workers: 0 for one per core."""

    workers: int = 0
    trusting: bool = False
    cluster: str = ""
    device: str = ""


def safe_tier(trusting: bool) -> Tier:
    """The sandbox of this machine. Raises UserError where it is none and nobody said that this is
    all right."""
    tier = probe()
    if not tier.safe and not trusting:
        raise UserError(NOT_SAFE.format(reason=tier.reason.rstrip(".") + "."))
    return tier


class Grading:
    """One lab in one grading folder."""

    def __init__(self, out: Path, release: Release, means: Means) -> None:
        self.out, self.release, self.means = out, release, means
        self.secret = seed_secret.secret(out)
        self.journal = Journal(out / "journal" / release.name)

    def look_up(self, entries: Mapping[str, Entry]) -> tuple[list[Record], list[Job]]:
        """What the journal holds of `entries` already, and the jobs that are left."""
        found, jobs = [], []
        for student, entry in entries.items():
            key = key_of(entry.sha256, *self._circumstances)
            record = self.journal.read(student, key)
            if record is not None and record.is_final:
                found.append(record)
            else:
                job = job_for(entry, self.release, key=key, secret=self.secret)
                jobs.append(replace(job, device_share=self._device_share))
        if jobs:
            safe_tier(self.means.trusting)
        return found, jobs

    @cached_property
    def _circumstances(self) -> tuple[str, ...]:
        device = [self.means.device] if self._on_gpu else []
        return self.release.version, TORCH, seed_secret.name_of(self.secret), probe().name, *device

    @cached_property
    def _device_share(self) -> float:
        """Of one GPU, for each submission; 0 where everything stays on the CPU."""
        if self.means.device == "cpu":
            return 0.0
        return self.release.lab.device_share or (DEFAULT_SHARE if self._on_gpu else 0.0)

    @property
    def _on_gpu(self) -> bool:
        return self.means.device in ("cuda", MOCKED)

    def run(self, jobs: Sequence[Job]) -> Iterator[pool.Outcome]:
        """Each job with its Record, which is in the journal then, or with the Fault that
        remained."""
        if not jobs:
            return iter(())
        return self._on_cluster(jobs) if self.means.cluster else self._here(jobs)

    def _here(self, jobs: Sequence[Job]) -> Iterator[pool.Outcome]:
        tier, scratch = safe_tier(self.means.trusting), self.out / ".scratch"
        workers = self.means.workers or pool.processors()
        gpus = self._gpus() if jobs[0].device_share else ()
        if self._on_gpu and not gpus:
            raise UserError(NO_GPU)
        if gpus:
            workers = min(workers, devices.slots(gpus, jobs[0].device_share))
        scratch.mkdir(mode=0o700, exist_ok=True)
        setting = Setting(tier, self.out / "grade.log", scratch, os.getpid())
        try:
            for job, outcome in pool.graded(jobs, setting, workers=workers, devices=gpus):
                if isinstance(outcome, Record):
                    self.journal.write(outcome)
                yield job, outcome
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _gpus(self) -> tuple[str, ...]:
        if self.means.device != MOCKED:
            return devices.lent()
        try:
            mocked_gpu()  # built once, before the workers come
        except NoMock as why:
            raise UserError(str(why)) from None
        return (MOCKED,)

    def _on_cluster(self, jobs: Sequence[Job]) -> Iterator[pool.Outcome]:
        tier = safe_tier(self.means.trusting)
        location = cluster.Location(self.out, seed_secret.name_of(self.secret), TORCH, tier)
        return cluster.graded(jobs, location, spec=self.means.cluster)


def job_for(entry: Entry, release: Release, *, key: str, secret: bytes) -> Job:
    """The job that grades `entry`, with the seeds of this secret."""
    names, extra_s = release.lab.questions, release.budgets_s
    return Job(
        entry.submission.student,
        release.name,
        key,
        entry.sha256,
        tuple(to_run(release, entry.rebuilt)),
        release.before_answers,
        {name: seed_secret.seed(secret, release.name, name, entry.sha256) for name in names},
        entry.rebuilt.left_out,
        extra_s,
        SUBMISSION_S + extra_s,
        release.loopback,
        release.device_share,
    )
