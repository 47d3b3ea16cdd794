"""The tier without walls: a plain process with resource limits, for machines that have nothing
better. It stops accidents, not attacks: use it for your own code alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from dataclasses import asdict

from autograder.judge import Text, text

from ..engines import bubblewrap
from ..engines.gpu import Gpu
from ..engines.limits import Limits, bind_this_process
from ..engines.spawn import spawn
from ..inside.serve import serve, settle
from ..wire.channel import READY, Line
from .running import Running, how_it_ended

START_S = 120.0


class PlainProcess(Running):
    """One submission in a process of its own, in an empty directory, with an empty environment."""

    own_bytes = 2**30  # torch itself is in there

    def __init__(self, limits: Limits, gpu: Gpu | None = None) -> None:
        """Raises GraderFault when it does not start."""
        line = Line(keep_bytes=limits.output_bytes)
        super().__init__(line, limits, gpu)
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        program = bubblewrap.python(
            "from autograder.sandbox.host.process import main; main(*sys.argv[1:])",
            *line.theirs,
            json.dumps(asdict(limits)),
        )
        at_home = {"HOME": self._home.name, "TMPDIR": self._home.name}
        with line:
            self._process = spawn(
                program,
                pass_fds=line.theirs,
                stderr=line.theirs[1],
                env=bubblewrap.ENVIRONMENT | at_home | (gpu.environment() if gpu else {}),
                cwd=self._home.name,
            )
        self.pid = self._process.pid
        self.await_ready(START_S)

    def wait(self, patience_s: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.poll() is not None

    def _end(self) -> Text:
        was_alive = not self.wait(0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        status = self._process.wait()
        self._home.cleanup()
        return text("ended_by_us") if was_alive else how_it_ended(status)


def main(channel: str, output: str, notify_fd: str, limits: str) -> None:
    """The process itself: limits, then the cells."""
    from ..inside import face
    from ..inside.shell import NotebookShell
    from ..inside.zygote import fresh_start

    face.install()
    shell = NotebookShell()
    wire, ringing = settle(int(channel), int(output), int(notify_fd))
    bind_this_process(Limits(**json.loads(limits)), own_namespace=False)
    fresh_start()
    wire.sendall(READY)
    serve(wire, ringing, shell)
    os._exit(0)
