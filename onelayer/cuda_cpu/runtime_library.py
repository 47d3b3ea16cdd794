"""The runtime inside a built library, as Python sees it: its records, and the ends of a call."""

import ctypes
from typing import Any

U3 = ctypes.c_uint32 * 3


class Report(ctypes.Structure):
    """`Report` of runtime/report.h."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("launch", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("other_line", ctypes.c_int32),
        ("pc", ctypes.c_uint64),
        ("other_pc", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_int32),
        ("access", ctypes.c_int32),
        ("other_access", ctypes.c_int32),
        ("block", U3),
        ("thread", U3),
        ("other_block", U3),
        ("other_thread", U3),
        ("a", ctypes.c_int64),
        ("b", ctypes.c_int64),
        ("c", ctypes.c_int64),
        ("text", ctypes.c_char * 160),
    ]


class LaunchRecord(ctypes.Structure):
    """`LaunchRecord` of runtime/launches.h."""

    _fields_ = [
        ("name", ctypes.c_char * 64),
        ("line", ctypes.c_int32),
        ("grid", U3),
        ("block", U3),
        ("shared_bytes", ctypes.c_uint64),
        ("threads", ctypes.c_uint64),
        ("counts", ctypes.c_uint64 * 5),
    ]


class Region(ctypes.Structure):
    """`Region` of runtime/regions.h."""

    _fields_ = [
        ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64),
        ("space", ctypes.c_int32),
        ("id", ctypes.c_int32),
        ("shift", ctypes.c_int32),
        ("finest", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("freed", ctypes.c_int32),
        ("call", ctypes.c_int32),
        ("fresh", ctypes.c_int32),
        ("granules", ctypes.c_void_p),
    ]


class Runtime:
    """The exported functions of the runtime, with their types."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        sizes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        library.onelayer_argument.argtypes = [ctypes.c_void_p, *sizes]
        library.onelayer_unwritten.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        for name in ("begin", "argument", "unwritten", "end"):
            getattr(library, f"onelayer_{name}").restype = None
        library.onelayer_reports.restype = ctypes.POINTER(Report)
        library.onelayer_launches.restype = ctypes.POINTER(LaunchRecord)
        library.onelayer_regions.argtypes = [ctypes.POINTER(ctypes.POINTER(Region))]

    def begin(self) -> None:
        """Forget the last call."""
        self._library.onelayer_begin()

    def argument(self, address: int, bytes_: int, number: int, itemsize: int) -> None:
        """Let kernels touch this memory. Races are told apart in units of `itemsize`, at most 4."""
        shift = {1: 0, 2: 1}.get(itemsize, 2)
        if address % (1 << shift):
            shift = 0
        self._library.onelayer_argument(address, bytes_, number, shift)

    def unwritten(self, address: int, bytes_: int) -> None:
        """Say that nobody has written these bytes of an argument."""
        self._library.onelayer_unwritten(address, bytes_)

    def end(self) -> None:
        """Flush what the kernels printed."""
        self._library.onelayer_end()

    def reports(self) -> list[Report]:
        """Return copies of what went wrong."""
        count = self._library.onelayer_report_count()
        return [_copy(self._library.onelayer_reports()[i]) for i in range(count)]

    def launches(self) -> list[LaunchRecord]:
        """Return copies of the launches."""
        count = self._library.onelayer_launch_count()
        return [_copy(self._library.onelayer_launches()[i]) for i in range(count)]

    def regions(self) -> list[Region]:
        """Return copies of the memory that kernels may touch."""
        first = ctypes.POINTER(Region)()
        count = self._library.onelayer_regions(ctypes.byref(first))
        return [_copy(first[i]) for i in range(count)]


def _copy(record: Any) -> Any:
    return type(record).from_buffer_copy(record)
