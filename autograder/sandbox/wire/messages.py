"""What the grader and a student's process say to each other: load a cell, call a function, once or
many times in a row; and how an answer that may be a forgery is read.

Each cell and each call carries a fresh nonce that its answer must repeat: an answer written in
advance answers nothing.
"""

import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autograder.judge import Cause, Malformed, Packed, Raised, Reply, Text
from autograder.judge.answer import MAX_LINES, MAX_MESSAGE
from autograder.judge.words import from_json

from .frames import Frame, TooLong, encode

MAX_NAME = 200
ERROR_FIELDS = {"kind", "error", "message", "lines", "name", "why"}
KINDS = (Cause.MISSING, Cause.BLANK, Cause.RAISED, Cause.UNSENDABLE, Cause.DEVICE)
"""What a student's process may say; how it ended is ours to find out."""
WHY = frozenset({"returned"})
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Ran:
    """How a cell ran. overran: the statements that were stopped, by number. lines: of these, the
    number and the text."""

    raised: Raised | None = None
    overran: tuple[int, ...] = ()
    lines: tuple[tuple[int, str], ...] = ()


def cell_request(
    name: str,
    source: str,
    *,
    seconds: float,
    skipped: Collection[int] = (),
    only_definitions: bool = False,
) -> Frame:
    """Runs one cell but for its `skipped` statements, in so many seconds. The source travels as
    bytes: it may be longer than a header."""
    header: dict[str, Any] = {"nonce": secrets.token_hex(8), "do": "cell", "name": name}
    header |= {
        "time_ms": int(1000 * seconds),
        "skipped": sorted(skipped),
        "only_definitions": only_definitions,
    }
    return Frame(header, (source.encode("utf-8", errors="replace"),))


def call_request(
    function: str,
    requests: Sequence[Packed],
    *,
    nonce: str = "",
    device: str = "cpu",
    cap_bytes: int = 0,
) -> Frame:
    """Calls one function with each packed (args, kwargs) in its turn, its tensors on `device`, of
    whose memory it may allocate `cap_bytes`. nonce: a fresh one for each call where none is
    given."""
    fresh = secrets.token_hex(8 * len(requests))  # asked of the kernel once
    nonces = [nonce or fresh[k : k + 16] for k in range(0, len(fresh), 16)]
    calls = [[n, r.tree, len(r.storages)] for n, r in zip(nonces, requests, strict=True)]
    header = {"do": "call", "function": function, "device": device, "cap_bytes": cap_bytes}
    return Frame(header | {"calls": calls}, tuple(blob for r in requests for blob in r.storages))


def calls_of(request: Frame) -> Iterator[tuple[str, Packed]]:
    """The calls that a request asks for: the nonce of each, and its packed (args, kwargs)."""
    blobs = iter(request.blobs)
    for nonce, tree, parts in request.header["calls"]:
        yield nonce, Packed(tree, tuple(islice(blobs, parts)))


def nonces_of(request: Frame) -> list[str]:
    """Those that the answers to a request repeat, in their order."""
    header = request.header
    return [nonce for nonce, _, _ in header["calls"]] if "calls" in header else [header["nonce"]]


def encoded(request: Frame) -> list[bytes]:
    """A request as buffers to be written one after the other: a row of calls is as many frames as
    their limits ask for. Raises TooLong where one call alone is over them."""
    try:
        return encode(request)
    except TooLong:
        calls = request.header.get("calls", ())
        if len(calls) < 2:
            raise
    half = len(calls) // 2
    parts = sum(n for _, _, n in calls[:half])
    first = Frame({**request.header, "calls": calls[:half]}, request.blobs[:parts])
    rest = Frame({**request.header, "calls": calls[half:]}, request.blobs[parts:])
    return encoded(first) + encoded(rest)


def raised_reply(raised: Raised | None, *, nonce: str) -> Frame:
    """Something was raised, or nothing (None)."""
    return Frame({"nonce": nonce, "raised": _fields(raised)})


def cell_reply(
    raised: Raised | None, overran: Sequence[tuple[int, int, str]], *, nonce: str
) -> Frame:
    """A cell ran. overran: (number, line, its text) of the statements that were stopped."""
    stopped = [[number, line, text[:MAX_NAME]] for number, line, text in overran[:MAX_LINES]]
    return Frame({"nonce": nonce, "raised": _fields(raised), "overran": stopped})


def _fields(raised: Raised | None) -> dict[str, Any] | None:
    if raised is None:
        return None
    return {
        "kind": raised.kind,
        "error": raised.error[:MAX_NAME],
        "message": raised.message[:MAX_MESSAGE],
        "lines": [[number, line[:MAX_NAME]] for number, line in raised.lines],
        "name": raised.name[:MAX_NAME],
        "why": raised.why,
    }


