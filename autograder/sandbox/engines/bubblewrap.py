"""The command line of the jail: what of this machine can be seen in it, and nothing else.

Read-only: the interpreter, its packages, the system's libraries and programs, and those of our own
packages that a student's install has. Not there at all: solutions, tests, notebooks, gradebook,
home directories, the environment, the network.
"""

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import privileges
from .gpu import Gpu
from .isolation import JailSpec

SYSTEM = (
    "/usr",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/fonts",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)
MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of our own code, what the process in the jail is made of. Not the questions: what a check knows to
# be true is as good as the answer.
OURS = ("__init__.py", "judge", "sandbox")
NEEDED = ("torch", "numpy", "IPython")  # of other people's code, the same
TEACHERS = ("solutions", "tests", ".git")
PASSWD = "user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = "user:x:1000:\nnogroup:x:65534:\n"
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "user",
    "LANG": "C.UTF-8",
    "TERM": "xterm",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    # torch.compile and C++ extensions: all in the private /tmp, by one compiler at a time, and
    # without the precompiled header, which is larger than a submission may write.
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TORCH_EXTENSIONS_DIR": "/tmp/extensions",
    "TRITON_CACHE_DIR": "/tmp/triton",
    "MAX_JOBS": "1",
    # This process imported torch and has one thread: its ranks need not import it again.
    "ONELAYER_RANKS": "fork",
}


def package_root() -> Path:
    """The directory that holds the package `autograder`."""
    return Path(__file__).resolve().parents[3]


def own_code() -> list[str]:
    """Our packages that may be read in the jail."""
    face = package_root() / "autograder"
    paths = [str(face / name) for name in OURS if (face / name).exists()]
    spec = importlib.util.find_spec("onelayer")
    return paths + [
        str(Path(p).resolve()) for p in (spec and spec.submodule_search_locations) or ()
    ]


def interpreter() -> list[str]:
    """Where this Python and its packages live."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    libraries = {sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")}
    given = {p for p in prefixes | libraries if p and os.path.isdir(p)}
    return sorted(given | {os.path.realpath(p) for p in given})


def sites() -> list[str]:
    """Folders beside the interpreter's own from which this process takes the packages that the
    jail needs, such as one on PYTHONPATH. Other folders of that path stay outside."""
    specs = [importlib.util.find_spec(name) for name in NEEDED]
    found = {Path(spec.origin).resolve().parents[1] for spec in specs if spec and spec.origin}
    known = tuple(f"{path}/" for path in interpreter())
    return sorted(str(path) for path in found if not f"{path}/".startswith(known))


def hidden(paths: Sequence[str]) -> list[str]:
    """What lies below one of `paths`, or of the system's, and is not to be seen all the same: our
    other packages where this is installed among packages, solutions where the course lies there."""
    root = package_root()
    ours = [p for p in (root / "autograder").iterdir() if p.is_dir() and p.name not in OURS]
    course = [root / name for name in TEACHERS] if (root / "labs").is_dir() else []
    secret = sorted(str(p) for p in [*ours, *course] if p.is_dir() and str(p) not in paths)
    above = tuple(f"{path}/" for path in ("/usr", *paths))
    return [path for path in secret if path.startswith(above)]


def visible(readable: Iterable[str | Path] = ()) -> list[str]:
    """All paths to be bound, none inside another. Raises FileNotFoundError for a `readable` one
    that does not exist."""
    extra = [str(Path(path).resolve(strict=True)) for path in readable]
    kept: list[str] = []
    for path in sorted({*interpreter(), *sites(), *own_code(), *extra}, key=len):
        if not any(path == above or path.startswith(above + "/") for above in ("/usr", *kept)):
            kept.append(path)
    return kept


def command(spec: JailSpec, *, descriptors: tuple[int, int]) -> list[str]:
    """The command that runs a program in its jail. descriptors: to read /etc/passwd and group from.

    Raises FileNotFoundError where bubblewrap is not installed.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise FileNotFoundError("bubblewrap is not installed")
    jailed = [bwrap, *_walls(spec.without), *_system()]
    jailed += ["--size", str(spec.tmp_bytes), "--tmpfs", "/tmp"]
    for path in spec.paths:
        jailed += ["--ro-bind", path, path]
    jailed += _lent(spec.gpu) if spec.gpu else []
    for path in hidden(spec.paths):
        jailed += ["--tmpfs", path, "--remount-ro", path]
    for descriptor, path in zip(descriptors, ("/etc/passwd", "/etc/group"), strict=True):
        jailed += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    jailed += ["--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/tmp", "--", *spec.program]
    jailed += [] if spec.handed is None else [str(spec.handed)]
    lent = spec.gpu.folders() if spec.gpu else []
    return jailed if os.geteuid() else as_nobody(jailed, [*spec.paths, *lent])


def _walls(without: frozenset[str]) -> list[str]:
    words = ["--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"]
    words += ["--share-net"] if "network" in without else []
    words += ["--hostname", "localhost", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return [*words, "--proc", "/proc", "--dev", "/dev"]


def _lent(gpu: Gpu) -> list[str]:
    """No /proc/driver/nvidia: a /proc of our own has it, and with anything bound into that one the
    kernel refuses each fork a /proc of its own."""
    words: list[str] = []
    for name, value in gpu.environment().items():
        words += ["--setenv", name, value]
    for path in gpu.folders():
        words += ["--ro-bind", path, path]
    for node in gpu.nodes():
        words += ["--dev-bind", node, node]
    return words


def _system() -> list[str]:
    words: list[str] = []
    for path in SYSTEM:
        words += ["--ro-bind-try", path, path]
    for path in MERGED:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return words


def as_nobody(jailed: list[str], paths: Sequence[str]) -> list[str]:
    """The same command, for root: run by nobody, who can reach `paths`."""
    spec = {"uid": privileges.NOBODY, "readable": [*paths, jailed[0]], "command": jailed}
    return [sys.executable, "-I", "-S", privileges.__file__, json.dumps(spec)]


def python(code: str, *arguments: object) -> list[str]:
    """The command that runs `code`, with our packages importable and nothing else added."""
    places = [*sites(), str(package_root())]
    start = f"import sys; sys.path += {places!r}; "
    return [sys.executable, "-I", "-B", "-c", start + code, *map(str, arguments)]


def bare_python(code: str, *arguments: object) -> list[str]:
    """The same for code that needs nothing of ours but single modules of the sandbox: the packages
    themselves, which import torch, are not run."""
    folder = package_root() / "autograder"
    packages = {"autograder": str(folder), "autograder.sandbox": str(folder / "sandbox")}
    start = (
        f"import sys, types; packages = {packages!r}\n"
        "for name, folder in packages.items():\n"
        "    sys.modules[name] = types.ModuleType(name); sys.modules[name].__path__ = [folder]\n"
    )
    return [sys.executable, "-I", "-B", "-c", start + code, *map(str, arguments)]
