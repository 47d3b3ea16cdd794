"""What the two processes say to each other, field by field: what is asked arrives as it was asked,
and an answer is read as it was meant or it is Malformed."""

from __future__ import annotations

import json
from itertools import chain

import pytest
import torch

from autograder.judge import Cause, Malformed, Packed, Raised, Reply, pack, text
from autograder.sandbox.wire import frames, messages
from autograder.sandbox.wire.frames import Frame, Room, TooLong, encode, whole

FIELDS = {"kind": "raised", "error": "E", "message": "m", "lines": [[1, "x"]]}
FIELDS |= {"name": "n", "why": None}


def crossed(frame: Frame) -> Frame:
    """As it comes out at the other end."""
    return Frame(json.loads(json.dumps(frame.header)), frame.blobs)


def test_a_cell_is_asked_for_with_all_that_it_needs():
    frame = messages.cell_request("head", "y = 'é\ud800'", seconds=1.2345, skipped={7, 2})
    nonce = frame.header.pop("nonce")
    assert len(nonce) == 16
    assert frame.header == {
        "do": "cell",
        "name": "head",
        "time_ms": 1234,
        "skipped": [2, 7],
        "only_definitions": False,
    }
    assert frame.blobs == ("y = 'é?'".encode(),)
    again = messages.cell_request("head", "", seconds=1, only_definitions=True).header
    assert again["nonce"] != nonce
    assert again["only_definitions"] is True
    assert again["skipped"] == []


def test_a_call_is_asked_for_with_all_that_it_needs():
    packed = pack(((torch.arange(3.0),), {}))
    plain = pack(((1,), {}))
    frame = messages.call_request("f", [packed, plain])
    nonces = messages.nonces_of(frame)
    assert list(map(len, nonces)) == [16, 16]
    again = messages.nonces_of(messages.call_request("f", [packed, plain]))
    assert len({*nonces, *again}) == 4
    calls = [[nonces[0], packed.tree, 1], [nonces[1], plain.tree, 0]]
    header = {"do": "call", "function": "f", "calls": calls, "device": "cpu", "cap_bytes": 0}
    assert frame == Frame(header, packed.storages)
    ours = messages.call_request("f", [packed], nonce="n", device="cuda", cap_bytes=9)
    calls = [["n", packed.tree, 1]]
    assert ours.header == {**header, "calls": calls, "device": "cuda", "cap_bytes": 9}


def row_of(n):
    """A row of n calls: each with as many storages as the one before and one more."""
    return [pack((tuple(torch.full((2,), 10.0 * k + j) for j in range(k)), {})) for k in range(n)]


def read_rows(data):
    """The rows of calls in bytes that were written for them."""
    rows, end = [], 0
    while end < len(data):
        frame, end, _ = whole(data, end, Room())
        rows.append([*messages.calls_of(frame)])
    return rows


def test_a_row_of_calls_crosses_call_by_call():
    row = row_of(4)
    request = messages.call_request("f", row)
    (calls,) = read_rows(b"".join(messages.encoded(request)))
    assert calls == [*zip(messages.nonces_of(request), row, strict=True)]


@pytest.mark.parametrize("limit", ["MAX_HEADER_BYTES", "MAX_BLOBS", "MAX_BODY_BYTES"])
def test_a_row_over_a_limit_is_more_frames_and_no_less_calls(limit, monkeypatch):
    row = row_of(5)
    request = messages.call_request("f", row)
    room = {"MAX_HEADER_BYTES": 600, "MAX_BLOBS": 4, "MAX_BODY_BYTES": 4 * 8}[limit]
    monkeypatch.setattr(frames, limit, room)
    rows = read_rows(b"".join(messages.encoded(request)))
    assert len(rows) > 1
    assert [*chain(*rows)] == [*zip(messages.nonces_of(request), row, strict=True)]


def test_a_single_call_over_a_limit_is_not_sent(monkeypatch):
    monkeypatch.setattr(frames, "MAX_BLOBS", 3)
    with pytest.raises(TooLong):
        messages.encoded(messages.call_request("f", row_of(5)))
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 3)
    with pytest.raises(TooLong):
        messages.encoded(messages.cell_request("x", "yyyy", seconds=1))


def test_a_cell_has_one_nonce_and_is_one_frame():
    request = messages.cell_request("head", "y = 1", seconds=1)
    assert messages.nonces_of(request) == [request.header["nonce"]]
    assert messages.encoded(request) == encode(request)


def test_an_error_crosses():
    raised = Raised(Cause.RAISED, "E", "m", ((1, "x"), (2, "y")), "n")
    frame = crossed(messages.raised_reply(raised, nonce="n"))
    assert messages.read_call_reply(frame, "n") == Reply(raised)
    reply = crossed(messages.reply_frame(Reply(raised), nonce="n"))
    assert messages.read_call_reply(reply, "n") == Reply(raised)


