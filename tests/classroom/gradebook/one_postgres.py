"""A real PostgreSQL for one test: its own folder, a socket in it, no port, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ABSENT = "PostgreSQL is absent: apt-get install postgresql"
START_S = 30.0


def programs() -> Path | None:
    """Where its programs are; Debian keeps them off the PATH."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    on_path = shutil.which("postgres")
    return (max(found) if found else Path(on_path)).parent if found or on_path else None


def is_here() -> bool:
    return programs() is not None


@contextmanager
def postgres() -> Iterator[str]:
    """The address of an empty database, as SQLAlchemy reads it."""
    folder = programs()
    assert folder, ABSENT
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []  # never as root
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        home = Path(name)
        if as_user:
            shutil.chown(home, "postgres")
        data = home / "data"
        made = [*as_user, str(folder / "initdb"), "-D", str(data), "-U", "ours", "--auth=trust"]
        subprocess.run([*made, "--no-sync"], check=True, capture_output=True, cwd=home)
        started = [*as_user, str(folder / "postgres"), "-D", str(data), "-k", name]
        with open(home / "log", "wb") as log:
            server = subprocess.Popen(
                [*started, "-c", "listen_addresses="], stdout=log, stderr=log, cwd=home
            )
        try:
            _until_it_answers([str(folder / "pg_isready"), "-h", name, "-q"], home / "log")
            yield f"postgresql+psycopg://ours:secret@/postgres?host={name}"
        finally:
            server.terminate()
            server.wait(timeout=START_S)


def _until_it_answers(ask: list[str], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while subprocess.run(ask, check=False).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(log.read_text()[-2000:])
        time.sleep(0.05)  # it tells nobody that it is ready
