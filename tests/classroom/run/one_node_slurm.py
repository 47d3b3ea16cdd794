"""A real Slurm on this machine alone: its three daemons, ours and nobody else's, for one test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
ABSENT = "Slurm is absent: apt-get install slurm-wlm munge"
START_S = 30.0

CONF = """
ClusterName=oneday
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
SlurmdPort={node_port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=day Nodes=ALL Default=YES MaxTime=01:00:00 State=UP
"""


def path_of(daemon: str) -> str | None:
    """Where it is; Debian keeps daemons where only root looks."""
    return shutil.which(daemon, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def is_here() -> bool:
    return all(path_of(daemon) for daemon in DAEMONS)


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def slurm() -> Iterator[Path]:
    """The path of its slurm.conf, for SLURM_CONF, once its one node is idle."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        home.chmod(0o755)  # munge refuses a socket that others could not reach
        conf, key = home / "slurm.conf", home / "munge.key"
        for folder in ("state", "spool"):
            (home / folder).mkdir()
        port, node_port = _free_ports(2)
        host, user = socket.gethostname().split(".")[0], getpass.getuser()
        conf.write_text(
            CONF.format(host=host, user=user, home=home, port=port, node_port=node_port)
        )
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        munge = ["--foreground", "--force", f"--key-file={key}", f"--socket={home}/munge.socket"]
        munge += [f"--{name}-file={home}/munged.{name}" for name in ("pid", "log", "seed")]
        _start(stack, home, "munged", *munge)
        _until(lambda: (home / "munge.socket").exists(), home)
        _start(stack, home, "slurmctld", "-D", "-f", str(conf))
        _start(stack, home, "slurmd", "-D", "-f", str(conf))
        _until(lambda: "idle" in _nodes(conf), home)
        yield conf


def _start(stack: ExitStack, home: Path, daemon: str, *arguments: str) -> None:
    found = path_of(daemon)
    assert found, ABSENT
    with open(home / f"{daemon}.out", "w") as log:
        process = subprocess.Popen([found, *arguments], stdout=log, stderr=log, cwd=home)
    stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _nodes(conf: Path) -> str:
    env = os.environ | {"SLURM_CONF": str(conf)}
    asked = ["sinfo", "--noheader", "--format=%t"]
    return subprocess.run(asked, env=env, capture_output=True, text=True, check=False).stdout


def _until(true: object, home: Path) -> None:
    assert callable(true)
    deadline = time.monotonic() + START_S
    while not true():
        if time.monotonic() > deadline:
            said = "\n".join(path.read_text()[-2000:] for path in home.glob("*.out"))
            raise TimeoutError(f"Slurm did not start:\n{said}")
        time.sleep(0.05)  # there is nothing to wait on: the daemons tell nobody