def test_texts_leave_cut_too():
    long = Raised(Cause.RAISED, "E" * 999, "m" * 9999, ((1, "x" * 999),), "n" * 999)
    fields = messages.raised_reply(long, nonce="n").header["raised"]
    assert fields == {
        "kind": "raised",
        "error": "E" * messages.MAX_NAME,
        "message": "m" * messages.MAX_MESSAGE,
        "lines": [[1, "x" * messages.MAX_NAME]],
        "name": "n" * messages.MAX_NAME,
        "why": None,
    }


def test_the_lines_of_a_cell_leave_and_arrive_cut():
    frame = messages.cell_reply(None, [(0, 7, "x" * 999)], nonce="n")
    assert frame.header["overran"] == [[0, 7, "x" * messages.MAX_NAME]]
    raised = messages.read_raised({**FIELDS, "lines": [[1, "x" * 999]]})
    assert raised.lines == ((1, "x" * messages.MAX_NAME),)


@pytest.mark.parametrize("change", [{"nonce": "another"}, {"extra": 1}], ids=str)
def test_an_error_in_answer_to_another_question_is_none(change):
    frame = messages.raised_reply(Raised(Cause.RAISED, "E"), nonce="n")
    with pytest.raises(Malformed):
        messages.read_call_reply(Frame({**frame.header, **change}), "n")


def test_an_argument_is_written_into_once():
    header = {"nonce": "n", "tree": 1, "written": [0, 0]}
    with pytest.raises(Malformed, match="as many parts"):
        messages.read_call_reply(Frame(header, (b"a", b"b")), "n")


def test_a_value_crosses_with_what_was_written_into():
    value = pack(torch.arange(6.0))
    frame = messages.reply_frame(Reply(value, {3: b"three", 1: b"one"}), nonce="n")
    assert frame.header == {"nonce": "n", "tree": value.tree, "written": [1, 3]}
    assert frame.blobs == (*value.storages, b"one", b"three")
    read = messages.read_call_reply(crossed(frame), "n")
    assert read.written == {1: b"one", 3: b"three"}
    assert read.value.storages == value.storages
    assert read.value.tree == json.loads(json.dumps(value.tree))


def test_nothing_raised_is_how_a_cell_ends_and_no_answer_to_a_call():
    assert messages.read_cell_reply(messages.cell_reply(None, [], nonce="n"), "n") == messages.Ran()
    with pytest.raises(Malformed, match="neither a value nor an error"):
        messages.read_call_reply(messages.raised_reply(None, nonce="n"), "n")
    with pytest.raises(Malformed, match="neither a value nor an error"):
        messages.read_call_reply(Frame({"nonce": "n", "raised": FIELDS}, (b"",)), "n")


def test_of_the_statements_that_were_stopped_the_first_are_told():
    stopped = [(k, 10 + k, "go()") for k in range(messages.MAX_LINES + 2)]
    ran = messages.read_cell_reply(crossed(messages.cell_reply(None, stopped, nonce="n")), "n")
    assert ran.overran == tuple(range(messages.MAX_LINES))
    assert ran.lines == tuple((10 + k, "go()") for k in range(messages.MAX_LINES))


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"raised": {}},
        {"extra": 1},
        {"overran": None},
        {"overran": [[1, 2]]},
        {"overran": [[1, 2, "x", 4]]},
        {"overran": [(1, 2, "x")]},
        {"overran": [[-1, 2, "x"]]},
        {"overran": [[1, -2, "x"]]},
        {"overran": [[1, 2, 3]]},
        {"overran": [[True, 2, "x"]]},
        {"overran": [[1, 2**31, "x"]]},
        {"overran": [[1, 2, "x"]] * (messages.MAX_LINES + 1)},
    ],
    ids=str,
)
def test_how_a_cell_ran_is_checked_field_by_field(change):
    frame = messages.cell_reply(None, [(0, 2**31 - 1, "x")] * messages.MAX_LINES, nonce="n")
    assert len(messages.read_cell_reply(frame, "n").lines) == messages.MAX_LINES
    with pytest.raises(Malformed):
        messages.read_cell_reply(Frame({**frame.header, **change}), "n")


