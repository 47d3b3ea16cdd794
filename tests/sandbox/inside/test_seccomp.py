"""The system call filter, run instruction by instruction on both processors that it knows."""

import errno
import re
import socket
from pathlib import Path

import pytest

from autograder.sandbox.inside import seccomp
from autograder.sandbox.inside.seccomp import ALLOW, DENIED, FAIL, KILL, MACHINES

EPERM, ENOSYS = FAIL | errno.EPERM, FAIL | errno.ENOSYS


def decide(steps, number: int, audit: int, *arguments: int) -> int:
    """What the kernel would do: a classic BPF machine of five instructions."""
    data = {seccomp.NUMBER: number, seccomp.ARCHITECTURE: audit}
    data |= {seccomp.FIRST_ARGUMENT + 8 * k: 0 for k in range(3)}
    data |= {seccomp.FIRST_ARGUMENT + 8 * k: value for k, value in enumerate(arguments)}
    accumulator, at = 0, 0
    tests = {
        seccomp.JUMP_EQUAL: lambda k: accumulator == k,
        seccomp.JUMP_ABOVE: lambda k: accumulator >= k,
        seccomp.JUMP_ANY_BIT: lambda k: bool(accumulator & k),
    }
    while True:
        code, if_true, if_false, k = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return k
        if code == seccomp.LOAD:
            accumulator = data[k]
        else:
            at += if_true if tests[code](k) else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request):
    return MACHINES[request.param]


def test_every_denied_call_is_refused(machine):
    steps = seccomp.program(machine)
    numbers = [pair[machine.column] for pair in DENIED.values() if pair[machine.column] is not None]
    assert len(numbers) > 50
    assert len(set(numbers)) == len(numbers)
    assert {decide(steps, n, machine.audit) for n in numbers} == {EPERM}


def test_all_other_calls_are_allowed(machine):
    special = {machine.clone, machine.clone3, machine.socket, machine.socketpair}
    special |= {pair[machine.column] for pair in DENIED.values()}
    steps = seccomp.program(machine)
    others = [n for n in range(600) if n not in special]
    assert {decide(steps, n, machine.audit) for n in others} == {ALLOW}


def test_another_architecture_and_x32_are_killed(machine):
    steps = seccomp.program(machine)
    i386 = 0x4000_0003
    assert decide(steps, 1, i386) == KILL
    assert decide(steps, 0x4000_0000 | 1, machine.audit) == KILL
    assert decide(steps, 0xFFFF_FFFF, machine.audit) == KILL


def test_clone_makes_threads_and_processes_but_no_namespaces(machine):
    steps = seccomp.program(machine)
    thread, sigchld = 0x3D0F00, 17
    assert decide(steps, machine.clone, machine.audit, thread) == ALLOW
    assert decide(steps, machine.clone, machine.audit, sigchld) == ALLOW
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(steps, machine.clone, machine.audit, sigchld | bit) == EPERM
    assert decide(steps, machine.clone3, machine.audit) == ENOSYS


@pytest.mark.parametrize("internet", [False, True])
def test_sockets(machine, internet):
    steps = seccomp.program(machine, internet=internet)
    allowed = {int(socket.AF_UNIX)} | ({socket.AF_INET, socket.AF_INET6} if internet else set())
    for family in range(50):
        want = ALLOW if family in allowed else EPERM
        for number in (machine.socket, machine.socketpair):
            assert decide(steps, number, machine.audit, family) == want


def test_the_list_of_networks_is_read_where_ranks_talk_and_nothing_else_is(machine):
    raw, closed, datagram = int(socket.SOCK_RAW), 0o2000000, int(socket.SOCK_DGRAM)
    as_the_c_library_asks = (16, raw | closed, 0)
    ranks, others = (seccomp.program(machine, internet=internet) for internet in (True, False))
    assert decide(ranks, machine.socket, machine.audit, *as_the_c_library_asks) == ALLOW
    assert decide(others, machine.socket, machine.audit, *as_the_c_library_asks) == EPERM
    assert decide(ranks, machine.socketpair, machine.audit, *as_the_c_library_asks) == EPERM
    for kind in (raw, closed | datagram, closed):
        assert decide(ranks, machine.socket, machine.audit, 16, kind, 0) == EPERM
    for protocol in range(1, 32):  # netfilter, audit, crypto, ...
        asked = (16, raw | closed, protocol)
        assert decide(ranks, machine.socket, machine.audit, *asked) == EPERM
    for family in (1, 2, 10):  # and all that was allowed before it
        asked = (family, raw | closed, 7)
        assert decide(ranks, machine.socket, machine.audit, *asked) == ALLOW


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0),
        ("/usr/include/asm-generic/unistd.h", 1),
    ],
)
def test_the_numbers_are_the_kernels(header, column):
    if not Path(header).exists():
        pytest.skip(f"{header} is not installed")
    text = Path(header).read_text()
    theirs = {name: int(n) for name, n in re.findall(r"#define __NR_(\w+)\s+(\d+)\b", text)}
    known = {name: pair[column] for name, pair in DENIED.items() if name in theirs}
    assert len(known) > 40
    assert known == {name: theirs[name] for name in known}
