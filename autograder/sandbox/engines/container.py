"""The jail where bubblewrap is missing and podman is there: the same view of this machine, built
by a container engine, and in it the same zygote with the same walls around each of its forks.

No image is pulled: the container's root is a folder of empty places, into which the same paths are
bound, read-only, as `bubblewrap` binds. The engine's own system call filter and masks are switched
off, because they forbid the namespaces of our own; ours stand before any student's code runs.
"""

import functools
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import privileges
from .bubblewrap import ENVIRONMENT, GROUP, MERGED, PASSWD, SYSTEM, hidden
from .gpu import Gpu
from .isolation import JailSpec

CONTROL = 3
"""The descriptor under which the program finds what was handed to it: podman passes on those that
follow the first three."""
PLACES = ("usr", "etc", "proc", "dev", "sys", "tmp", "run")
_MOVE = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execvp(sys.argv[2], sys.argv[2:])"
PATIENCE_S = 30.0
MOST = 4096
"""Open files and processes of the whole container."""
_counter = itertools.count()


def fresh_name() -> str:
    return f"onelayer-{os.getpid()}-{next(_counter)}"


def make_root(folder: Path) -> None:
    """Fills `folder` with the places of a root directory, all of them empty, and the two files that
    say who is who."""
    for place in PLACES:
        (folder / place).mkdir()
    for path in MERGED:
        if os.path.islink(path):
            (folder / path[1:]).symlink_to(os.readlink(path))
        elif os.path.isdir(path):
            (folder / path[1:]).mkdir()
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "etc/group").write_text(GROUP)
    folder.chmod(0o755)
    (folder / "tmp").chmod(0o1777)  # what is mounted there gets the same


def command(spec: JailSpec, *, root: Path, name: str) -> list[str]:
    """The command that runs a program in a container called `name` over the folder `root`. What is
    handed to it, it finds as CONTROL.

    Raises FileNotFoundError where podman is not installed.
    """
    podman = shutil.which("podman")
    if podman is None:
        raise FileNotFoundError("podman is not installed")
    words = [podman, *runtime(), "run", "--rm", "--name", name, "--rootfs", "--read-only"]
    words += ["--read-only-tmpfs=false", "--pull=never", "--log-driver=none", "--init=false"]
    words += [
        f"--network={'host' if 'network' in spec.without else 'none'}",
        "--hostname=localhost",
    ]
    words += [*_rights(), *_mounts(spec.paths, spec.tmp_bytes), "--workdir=/tmp"]
    words += [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
    words += _lent(spec.gpu) if spec.gpu else []
    if spec.handed is None:
        return [*words, str(root), *spec.program]
    words += ["--preserve-fds=1", str(root), *spec.program, str(CONTROL)]
    return [sys.executable, "-I", "-S", "-c", _MOVE, str(spec.handed), *words]


def _lent(gpu: Gpu) -> Iterator[str]:
    """A container has a /sys already."""
    yield from (f"--env={name}={value}" for name, value in gpu.environment().items())
    yield from (f"--volume={path}:{path}:ro" for path in gpu.folders() if path != "/sys")
    yield from (f"--device={node}" for node in gpu.nodes())


def _rights() -> Iterator[str]:
    """No right that a jail can do without; for root, nobody's user id, as root outside is root for
    what is bound."""
    yield from ("--cap-drop=all", "--security-opt=no-new-privileges")
    for off in ("seccomp=unconfined", "apparmor=unconfined", "label=disable", "unmask=ALL"):
        yield f"--security-opt={off}"
    yield from _user()
    for word, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        _, hard = resource.getrlimit(kind)
        most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
        yield f"--ulimit={word}={most}:{most}"  # podman would raise them, and may not everywhere


def _user() -> Iterator[str]:
    """Nobody, where root starts the container. For others its root, who is themselves outside, with
    the one capability that the kernel wants of whoever maps that user into a namespace of their
    own (user_namespaces(7), since 5.12); a fork gives it up with all others."""
    if os.geteuid():
        yield from ("--user=0:0", "--cap-add=SETFCAP")
    else:
        yield f"--user={privileges.NOBODY}:{privileges.NOBODY}"


def _mounts(paths: Sequence[str], tmp_bytes: int) -> Iterator[str]:
    yield f"--tmpfs=/tmp:rw,mode=1777,size={tmp_bytes}"
    files = [path for path in SYSTEM if not path.startswith("/sys/") and os.path.exists(path)]
    for path in (*files, *paths):
        yield f"--volume={path}:{path}:ro"
    for path in MERGED:
        if os.path.isdir(path) and not os.path.islink(path):
            yield f"--volume={path}:{path}:ro"
    for path in hidden(paths):
        yield f"--tmpfs={path}:ro,size=4k"


@functools.cache
def runtime() -> tuple[str, ...]:
    """Which of the runtimes that are here starts a container at all: podman's own choice does not
    on a kernel with both versions of cgroups."""
    search = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    named = (shutil.which(name, path=search) for name in ("runc", "crun"))
    choices: list[tuple[str, ...]] = [(), *((f"--runtime={path}",) for path in named if path)]
    return next((choice for choice in choices if _starts(choice)), ())


def _starts(choice: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        make_root(Path(folder))
        words = ["podman", *choice, "run", "--rm", "--network=none", "--rootfs", "--cap-drop=all"]
        words += [word for word in _rights() if word.startswith("--ulimit")]
        words += ["--volume=/usr:/usr:ro", folder, "/usr/bin/true"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0


def remove(name: str) -> None:
    """Ends the container and waits for that; nothing where there is none."""
    words = ["podman", "rm", "--force", "--time=0", "--ignore", name]
    subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
