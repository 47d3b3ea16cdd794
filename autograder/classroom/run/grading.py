"""The second step: entries become records, and each record is in the journal before anybody hears
of it."""

import importlib.metadata
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from autograder.sandbox import DEFAULT_SHARE, MOCKED, Tier, mocked_gpu, probe
from onelayer.mock_cuda.builds import NoMock

from ..errors import UserError
from ..intake.rebuild import to_run
from ..intake.release import Release
from ..intake.taking import Entry
from ..store import merges, roster, seed_secret, variants
from ..store.journal import Journal, Record, key_of
from . import cluster, devices, pool, startup
from .job import SUBMISSION_S, Job
from .worker import Setting

NOT_SAFE = (
    "Other people's code is not run here without walls. {reason} "
    "Put that right, or pass --i-trust-students to run it with your own rights."
)
NO_GPU = "There is no NVIDIA GPU here (no /dev/nvidia0), so nothing can be graded on cuda."
NOTHING_ELSE: variants.Variant = MappingProxyType({})
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
        self.variants = variants.read(out, release.lab)

    def look_up(self, entries: Mapping[str, Entry]) -> tuple[list[Record], list[Job]]:
        """What the journal holds of `entries` already, and the jobs that are left."""
        found, jobs = [], []
        standing = roster.keys(self.out, self.release.name)
        for student, entry in entries.items():
            variant = self.variants.get(student, {})
            asked = variants.in_key(variant)
            keys = []
            for told in self._circumstances:
                keys.append(key_of(entry.sha256, *told, *asked))
            own, kept = keys[0], standing.get(student)
            if kept in keys:  # what stands comes first
                keys.remove(kept)
                keys.insert(0, kept)
            for key in keys:
                record = self.journal.read(student, key)
                if record and record.is_final:
                    found.append(record)
                    break
            else:
                job = job_for(entry, self.release, key=own, secret=self.secret, variant=variant)
                jobs.append(replace(job, device_share=self.device_share))
        if jobs:
            safe_tier(self.means.trusting)
        return found, jobs

    @cached_property
    def _circumstances(self) -> list[tuple[str, ...]]:
        """What a verdict depends on beside the submission: here, then as in each folder that was
        merged into this one."""
        device = [self.means.device] if self._on_gpu else []
        ours = seed_secret.name_of(self.secret)
        seeds = [ours, *merges.seeds(self.out, ours)]
        tier = probe().name
        return [(self.release.version, TORCH, seed, tier, *device) for seed in dict.fromkeys(seeds)]

    @cached_property
    def device_share(self) -> float:
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
            begun = startup.take()
            for job, outcome in pool.graded(
                jobs, setting, workers=workers, devices=gpus, begun=begun
            ):
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


def job_for(
    entry: Entry,
    release: Release,
    *,
    key: str,
    secret: bytes,
    variant: variants.Variant = NOTHING_ELSE,
) -> Job:
    """The job that grades `entry`, with the seeds of this secret. variant: its student's own
    numbers, where they have others than the public lab."""
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
        variant=dict(variant),
    )
