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
from typing import Any, NoReturn, Self

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


class Inbox:
    """Reads one frame, piece by piece: fill `space()`, say how much with `took(n)`, look at
    `frame`.

    Never asks for more bytes than the frame has, so what follows it stays in the socket; never
    holds more memory than what came and one PIECE. `took` raises Malformed as soon as the bytes
    cannot be a frame of ours.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_header_bytes: int = MAX_HEADER_BYTES
    ) -> None:
        self.max_body_bytes, self.max_header_bytes = max_body_bytes, max_header_bytes
        self.frame: Frame | None = None
        self._reading = _one_frame(max_body_bytes, max_header_bytes)
        self._pieces, self._missing = list[bytes](), next(self._reading)
        self._buffer, self._filled = bytearray(self._missing), 0

    def for_the_next(self) -> Self:
        """After a whole frame: an inbox for another, which may have what that one left."""
        return type(self)(
            max_body_bytes=self.max_body_bytes, max_header_bytes=self.max_header_bytes
        )

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty before the frame is whole."""
        return memoryview(self._buffer)[self._filled :]

    def took(self, n: int) -> None:
        """`n` bytes of `space()` were filled."""
        self._filled += n
        while self.frame is None and self._filled == len(self._buffer):
            self._pieces.append(bytes(self._buffer))
            self._missing -= len(self._buffer)
            if not self._missing:
                part, self._pieces = b"".join(self._pieces), []
                try:
                    self._missing = self._reading.send(part)
                except StopIteration as whole:
                    self.frame, self.max_body_bytes, self.max_header_bytes = whole.value
            self._buffer, self._filled = bytearray(min(self._missing, PIECE_BYTES)), 0


def _one_frame(
    max_body_bytes: int, max_header_bytes: int
) -> Generator[int, bytes, tuple[Frame, int, int]]:
    """Asks for one part after the other by its size; the frame, and what it left of both limits."""
    (length,) = LENGTH.unpack((yield LENGTH.size))
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise Malformed(f"a header of {length:,} bytes")
    if length > max_header_bytes:
        raise Malformed("the answers of one question are too long together")
    header = parse_header((yield length))
    sizes = header.pop("sizes", None)
    if not isinstance(sizes, list) or len(sizes) > MAX_BLOBS:
        raise Malformed("the sizes of the parts are missing or too many")
    only_numbers = set(map(type, sizes)) <= {int}
    if not only_numbers or min(sizes, default=0) < 0 or sum(sizes) > max_body_bytes:
        raise Malformed("the parts are larger than allowed")
    blobs = []
    for size in sizes:
        blobs.append((yield size))
    left = max_body_bytes - sum(sizes), max_header_bytes - length
    return Frame(header, tuple(blobs)), *left


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
