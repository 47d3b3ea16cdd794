"""More machines than one: the same jobs on a `dask.distributed` cluster.

A job is plain text, seeds and hashes, and what comes back is a record. The worker has put that
record into the journal before it answers, so that neither its own death nor the scheduler's nor
ours loses it: the grading folder lies on a disk that every machine of the cluster sees. Whoever
reaches a Dask scheduler can run code on its workers: keep it inside a network that you trust, or
give it TLS (https://distributed.dask.org/en/stable/tls.html). The jail has no network to reach it.
"""

import atexit
import importlib.metadata
import logging
import multiprocessing
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from autograder.sandbox import Tier, probe

from ..errors import UserError
from ..store import seed_secret
from ..store.journal import Journal, Record
from . import devices
from .devices import RESOURCE
from .job import Fault, Job
from .pool import Outcome, Pool
from .worker import Setting, serve

CONNECT_S = 30.0
WAIT_S = 300.0
"""For the first worker to join: a queue of Slurm takes its time."""
MAX_LOST = 1
"""A job that was on this many lost workers is tried once more, and then given up."""
NO_DAEMON = "DASK_DISTRIBUTED__WORKER__DAEMON=False"
"""A daemon may have no children, and grading has."""
NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Of a scheduler, which otherwise asks for port 8787 even so, and warns where another has it."""
RUNNING = ("tcp", "tls", "ucx")
"""Addresses of a scheduler that runs already."""
ADVICE = {
    "ssh": " Each machine must let you in without asking: ssh HOST true",
    "slurm": "",
    "local": "",
}
UNKNOWN = (
    "There is no cluster {spec!r}. Say tcp://HOST:PORT of a Dask scheduler, ssh:HOST,HOST, "
    "slurm:JOBS or local:WORKERS."
)


@dataclass(frozen=True)
class Location:
    """Where a class is graded, as every machine of the cluster must find it.

    out: the grading folder. seed_name: the name of the seed secret that must lie in it. torch: its
    version. tier: the sandbox that verdicts speak of.
    """

    out: Path
    seed_name: str
    torch: str
    tier: Tier


@dataclass(frozen=True)
class Unfit:
    """A machine of the cluster cannot grade this class; the reason is for the instructor."""

    reason: str


def graded(jobs: Sequence[Job], location: Location, *, spec: str) -> Iterator[Outcome]:
    """Each job with its Record, or with the Fault that remained; in the order in which they are
    done. Every Record is in the journal already.

    spec: tcp://HOST:PORT, ssh:HOST,HOST, slurm:JOBS or local:WORKERS. Raises UserError where there
    is no such cluster, where it is lost, and where one of its machines is unfit.
    """
    if not jobs:
        return
    with _client(spec, location) as client:
        _wait_for_a_worker(client, spec)
        yield from _outcomes(client, jobs, location, spec)


def _outcomes(client: Any, jobs: Sequence[Job], location: Location, spec: str) -> Iterator[Outcome]:
    again: list[Job] = []
    for job, outcome in _answered(client, jobs, location, spec):
        if isinstance(outcome, Record) and outcome.timed_out:
            again.append(job.again(outcome))
        else:
            yield job, outcome
    for job in again:  # once more, and now nothing else runs
        yield from _answered(client, [job], location, spec)


def _answered(client: Any, jobs: Sequence[Job], location: Location, spec: str) -> Iterator[Outcome]:
    from distributed import as_completed

    needs = _resources(client, jobs[0].device_share, spec)
    futures = client.map(grade_here, jobs, [location] * len(jobs), pure=False, resources=needs)
    job_of = dict(zip((future.key for future in futures), jobs, strict=True))
    for future in as_completed(futures, loop=client.loop):
        outcome = _outcome(future, spec)
        if isinstance(outcome, Unfit):
            raise UserError(outcome.reason)
        yield job_of[future.key], outcome


def _resources(client: Any, share: float, spec: str) -> dict[str, float] | None:
    """What Dask counts for each job: its share of a GPU, where the cluster's workers declare any.

    Raises UserError where none of them has as much: the job would wait forever.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    declared = [
        worker["resources"][RESOURCE] for worker in workers if RESOURCE in worker["resources"]
    ]
    if not share or not declared:
        return None
    if max(declared) < share:
        raise UserError(
            f"A question needs {share:g} of a GPU, and no worker of {spec} declares as much. "
            f"Start one with: dask worker --resources {RESOURCE}=1"
        )
    return {RESOURCE: share}


def _outcome(future: Any, spec: str) -> Record | Fault | Unfit:
    """What a future holds. Raises UserError where the scheduler has gone and taken it along."""
    from distributed import KilledWorker

    error = future.exception() if future.status == "error" else None
    if error is None and future.status == "finished":
        result: Record | Fault | Unfit = future.result()
        return result
    if isinstance(error, KilledWorker):
        return Fault("the workers that had it were lost")
    if error is not None:
        return Fault(f"{type(error).__name__}: {error}")
    raise UserError(
        f"The cluster {spec} is lost. What was graded is kept: the same command goes on where it "
        "was."
    )


def grade_here(job: Job, location: Location) -> Record | Fault | Unfit:
    """On a worker: grades `job` in a process of its own and journals what came out, unless some of
    it is to be asked again."""
    reason = _unfit(location)
    if reason:
        return Unfit(f"{socket.gethostname()} cannot grade this class: {reason}")
    try:
        gpus = devices.lent() if job.device_share else ()
        ((_, outcome),) = _own_pool(location, gpus).run([job])
    except UserError as mistake:
        return Unfit(str(mistake))
    if isinstance(outcome, Record) and (job.first is not None or not outcome.timed_out):
        Journal(location.out / "journal" / job.lab).write(outcome)
    return outcome


