"""The frames on the wire between the grader and a student's process.

A frame is four bytes (the header's length), a JSON header, and raw bytes (the blobs) whose sizes
the header announces under "sizes". `Inbox` takes a stranger's bytes and checks every number
*before* it asks for memory; it does no input or output itself, so it can be tested with any bytes
at all.
"""

import json
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from autograder.judge import Malformed

LENGTH = struct.Struct(">I")
MAX_HEADER_BYTES = 4 * 2**20
MAX_BLOBS = 20_000
PIECE_BYTES = 2**20
JOINED_BYTES = 2**16
"""A frame up to this size is written at once: each write would wake the other side for a part."""
MAX_BODY_BYTES = 512 * 2**20  # the arguments written into, and as much again as the answer


@dataclass(frozen=True)
class Frame:
    """A header (a JSON object) and its blobs."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


class TooLong(ValueError):
    """A frame that we were about to write is over the limits."""


def encode(frame: Frame) -> list[bytes]:
    """The frame as buffers to be written one after the other. Raises TooLong over the limits."""
    sizes = list(map(len, frame.blobs))
    if len(sizes) > MAX_BLOBS or sum(sizes) > MAX_BODY_BYTES:
        raise TooLong(f"{sum(sizes):,} bytes in {len(sizes):,} parts")
    text = _ENCODER.encode({**frame.header, "sizes": sizes})
    header = text.encode("utf-8", errors="replace")  # lone surrogates have no UTF-8
    if len(header) > MAX_HEADER_BYTES:
        raise TooLong(f"a header of {len(header):,} bytes")
    return joined([LENGTH.pack(len(header)), header, *frame.blobs])


def joined(parts: Sequence[bytes]) -> list[bytes]:
    """The same bytes in fewer buffers: small neighbours are put together, none is empty."""
    found: list[bytes] = []
    small: list[bytes] = []
    size = 0
    for part in parts:
        if size + len(part) > JOINED_BYTES and small:
            found.append(b"".join(small))
            small, size = [], 0
        if part:
            small.append(part)
            size += len(part)
    return [*found, b"".join(small)] if small else found


class Room(NamedTuple):
    """How long frames may yet be: the bodies, and the headers, of all that follow together."""

    body_bytes: int = MAX_BODY_BYTES
    header_bytes: int = MAX_HEADER_BYTES


ALL_ROOM = Room()


class Inbox:
    """Reads one frame, piece by piece: fill `space()`, say how much with `took(n)`, look at
    `frame`, and at the `room` that it left.

    Never asks for more bytes than the frame has, so what follows it stays in the socket; never
    holds more memory than what came and one PIECE. `took` raises Malformed as soon as the bytes
    cannot be a frame of ours.
    """

    def __init__(self, room: Room = ALL_ROOM) -> None:
        self.room = room
        self.frame: Frame | None = None
        self.is_untouched = True
        self._reading = _one_frame(room)
        self._pieces, self._missing = list[bytes](), next(self._reading)
        self._buffer, self._filled = bytearray(self._missing), 0

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty before the frame is whole."""
        return memoryview(self._buffer)[self._filled :]

    def took(self, n: int) -> None:
        """`n` bytes of `space()` were filled."""
        self.is_untouched = False
        self._filled += n
        while self.frame is None and self._filled == len(self._buffer):
            self._pieces.append(bytes(self._buffer))
            self._missing -= len(self._buffer)
            if not self._missing:
                part, self._pieces = b"".join(self._pieces), []
                try:
                    self._missing = self._reading.send(part)
                except StopIteration as whole:
                    self.frame, self.room = whole.value
            self._buffer, self._filled = bytearray(min(self._missing, PIECE_BYTES)), 0


def _one_frame(room: Room) -> Generator[int, bytes, tuple[Frame, Room]]:
    """Asks for one part after the other by its size; the frame, and the room that it left."""
    length = _length((yield LENGTH.size), room)
    header, sizes, left = _opened((yield length), room)
    blobs = []
    for size in sizes:
        blobs.append((yield size))
    return Frame(header, tuple(blobs)), left


def whole(data: bytes, start: int, room: Room) -> tuple[Frame, int, Room] | None:
    """The frame that begins at `start`, where it ends, and the room that it left; None where not
    all of it is there. Raises Malformed as an Inbox does, and takes less time."""
    opening = start + LENGTH.size
    if len(data) < opening:
        return None
    end = opening + _length(data[start:opening], room)
    if len(data) < end:
        return None
    header, sizes, left = _opened(data[opening:end], room)
    if len(data) < end + room.body_bytes - left.body_bytes:
        return None
    blobs = []
    for size in sizes:
        blobs.append(data[end : end + size])
        end += size
    return Frame(header, tuple(blobs)), end, left


def _length(data: bytes, room: Room) -> int:
    (length,) = LENGTH.unpack(data)
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise Malformed(f"a header of {length:,} bytes")
    if length > room.header_bytes:
        raise Malformed("the answers of one question are too long together")
    return int(length)


def _opened(data: bytes, room: Room) -> tuple[dict[str, Any], list[int], Room]:
    """The header, the sizes of the blobs, and the room that the frame leaves."""
    header = parse_header(data)
    sizes = header.pop("sizes", None)
    if not isinstance(sizes, list) or len(sizes) > MAX_BLOBS:
        raise Malformed("the sizes of the parts are missing or too many")
    body_bytes, header_bytes = room
    for size in sizes:  # most frames have none
        if type(size) is not int or not 0 <= size <= body_bytes:
            raise Malformed("the parts are larger than allowed")
        body_bytes -= size
    return header, sizes, Room(body_bytes, header_bytes - len(data))


def parse_header(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`: no NaN, no floats at all, no key twice, no lone surrogates.

    Raises Malformed for anything else.
    """
    try:
        header = _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Malformed("a header that is not our JSON") from error
    if not isinstance(header, dict):
        raise Malformed("a header that is no object")
    return header


def _no_key_twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("a key twice")
    return found


def _refuse_number(text: str) -> NoReturn:
    raise Malformed(f"a number that we never write: {text[:20]}")


# Made once: json.dumps and json.loads make new ones at each call that asks for anything special.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_key_twice, parse_constant=_refuse_number, parse_float=_refuse_number
)
