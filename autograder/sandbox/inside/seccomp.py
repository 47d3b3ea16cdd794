"""The system calls that a submission may not make, as a seccomp filter assembled by hand.

The namespaces keep a submission away from other things; the filter keeps it away from the parts of
the kernel where escapes were found before (new namespaces, mounts, bpf, io_uring, keyrings, ...).
Refused calls fail with EPERM, so an honest library takes its other path.

Sources: linux/seccomp.h, linux/bpf_common.h, linux/audit.h; numbers from asm/unistd_64.h (x86-64)
and asm-generic/unistd.h (aarch64).
"""

import ctypes
import errno
import platform
import socket
import struct
from dataclasses import dataclass
from functools import cache

from ..engines.privileges import LIBC, checked

# name: (number on x86-64, number on aarch64); None where the machine has no such call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # large kernel surfaces that no lab needs
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_setup": (206, 0),
    "io_destroy": (207, 1),
    "io_submit": (209, 2),
    "io_cancel": (210, 3),
    "io_getevents": (208, 4),
    "io_pgetevents": (333, 292),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    # the machine itself
    "sync": (162, 81),  # waits for, and costs, everybody's disk
    "syncfs": (306, 267),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "sysfs": (139, None),
    "vhangup": (153, 58),
    "personality": (135, 92),
    # memory that belongs to no process and so escapes the count
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
}
CLONE_NEW = 0x7E02_0000  # every CLONE_NEW* bit that clone(2) takes


@dataclass(frozen=True)
class Machine:
    """What differs between processors: a column of DENIED, the audit number, four calls."""

    column: int
    audit: int
    clone: int
    clone3: int
    socket: int
    socketpair: int


MACHINES = {
    "x86_64": Machine(0, 0xC000_003E, clone=56, clone3=435, socket=41, socketpair=53),
    "aarch64": Machine(1, 0xC000_00B7, clone=220, clone3=435, socket=198, socketpair=199),
}

LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# offsets in struct seccomp_data (little endian)
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 24, 32
ALLOW, KILL, FAIL = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
X32 = 0x4000_0000
NETLINK, RAW_AND_CLOSED, ROUTE = 16, 0x80003, 0  # AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
STEP = struct.Struct("=HBBI")


def program(machine: Machine, *, internet: bool = False) -> list[Instruction]:
    """The filter for `machine`. internet: whether TCP/IP sockets may be made, and the one socket by
    which the C library lists a machine's networks."""
    families = [socket.AF_UNIX, *([socket.AF_INET, socket.AF_INET6] if internet else [])]
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, machine.audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (JUMP_ABOVE, 0, 1, X32),
        (RETURN, 0, 0, KILL),
        *_refuse_denied(machine),
        *_refuse(machine.clone3, errno.ENOSYS),  # its flags lie in memory: glibc falls back
        *_clone_makes_no_namespaces(machine),
        *(_listing_of_networks(machine.socket) if internet else []),
        *_only_families(machine.socket, families),
        (LOAD, 0, 0, NUMBER),
        *_only_families(machine.socketpair, families),  # makes them before it finds no pair of them
        (RETURN, 0, 0, ALLOW),
    ]


def _refuse(number: int, error: int) -> list[Instruction]:
    return [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | error)]


def _refuse_denied(machine: Machine) -> list[Instruction]:
    numbers = [pair[machine.column] for pair in DENIED.values()]
    return [step for n in numbers if n is not None for step in _refuse(n, errno.EPERM)]


def _clone_makes_no_namespaces(machine: Machine) -> list[Instruction]:
    return [
        (JUMP_EQUAL, 0, 4, machine.clone),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_ANY_BIT, 0, 1, CLONE_NEW),
        (RETURN, 0, 0, FAIL | errno.EPERM),
        (LOAD, 0, 0, NUMBER),
    ]


def _listing_of_networks(number: int) -> list[Instruction]:
    """Allows the socket that getifaddrs(3) opens: gloo asks for the network by its name. Without a
    capability it can read what networks its own namespace has, and change nothing."""
    return [
        (JUMP_EQUAL, 0, 8, number),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_EQUAL, 0, 5, NETLINK),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        (JUMP_EQUAL, 0, 3, RAW_AND_CLOSED),
        (LOAD, 0, 0, THIRD_ARGUMENT),
        (JUMP_EQUAL, 0, 1, ROUTE),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, NUMBER),
    ]


def _only_families(number: int, families: list[socket.AddressFamily]) -> list[Instruction]:
    n = len(families)
    known = [(JUMP_EQUAL, n - k, 0, int(family)) for k, family in enumerate(families)]
    return [
        (JUMP_EQUAL, 0, n + 2, number),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        *known,
        (RETURN, 0, 0, FAIL | errno.EPERM),
        # an allowed family falls through
    ]


@cache
def assembled(*, internet: bool) -> bytes:
    """The filter for this machine as the kernel takes it (struct sock_filter)."""
    return b"".join(
        STEP.pack(*step) for step in program(MACHINES[platform.machine()], internet=internet)
    )


def install(*, internet: bool = False) -> None:
    """Filters this process and all its children, for good. Raises OSError where it cannot.

    Needs no_new_privs, and a process with one thread (a filter is set for a thread).
    """
    code = assembled(internet=internet)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // STEP.size, ctypes.addressof(buffer))
    # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    checked(LIBC.prctl(22, 2, ctypes.c_char_p(header), 0, 0), "seccomp")