def test_a_cell_answers_without_bytes():
    frame = messages.cell_reply(None, [], nonce="n")
    with pytest.raises(Malformed, match="without bytes"):
        messages.read_cell_reply(Frame(frame.header, (b"",)), "n")


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "another"},
        {"extra": 1},
        {"written": [0, 0]},
        {"written": [True]},
        {"written": [0, 1, 2]},
        {"written": None},
    ],
    ids=str,
)
def test_an_answer_to_another_question_is_no_answer(change):
    frame = messages.reply_frame(Reply(Packed(1), {0: b"a"}), nonce="n")
    assert messages.read_call_reply(frame, "n").written == {0: b"a"}
    with pytest.raises(Malformed):
        messages.read_call_reply(Frame({**frame.header, **change}, frame.blobs), "n")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "died"},
        {"kind": []},
        {"error": 1},
        {"message": None},
        {"lines": [[1, "x"]] * 7},
        {"lines": [[-1, "x"]]},
        {"lines": [["1", "x"]]},
        {"lines": [[1]]},
        {"verdict": "pass"},
        {"name": 3},
        {"why": "a sentence of its own"},
        {"why": ["not_answered", {"title": "Lab 1.1"}]},
        {"why": ["returned", {}]},
        {"why": ["returned", {"what": 1.5}]},
        {"why": ["returned", {"what": ["unsendable.long", {"characters": "x"}]}]},
        {"why": ["no such key", {}]},
        {"why": ["returned", {"what": [[[[[["deep"]]]]]]}]},
    ],
    ids=str,
)
def test_an_error_is_checked_field_by_field(change):
    """`died` and `timeout` are ours to say, not the student's process's."""
    assert messages.read_raised(FIELDS) == Raised("raised", "E", "m", ((1, "x"),), "n")
    with pytest.raises(Malformed):
        messages.read_raised({**FIELDS, **change})


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_an_error_without_a_field_is_none(field):
    with pytest.raises(Malformed, match="other fields"):
        messages.read_raised({name: value for name, value in FIELDS.items() if name != field})


def test_what_a_process_may_say_of_its_end():
    for kind in messages.KINDS:
        assert messages.read_raised({**FIELDS, "kind": kind.value}).kind is kind
    most = {**FIELDS, "lines": [[0, "x"], [2**31 - 1, "y"]] * (messages.MAX_LINES // 2)}
    assert len(messages.read_raised(most).lines) == messages.MAX_LINES


def test_a_sentence_of_ours_crosses_as_its_key_and_its_facts():
    why = text("returned", what=text("unsendable.kind", kind="set"))
    raised = Raised(Cause.UNSENDABLE, "TypeError", why=why)
    frame = messages.cell_reply(raised, [(0, 7, "x" * 999)], nonce="n")
    ran = messages.Ran(raised, (0,), ((7, "x" * messages.MAX_NAME),))
    assert messages.read_cell_reply(crossed(frame), "n") == ran


def test_texts_come_cut_and_cannot_move_a_cursor():
    fields = {"kind": "raised", "error": "E" * 9999, "message": "\x1b[2J\u202e\ud800a\r\nb\n"}
    raised = messages.read_raised({**fields, "lines": [], "name": "", "why": None})
    assert len(raised.error) == messages.MAX_NAME
    assert raised.message == "\ufffd[2J\ufffd\ufffda\nb\n"
    raised.message.encode()


def said(what: object) -> str:
    """The fact in a sentence of ours, as it arrives."""
    why = messages.read_raised({**FIELDS, "why": ["returned", {"what": what}]}).why
    assert why is not None
    return str(why)


def test_facts_come_cut_clean_and_plain():
    assert said("x" * 999) == said("x" * messages.MAX_NAME) != said("x" * (messages.MAX_NAME - 1))
    assert "\x1b" not in said("\x1b[2J")
    assert str(2**63 - 1) in said(2**63 - 1)
    assert str(1 - 2**63) in said(1 - 2**63)
    for strange in (2**63, -(2**63), True, 1.0, None):
        with pytest.raises(Malformed):
            said(strange)


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else "x"


def test_facts_are_small():
    most = messages.MAX_LINES
    said(nested(2))
    with pytest.raises(Malformed):
        said(nested(3))
    said({"a": {"b": "x"}})
    with pytest.raises(Malformed):
        said({"a": {"b": {"c": "x"}}})
    said(["x"] * most)
    with pytest.raises(Malformed):
        said(["x"] * (most + 1))
    said(dict.fromkeys(map(str, range(most)), "x"))
    with pytest.raises(Malformed):
        said(dict.fromkeys(map(str, range(most + 1)), "x"))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\rc\n\td", "a\nb\nc\n\td"),
        ("\x00\x08\x0b\x1f\x7f\x9f", "\ufffd" * 6),
        ("\ud800\udfff\u2028\u202e\u2066\u2069", "\ufffd" * 6),
        ("\xa0\u2027\u202f\u2065\u206a\ue000 ~", "\xa0\u2027\u202f\u2065\u206a\ue000 ~"),
    ],
)
def test_what_moves_a_cursor_is_replaced(text, cleaned):
    assert messages.clean(text) == cleaned
