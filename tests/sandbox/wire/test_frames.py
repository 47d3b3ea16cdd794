"""The wire: every byte that arrives may be a forgery. It is read, or it is Malformed; never a
crash, never memory for bytes that did not come."""

import contextlib
import json
import re
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.judge import (
    Malformed,
    Packed,
    Raised,
    Reply,
    Unsendable,
    pack,
    storage_of,
    unpack,
)
from autograder.sandbox.wire import frames, messages
from autograder.sandbox.wire.frames import Frame, Inbox, Room, TooLong, encode, whole


def raw(header: object, *blobs: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return frames.LENGTH.pack(len(text)) + text + b"".join(blobs)


def read(data: bytes, *, step: int = 1 << 20, max_body_bytes: int = 1 << 20) -> Frame | None:
    """The frame in `data`, delivered `step` bytes at a time; None while it is not whole. What is
    read at once is the same."""
    room = Room(body_bytes=max_body_bytes)
    try:
        inbox, taken = in_pieces(Inbox(room), data, step)
    except Malformed as malformed:
        with pytest.raises(Malformed, match=re.escape(str(malformed))):
            whole(b"before" + data, 6, room)
        raise
    found = whole(b"before" + data, 6, room)
    assert found == (None if inbox.frame is None else (inbox.frame, 6 + taken, inbox.room))
    return inbox.frame


def in_pieces(inbox: Inbox, data: bytes, step: int = 1 << 20) -> tuple[Inbox, int]:
    """The inbox with what it wanted of `data`, and how many bytes those were."""
    taken = 0
    while taken < len(data) and inbox.frame is None:
        n = min(step, len(inbox.space()), len(data) - taken)
        inbox.space()[:n] = data[taken : taken + n]
        inbox.took(n)
        taken += n
    return inbox, taken


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)
json_with_floats = st.recursive(
    plain_json | st.floats(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)


@pytest.mark.slow
@given(
    header=st.dictionaries(st.text(max_size=8).filter(lambda k: k != "sizes"), plain_json),
    blobs=st.lists(st.binary(max_size=50), max_size=5),
    step=st.integers(1, 40),
)
def test_what_is_written_is_read_however_it_is_cut(header, blobs, step):
    frame = Frame(header, tuple(blobs))
    assert read(b"".join(encode(frame)), step=step) == frame


@given(st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_malformed_or_not_yet_whole(data):
    with contextlib.suppress(Malformed):
        read(data)


@given(header=json_with_floats, tail=st.binary(max_size=40))
def test_any_json_is_a_frame_or_malformed(header, tail):
    try:
        frame = read(raw(header, tail))
    except Malformed:
        return
    assert frame is None or (isinstance(header, dict) and "sizes" in header)


@pytest.mark.slow
@given(
    data=st.data(),
    frame=st.sampled_from(
        [
            messages.cell_reply(None, [(3, 4, "go()")], nonce="n"),
            messages.cell_reply(Raised("raised", "E", "m", ((1, "x"),)), [], nonce="n"),
            messages.raised_reply(Raised("raised", "E", "m", ((1, "x"),)), nonce="n"),
            messages.reply_frame(
                Reply(pack(torch.arange(6.0).view(2, 3).T), {0: b"abcd"}), nonce="n"
            ),
        ]
    ),
)
@settings(max_examples=300)
def test_a_true_answer_with_one_part_replaced_is_read_or_malformed(data, frame):
    """No exception but Malformed, on the whole way from the bytes to the value."""
    header = dict(frame.header)
    if data.draw(st.booleans(), label="replace a field, or flip a byte"):
        header[data.draw(st.sampled_from(sorted(header)))] = data.draw(plain_json)
        stream = b"".join(encode(Frame(header, frame.blobs)))
    else:
        stream = bytearray(b"".join(encode(frame)))
        stream[data.draw(st.integers(4, len(stream) - 1))] = data.draw(st.integers(0, 255))
    for reader in (messages.read_call_reply, messages.read_cell_reply):
        try:
            got = read(bytes(stream))
            if got is not None:
                reply = reader(got, "n")
                assert isinstance(reply, (Reply, messages.Ran))
                if isinstance(reply, Reply) and isinstance(reply.value, Packed):
                    unpack(reply.value.tree, [storage_of(data) for data in reply.value.storages])
        except Malformed:
            pass


numbers = st.integers(-2, 9) | st.sampled_from([2**31, 2**62, 2**63 - 1, 2**63]) | plain_json


@pytest.mark.slow
@given(
    number=numbers,
    dtype=st.sampled_from(["float32", "bool", "complex128", "int64", "float8"]) | plain_json,
    offset=numbers,
    size=st.lists(numbers, max_size=3) | plain_json,
    stride=st.lists(numbers, max_size=3) | plain_json,
    requires_grad=st.booleans() | plain_json,
)
@settings(max_examples=500)
def test_a_forged_tensor_lies_in_its_storage_or_is_malformed(
    number, dtype, offset, size, stride, requires_grad
):
    tree = {"x": [number, dtype, offset, size, stride, requires_grad]}
    try:
        t = unpack(tree, [storage_of(b"x" * 48)], [storage_of(b"y" * 16)])
    except Malformed:
        return
    assert t.numel() * t.element_size() <= 256 * 2**20
    assert t.untyped_storage().nbytes() in (48, 16)
    t.detach().clone()  # reads every element


@pytest.mark.parametrize(
    "tree",
    [
        {"x": [0, "float32", 0, [2**62, 2**62, 0], [1, 1, 1], False]},
        {"x": [0, "float32", 0, [2**40], [0], False]},
        [{"x": [0, "bool", 0, [2**27], [0], False]}] * 3,
        "\ud800",
        {"d": [["\udfff", 1]]},
    ],
    ids=["overflow behind a zero", "4 bytes, 4 TiB", "many times 128 MiB", "surrogate", "key"],
)
def test_forgeries_that_would_hurt_later_are_malformed_at_the_door(tree):
    with pytest.raises(Malformed):
        unpack(tree, [storage_of(b"x" * 48)])


def test_what_would_be_refused_there_is_unsendable_here():
    for value in (torch.zeros(1).expand(2**40), "\ud800", [torch.zeros(1).expand(2**25)] * 3):
        with pytest.raises(Unsendable):
            pack(value)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b'{"a": 1, "a": 2, "sizes": []}', "a key twice"),
        (b'{"a": {"b": 1, "b": 2}, "sizes": []}', "a key twice, deeper"),
        (b'{"a": NaN, "sizes": []}', "NaN"),
        (b'{"a": -Infinity, "sizes": []}', "infinity"),
        (b'{"a": 1e999, "sizes": []}', "a float"),
        (b'{"a": ' + b"9" * 5000 + b', "sizes": []}', "an integer of 5,000 digits"),
        (b"[" * 100_000, "nested deeper than a parser goes"),
        (b'{"a": "\xff", "sizes": []}', "no UTF-8"),
        (b"[]", "no object"),
        (b"{}", "no sizes"),
        (b'{"sizes": [-1]}', "a negative size"),
        (b'{"sizes": [true]}', "a size that is true"),
        (b'{"sizes": [9223372036854775808]}', "2**63"),
        (b'{"sizes": [1048576, 1]}', "more together than allowed"),
        (b'{"sizes": ' + json.dumps([0] * 20_001).encode() + b"}", "too many parts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_headers_that_are_no_header(header, why):
    with pytest.raises(Malformed):
        read(raw(header))


@pytest.mark.parametrize("length", [0, 1, frames.MAX_HEADER_BYTES + 1, 2**32 - 1])
def test_a_header_of_an_impossible_length_is_refused_before_it_comes(length):
    with pytest.raises(Malformed):
        read(frames.LENGTH.pack(length))


def test_announced_bytes_take_no_memory_until_they_come():
    tracemalloc.start()
    try:
        read(raw({"sizes": [500 * 2**20]}), max_body_bytes=512 * 2**20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_what_follows_a_frame_is_left_alone():
    first = b"".join(encode(Frame({"a": 1}, (b"xyz",))))
    inbox, taken = in_pieces(Inbox(), first + b"the next frame")
    assert inbox.frame == Frame({"a": 1}, (b"xyz",))
    assert taken == len(first)


def test_a_frame_is_whole_with_its_last_byte_and_no_byte_before():
    data = b"".join(encode(Frame({"a": "bcd"}, (b"xyz", b"", b"w"))))
    assert all(read(data[:n]) is None for n in range(len(data)))
    assert read(data) == Frame({"a": "bcd"}, (b"xyz", b"", b"w"))


def test_an_inbox_is_untouched_until_something_came():
    inbox = Inbox()
    assert inbox.is_untouched
    assert not in_pieces(inbox, b"\0")[0].is_untouched


@pytest.fixture
def small(monkeypatch):
    """Limits that a test can reach."""
    for name, limit in (("MAX_HEADER_BYTES", 28), ("MAX_BLOBS", 3), ("MAX_BODY_BYTES", 10),
                        ("PIECE_BYTES", 4), ("JOINED_BYTES", 4)):  # fmt: skip
        monkeypatch.setattr(frames, name, limit)


def test_the_limits_are_those_that_are_promised():
    limits = frames.MAX_HEADER_BYTES, frames.MAX_BLOBS, frames.MAX_BODY_BYTES
    assert limits == (4 * 2**20, 20_000, 512 * 2**20)


@pytest.mark.parametrize(
    ("header", "blobs", "fits"),
    [
        ({"abcdefgh": 1}, (), True),  # with its sizes 28 bytes
        ({"abcdefghi": 1}, (), False),
        ({}, (b"12345", b"12345"), True),
        ({}, (b"12345", b"123456"), False),
        ({}, (b"",) * 3, True),
        ({}, (b"",) * 4, False),
    ],
)
def test_what_is_just_within_the_limits_goes_both_ways_and_nothing_beyond(
    small, header, blobs, fits
):
    frame, tail = Frame(header, blobs), b"".join(blobs)
    text = json.dumps({**header, "sizes": list(map(len, blobs))}, separators=(", ", ": "))
    if fits:
        assert read(b"".join(encode(frame)), max_body_bytes=10) == frame
        return
    with pytest.raises(TooLong):
        encode(frame)
    with pytest.raises(Malformed):
        read(raw(text.encode()) + tail, max_body_bytes=10)


@pytest.mark.parametrize(
    ("parts", "buffers"),
    [
        ([], []),
        ([b""], []),
        ([b"ab", b"", b"cd"], [b"abcd"]),
        ([b"ab", b"cd", b"e"], [b"abcd", b"e"]),
        ([b"abcd"], [b"abcd"]),
        ([b"abcde"], [b"abcde"]),
        ([b"a", b"bcdef", b"g"], [b"a", b"bcdef", b"g"]),
        ([b"abc", b"de", b"fg"], [b"abc", b"defg"]),
        ([b"abc", b"def", b"g"], [b"abc", b"defg"]),
        ([b"abcde", b"fghij"], [b"abcde", b"fghij"]),
    ],
    ids=str,
)
def test_small_neighbours_are_written_together(small, parts, buffers):
    assert frames.joined(parts) == buffers


def test_a_part_that_comes_in_pieces_is_whole(small):
    frame = Frame({"a": 1}, (b"123456789", b"", b"x"))
    for step in (1, 3, 100):
        assert read(b"".join(encode(frame)), step=step, max_body_bytes=10) == frame


def test_what_no_utf_8_has_is_replaced_before_it_is_sent():
    assert read(b"".join(encode(Frame({"a": "\ud800é"})))) == Frame({"a": "?é"})


def test_the_answers_of_one_question_share_its_limits():
    header = json.dumps({"sizes": [3]}).encode()
    room = Room(body_bytes=7, header_bytes=2 * len(header))
    for _ in range(2):
        inbox, _ = in_pieces(Inbox(room), raw(header, b"abc"))
        assert inbox.frame == Frame({}, (b"abc",))
        room = inbox.room
    assert room == Room(1, 0)
    with pytest.raises(Malformed, match="too long together"):
        in_pieces(Inbox(room), raw(header))
    with pytest.raises(Malformed, match="too long together"):
        whole(raw(header), 0, room)
    with pytest.raises(Malformed, match="larger than allowed"):
        in_pieces(Inbox(Room(body_bytes=2)), raw(header))


def test_one_size_below_0_is_enough():
    with pytest.raises(Malformed, match="larger than allowed"):
        read(raw({"sizes": [5, -1]}))


def test_we_write_nothing_that_we_would_not_read():
    with pytest.raises(TooLong):
        encode(Frame({"text": "x" * frames.MAX_HEADER_BYTES}))
    with pytest.raises(TooLong):
        encode(Frame({}, (b"",) * (frames.MAX_BLOBS + 1)))
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(Frame({"nan": float("nan")}))
