"""What the kernel of this machine must have for an attack to work at all, found by looking."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from pathlib import Path

from autograder.sandbox.inside import landlock

_libc = ctypes.CDLL(None, use_errno=True)


def yama_obstacle() -> str:
    """Why nobody can read a neighbour's memory here anyway, or ""."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    strict = scope.exists() and scope.read_text().strip() != "0"
    return "this kernel's Yama lets a process trace its own children only" if strict else ""


def landlock_obstacle() -> str:
    """Why there is no Landlock to be switched off, or ""."""
    return "" if landlock.version() else "this kernel has no Landlock"


def landlock_scope_obstacle() -> str:
    """Why Landlock holds no signals here, or ""."""
    return "" if landlock.version() >= 6 else "this kernel's Landlock knows nothing of signals"


def core_obstacle() -> str:
    """Why no process can leave a core file here anyway, or ""."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    return "" if most else "no process of this machine may leave a core file"


def keys_obstacle() -> str:
    """Why the kernel keeps no keys, or ""."""
    return "" if Path("/proc/keys").exists() else "this kernel keeps no keys"


def aio_obstacle() -> str:
    """Why there is no asynchronous input and output of the old kind, or ""."""
    there = Path("/proc/sys/fs/aio-max-nr").exists()
    return "" if there else "this kernel has no old asynchronous input and output"


def compiler_obstacle() -> str:
    """Why nothing can be compiled here, or ""."""
    return "" if shutil.which("g++") else "no g++ on this machine"


def call_obstacle(number: int, *arguments: int) -> str:
    """Why a system call does nothing here even outside a jail, or "". What it opens is closed."""
    if os.uname().machine != "x86_64":
        return "the call's number is known for x86-64 alone"
    opened = _libc.syscall(number, *map(ctypes.c_long, arguments))
    if opened < 0:
        return f"refused by this machine anyway: {os.strerror(ctypes.get_errno())}"
    if opened > 2:
        os.close(opened)
    return ""


def time_obstacle() -> str:
    """Why nobody can have a clock of their own here, or ""."""
    there = Path("/proc/self/ns/time").exists()
    return "" if there else "this kernel has no time namespaces"
