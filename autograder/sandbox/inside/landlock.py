"""A second wall around files, where the kernel has Landlock: whatever a mount left open by mistake,
a submission writes in its own places alone.

An optional layer, found by asking the kernel. Reading and executing are left to the mounts; what is
taken away here is writing, and (from version 6 on) signals and abstract sockets to anybody outside
the submission.

Source: linux/landlock.h; the numbers are the same on every processor.
"""

import ctypes
import os
import struct

from ..engines.privileges import LIBC, checked

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG, PATH_BENEATH = 1, 1
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
REMOVE = 1 << 4 | 1 << 5  # directories, files
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # directory, file, socket, fifo, link
ABSTRACT_SOCKETS, SIGNALS = 1 << 0, 1 << 1
OWN, DEVICES = ("/tmp", "/dev/shm"), ("/dev",)
GPU, NAMES = "/dev/nvidiactl", "/proc"
"""CUDA ends with error 304 where it cannot name its threads, in /proc/self/task/*/comm. That of
a submission is its own and shows nobody else. The rule is for its root, whose inode stays."""


def version() -> int:
    """Which Landlock this kernel has; 0 where it has none, or a container's filter hides it."""
    return max(0, int(LIBC.syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def rights(version: int) -> int:
    """Every way to write that this version of Landlock can take away."""
    handled = WRITE_FILE | REMOVE | MAKE | MAKE_CHAR | MAKE_BLOCK
    return handled | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)


def install() -> None:
    """This process and its children write below OWN, into what lies in DEVICES, and nowhere else;
    where they are lent a GPU, their threads' names too.

    Does nothing where there is no Landlock. Needs no_new_privs. Raises OSError.
    """
    found = version()
    if not found:
        return
    ruleset = _ruleset(found)
    try:
        for place in OWN:
            _allow(ruleset, place, rights(found) & ~(MAKE_CHAR | MAKE_BLOCK))
        for place in DEVICES:
            _allow(ruleset, place, rights(found) & (WRITE_FILE | TRUNCATE))
        if os.path.exists(GPU):
            _allow(ruleset, NAMES, rights(found) & (WRITE_FILE | TRUNCATE))
        checked(LIBC.syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _ruleset(version: int) -> int:
    """A descriptor of an empty ruleset: all that it handles is refused until a rule allows it."""
    scoped = ABSTRACT_SOCKETS | SIGNALS if version >= 6 else 0
    fields = (rights(version), 0, scoped)[: 1 if version < 4 else 2 if version < 6 else 3]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    made = LIBC.syscall(CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0)
    return checked(made, "landlock_create_ruleset")


def _allow(ruleset: int, place: str, allowed: int) -> None:
    directory = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", allowed, directory)
        added = LIBC.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.c_char_p(rule), 0)
        checked(added, f"landlock_add_rule {place}")
    finally:
        os.close(directory)
