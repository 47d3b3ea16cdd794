"""The memory of JupyterLab and one chapter, run in it cell by cell: Binder lends two gigabytes.

    python -m bench.binder_memory [NOTEBOOK...]

Each notebook in a JupyterLab of its own. What is counted is the proportional set size (PSS) of the
server and of everything below it, sampled ten times a second: shared pages count once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import nbformat
import psutil
import urllib3
from jupyter_client.blocking.client import BlockingKernelClient

ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20
PAUSE_S = 0.1
PATIENCE_S = 600


class Peak:
    """The largest PSS of a process and all below it, while it is watched."""

    def __init__(self, pid: int) -> None:
        self.top, self.bytes, self.done = psutil.Process(pid), 0, threading.Event()

    def __enter__(self) -> Peak:
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.done.wait(PAUSE_S):
            self.bytes = max(self.bytes, self.now())

    def now(self) -> int:
        return sum(_pss(one) for one in [self.top, *self.top.children(recursive=True)])


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:  # it has ended
        return 0


@contextmanager
def jupyterlab(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A JupyterLab of its own: its process, address and token."""
    rooms = {f"JUPYTER_{room}_DIR": str(home / room) for room in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=0"]
    command += ["--allow-root", f"--ServerApp.root_dir={ROOT}"]
    with subprocess.Popen(
        command,
        env=os.environ | rooms | {"ONELAYER_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            note = _written(home / "RUNTIME")
            yield server, note["url"], note["token"]
        finally:
            server.terminate()


def _written(runtime: Path) -> dict[str, str]:
    """What the server says of itself once it listens."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for path in runtime.glob("jpserver-*.json"):
            try:
                note: dict[str, str] = json.loads(path.read_text())
            except ValueError:
                continue  # half written
            return note
        time.sleep(PAUSE_S)
    raise SystemExit("JupyterLab does not start")


def peak_bytes(notebook: Path) -> tuple[int, int]:
    """(PSS of JupyterLab alone, the peak while the notebook runs), in bytes."""
    with tempfile.TemporaryDirectory() as name, jupyterlab(Path(name)) as (server, url, token):
        with Peak(server.pid) as peak:
            _ask(url + "lab", token)
            alone = peak.now()
            session = {"path": str(notebook.relative_to(ROOT)), "type": "notebook", "name": "",
                       "kernel": {"name": "python3"}}  # fmt: skip
            kernel = json.loads(_ask(url + "api/sessions", token, session))["kernel"]["id"]
            _execute(notebook, Path(name, "RUNTIME", f"kernel-{kernel}.json"))
        return alone, peak.bytes


def _ask(address: str, token: str, body: object = None) -> bytes:
    """The answer at an address; JupyterLab notes it a moment before it listens there."""
    answer = urllib3.request(
        "GET" if body is None else "POST",
        address,
        json=body,
        headers={"Authorization": f"token {token}"},
        retries=urllib3.Retry(connect=200, backoff_factor=0.02, backoff_max=0.5),
        timeout=PATIENCE_S,
    )
    if answer.status >= 400:
        raise SystemExit(f"{address}: {answer.status}")
    return answer.data


def _execute(notebook: Path, connection: Path) -> None:
    """Every code cell in order. Ends with the first that raises."""
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine is late with its first beat
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        for cell in nbformat.reads(notebook.read_text("utf-8"), as_version=4).cells:
            if cell.cell_type == "code":
                said = client.execute_interactive(
                    cell.source, timeout=PATIENCE_S, output_hook=lambda message: None
                )
                if said["content"]["status"] != "ok":
                    raise SystemExit(f"{notebook.name}, {cell.id}: {said['content']['ename']}")
    finally:
        client.stop_channels()


@click.command()
@click.argument("notebooks", nargs=-1, type=click.Path(path_type=Path, exists=True))
def main(notebooks: Sequence[Path]) -> None:
    """Measure the chapters, or only NOTEBOOKS."""
    for path in notebooks or sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        alone, most = peak_bytes(path.resolve())
        click.echo(f"| {path.stem} | {alone / MIB:.0f} | {most / MIB:.0f} |")


if __name__ == "__main__":
    main()
