"""A real sshd on this machine's loopback address: ours and nobody else's, for one test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ABSENT = "sshd is absent: apt-get install openssh-server"
START_S = 30.0

SERVER = """
ListenAddress 127.0.0.1:{port}
HostKey {home}/host
AuthorizedKeysFile {home}/me.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
SetEnv PYTHONPATH={path}
"""
CLIENT = """
Host *
  Port {port}
  User {user}
  IdentityFile {home}/{key}
  UserKnownHostsFile {home}/known
"""


def path_of_sshd() -> str | None:
    """sshd insists on being called by its whole path; Debian keeps it where only root looks."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def is_here() -> bool:
    """Root's sshd alone needs nothing else of the machine."""
    return bool(path_of_sshd() and shutil.which("ssh-keygen")) and os.geteuid() == 0


@contextmanager
def sshd(*, pythonpath: Path, key: str = "me") -> Iterator[Path]:
    """A home directory whose .ssh logs in on 127.0.0.1 without a password, for HOME; with any other
    `key` it is refused."""
    with tempfile.TemporaryDirectory(prefix="sshd-") as name, socket.socket() as chosen:
        home = Path(name)
        for made in {"host", "me", key}:
            quiet = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / made)]
            subprocess.run(quiet, check=True)
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
        chosen.close()
        told = {"port": port, "home": home, "path": pythonpath, "user": getpass.getuser()}
        (home / "sshd_config").write_text(SERVER.format(**told))
        (home / "known").write_text(f"[127.0.0.1]:{port} {(home / 'host.pub').read_text()}")
        (home / ".ssh").mkdir(mode=0o700)
        (home / ".ssh" / "config").write_text(CLIENT.format(key=key, **told))
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where it keeps nothing, and insists on
        with _running(home, port):
            yield home


@contextmanager
def _running(home: Path, port: int) -> Iterator[None]:
    found = path_of_sshd()
    assert found, ABSENT
    with open(home / "log", "w") as log:
        process = subprocess.Popen([found, "-D", "-e", "-f", str(home / "sshd_config")], stderr=log)
    try:
        _until_it_answers(port, home / "log")
        yield
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _until_it_answers(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=START_S).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)  # there is nothing to wait on: it tells nobody
    raise TimeoutError(f"sshd did not start:\n{log.read_text()[-2000:]}")