def reply_frame(reply: Reply, *, nonce: str) -> Frame:
    """The answer to a call: a value and the new bytes of the arguments written into."""
    if isinstance(reply.value, Raised):
        return raised_reply(reply.value, nonce=nonce)
    written = sorted(reply.written)
    header = {"nonce": nonce, "tree": reply.value.tree, "written": written}
    return Frame(header, reply.value.storages + tuple(reply.written[k] for k in written))


def read_cell_reply(frame: Frame, nonce: str) -> Ran:
    """How the cell ran. Raises Malformed for anything else."""
    _expect_keys(frame, nonce, "raised", "overran")
    overran = _some(frame.header["overran"])
    if frame.blobs or not all(isinstance(one, list) and len(one) == 3 for one in overran):
        raise Malformed("a cell answers without bytes, and a stopped statement has three parts")
    numbers = tuple(_line([number, ""])[0] for number, _, _ in overran)
    lines = tuple(_line([line, source]) for _, line, source in overran)
    return Ran(_read_raised_or_none(frame.header["raised"]), numbers, lines)


def _read_raised_or_none(fields: Any) -> Raised | None:
    return None if fields is None else read_raised(fields)


def read_call_reply(frame: Frame, nonce: str) -> Reply:
    """The Reply in a frame; its tree is checked later, by `unpack`. Raises Malformed."""
    if "raised" in frame.header:
        _expect_keys(frame, nonce, "raised")
        raised = _read_raised_or_none(frame.header["raised"])
        if raised is None or frame.blobs:
            raise Malformed("neither a value nor an error")
        return Reply(raised)
    _expect_keys(frame, nonce, "tree", "written")
    written = frame.header["written"]
    if not isinstance(written, list) or set(map(type, written)) - {int}:
        raise Malformed("arguments are named by numbers")
    own = len(frame.blobs) - len(written)
    if own < 0 or len(set(written)) != len(written):
        raise Malformed("not as many parts as arguments written into")
    changed = dict(zip(written, frame.blobs[own:], strict=True))
    return Reply(Packed(frame.header["tree"], frame.blobs[:own]), changed)


def _expect_keys(frame: Frame, nonce: str, *names: str) -> None:
    if frame.header.keys() != {"nonce", *names}:
        raise Malformed("a header with other fields than ours")
    if frame.header["nonce"] != nonce:
        raise Malformed("an answer to something that was not asked")


def read_raised(fields: Any) -> Raised:
    """The Raised in a header, its texts cut and cleaned. Raises Malformed."""
    if not isinstance(fields, dict) or set(fields) != ERROR_FIELDS:
        raise Malformed("an error with other fields than ours")
    if not isinstance(fields["kind"], str) or fields["kind"] not in KINDS:
        raise Malformed("an error of an unknown kind")
    return Raised(
        Cause(fields["kind"]),
        _text(fields, "error", MAX_NAME),
        _text(fields, "message", MAX_MESSAGE),
        tuple(_line(pair) for pair in _some(fields["lines"])),
        _text(fields, "name", MAX_NAME),
        None if fields["why"] is None else _why(fields["why"]),
    )


def _why(value: Any) -> Text:
    """A sentence of ours by its key, its facts cut and cleaned. Raises Malformed for one that
    cannot be said."""
    try:
        why = from_json(_cleaned(value, depth=4))
        str(why)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Malformed("a sentence that is none of ours") from error
    if not isinstance(why, Text) or why.key not in WHY:
        raise Malformed("a sentence that is none of ours")
    return why


def _cleaned(value: Any, *, depth: int) -> Any:
    if isinstance(value, str):
        return clean(value[:MAX_NAME])
    if type(value) is int and abs(value) < 2**63:
        return value
    if depth and isinstance(value, list) and len(value) <= MAX_LINES:
        return [_cleaned(part, depth=depth - 1) for part in value]
    if depth and isinstance(value, dict) and len(value) <= MAX_LINES:
        return {str(key): _cleaned(part, depth=depth - 1) for key, part in value.items()}
    raise Malformed("a fact that is no plain data")


def _text(fields: Mapping[str, Any], name: str, most: int) -> str:
    if not isinstance(fields[name], str):
        raise Malformed(f"{name} is a text")
    return clean(fields[name][:most])


def _some(lines: Any) -> list[Any]:
    if not isinstance(lines, list) or len(lines) > MAX_LINES:
        raise Malformed("too many lines")
    return lines


def _line(pair: Any) -> tuple[int, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise Malformed("a line is a number and a text")
    number, text = pair
    if type(number) is not int or not 0 <= number < 2**31 or not isinstance(text, str):
        raise Malformed("a line is a number and a text")
    return number, clean(text[:MAX_NAME])


def clean(text: str) -> str:
    """`text` without what moves a cursor, turns text around or has no UTF-8."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