def _unfit(location: Location) -> str:
    """Why this machine would not give the verdicts that were asked for; "" if it would."""
    out = location.out
    seen = seed_secret.name_of(seed_secret.secret(out)) if (out / "seed").exists() else ""
    if seen != location.seed_name:
        return f"it does not see {location.out}. Put the grading folder on a disk that all share."
    torch = importlib.metadata.version("torch")
    if torch != location.torch:
        return f"it has torch {torch}, and the class is graded with {location.torch}."
    if multiprocessing.current_process().daemon:
        return f"its Dask worker may start no process. Set {NO_DAEMON} for it, or --no-nanny."
    tier = probe()
    if tier.name != location.tier.name:
        return f"its sandbox is {tier.name!r}, not {location.tier.name!r}. {tier.reason}"
    return ""


_own = threading.local()


def _own_pool(location: Location, gpus: tuple[str, ...]) -> Pool:
    """This thread's one grading process, kept from job to job: a jail takes seconds to start."""
    if getattr(_own, "location", None) != (location, gpus):
        if hasattr(_own, "end"):  # of the class before this one
            atexit.unregister(_own.end)
            _own.end()
        scratch = Path(tempfile.mkdtemp(prefix="autograder-"))
        log = location.out / f"grade-{socket.gethostname()}.log"
        setting = Setting(location.tier, log, scratch, os.getpid())
        _own.pool = Pool(setting, serve, size=1, devices=gpus)
        _own.location = (location, gpus)
        _own.end = partial(_put_away, _own.pool, scratch)
        atexit.register(_own.end)
    pool: Pool = _own.pool
    return pool


def _put_away(pool: Pool, scratch: Path) -> None:
    pool.close()
    shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _client(spec: str, location: Location) -> Iterator[Any]:
    """A client of the cluster that `spec` names; one that we started ends with us."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise UserError(
            "A cluster needs Dask: pip install distributed dask-jobqueue asyncssh, on each machine."
        ) from None
    settings = {
        "distributed.worker.daemon": False,  # see NO_DAEMON
        "distributed.scheduler.allowed-failures": MAX_LOST,
    }
    logging.getLogger("distributed").setLevel(logging.ERROR)  # its warnings tear a progress bar
    with dask.config.set(settings), ExitStack() as stack:
        try:
            address = _address(spec, location, stack)
            client = stack.enter_context(Client(address, timeout=CONNECT_S, set_as_default=False))
        except OSError as error:
            raise UserError(f"No Dask scheduler answers at {spec}: {error}.") from error
        yield client


def _address(spec: str, location: Location, stack: ExitStack) -> Any:
    """What a Client connects to: the address itself, or a cluster that we start."""
    expect_known(spec)
    kind, _, rest = spec.partition(":")
    if kind in RUNNING:
        return spec
    start = {"ssh": _over_ssh, "slurm": _on_slurm, "local": _locally}[kind]
    try:
        return stack.enter_context(start(rest, location))
    except (RuntimeError, OSError) as error:
        reason = str(error).removeprefix("Cluster failed to start: ").rstrip(".")
        raise UserError(f"The cluster {spec} does not start: {reason}.{ADVICE[kind]}") from error


def expect_known(spec: str) -> None:
    """Raises UserError where `spec` names no cluster that could be."""
    kind, _, rest = spec.partition(":")
    is_one = {
        "ssh": any(rest.split(",")),
        **dict.fromkeys(("slurm", "local"), rest.isdecimal() and int(rest) > 0),
        **dict.fromkeys(RUNNING, rest.startswith("//")),
    }
    if not is_one.get(kind, False):
        raise UserError(UNKNOWN.format(spec=spec))


def _locally(rest: str, location: Location) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=int(rest), threads_per_worker=1, host="127.0.0.1", scheduler_kwargs=NO_DASHBOARD
    )


def _over_ssh(rest: str, location: Location) -> Any:
    """The first host also runs the scheduler."""
    from distributed import SSHCluster

    hosts = [host for host in rest.split(",") if host]
    return SSHCluster([hosts[0], *hosts], worker_options={"nthreads": 1})


def _on_slurm(rest: str, location: Location) -> Any:
    """Partition, account and memory are those of dask-jobqueue's own settings, jobqueue.yaml."""
    import dask
    from dask_jobqueue import SLURMCluster

    prologue = dask.config.get("jobqueue.slurm.job-script-prologue", default=None) or []
    cluster = SLURMCluster(
        **_slurm_defaults(),
        job_script_prologue=[*prologue, f"export {NO_DAEMON}"],
        log_directory=str(location.out / "slurm"),
    )
    cluster.scale(jobs=int(rest))
    return cluster


def _slurm_defaults() -> dict[str, Any]:
    """What dask-jobqueue insists on where its settings name nothing: one core, 4 GiB."""
    import dask

    asked = {"cores": 1, "processes": 1, "memory": "4 GiB"}
    return {
        name: value
        for name, value in asked.items()
        if dask.config.get(f"jobqueue.slurm.{name}", default=None) is None
    }


def _wait_for_a_worker(client: Any, spec: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WAIT_S)
    except TimeoutError:
        raise UserError(f"No worker has joined {spec} within {WAIT_S:g} seconds.") from None
