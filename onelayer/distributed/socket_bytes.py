"""How many bytes this process has handed to others, as the kernel counts them."""

import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator

_NOT_SENT, _SENT, _AGAIN = 144, 200, 208
"""Where `struct tcp_info` keeps tcpi_notsent_bytes (u32), tcpi_bytes_sent and tcpi_bytes_retrans
(u64): the struct only ever grows at its end (include/uapi/linux/tcp.h, since Linux 4.19)."""
_LENGTH = _AGAIN + 8


def written_bytes() -> int | None:
    """What has been written to every open TCP connection of this process since it began.

    Headers of the library that writes count, those of TCP and IP do not. A connection that is
    closed takes its bytes along. None where the kernel does not say: elsewhere than on Linux.
    """
    if not sys.platform.startswith("linux"):
        return None
    counts = [_written(connection) for connection in _connections()]
    return None if None in counts else sum(count or 0 for count in counts)


def _connections() -> Iterator[socket.socket]:
    """A copy of every TCP socket of this process, closed behind the reader."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed since, or no TCP
            if not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(number))) as copy:
                internet = copy.family in (socket.AF_INET, socket.AF_INET6)
                if internet and copy.type == socket.SOCK_STREAM:
                    yield copy


def _written(connection: socket.socket) -> int | None:
    """Bytes sent, each once, and those that wait for their turn; None where the kernel is older."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
    if len(info) < _LENGTH:
        return None
    (waiting,) = struct.unpack_from("=I", info, _NOT_SENT)
    sent, again = struct.unpack_from("=QQ", info, _SENT)
    return int(sent - again + waiting)  # a busy machine sends twice what it thinks was lost
