"""How an answer is judged: question, draw, student, compare, verdict.

What lives here: the handle to a student's functions, the inputs they are called with, the
comparison and the verdict. What may not: notebooks, jails, files, and anything about a particular
lab.
"""

from .admission import Rules
from .answer import Raised, Reply, answer, raised_by
from .ask import PUBLIC, Doubles, ask, unasked
from .clean_room import answer_room, clean_room, floor, text_of
from .compare import (
    Wrong,
    expect_close,
    expect_equal,
    expect_view,
    is_close,
    numbers_apart,
    same_memory,
)
from .device import DEVICES, Device
from .draw import LAYOUTS, Draw, some
from .flagged import Flagged, Impossible, NotAdmitted
from .kinds import expect_kind, expect_tensors, expect_tuple, within
from .question import Lab, Numbers, Question, WrongAnswer
from .race import Race, Spread
from .roofline import floor_s
from .student import (
    Call,
    GraderFault,
    KnownAnswer,
    LocalStudent,
    NoAnswer,
    Student,
    WroteInput,
    describe,
)
from .timing import TooFast, Turn, expect_no_slower
from .values import Malformed, Packed, Unsendable, pack, storage_of, unpack
from .verdict import Cause, State, Verdict
from .words import Said, Text, content, content_room, in_language, language, say, text

__all__ = [
    "DEVICES",
    "LAYOUTS",
    "PUBLIC",
    "Call",
    "Cause",
    "Device",
    "Doubles",
    "Draw",
    "Flagged",
    "GraderFault",
    "Impossible",
    "KnownAnswer",
    "Lab",
    "LocalStudent",
    "Malformed",
    "NoAnswer",
    "NotAdmitted",
    "Numbers",
    "Packed",
    "Question",
    "Race",
    "Raised",
    "Reply",
    "Rules",
    "Said",
    "Spread",
    "State",
    "Student",
    "Text",
    "TooFast",
    "Turn",
    "Unsendable",
    "Verdict",
    "Wrong",
    "WrongAnswer",
    "WroteInput",
    "answer",
    "answer_room",
    "ask",
    "clean_room",
    "content",
    "content_room",
    "describe",
    "expect_close",
    "expect_equal",
    "expect_kind",
    "expect_no_slower",
    "expect_tensors",
    "expect_tuple",
    "expect_view",
    "floor",
    "floor_s",
    "in_language",
    "is_close",
    "language",
    "numbers_apart",
    "pack",
    "raised_by",
    "same_memory",
    "say",
    "some",
    "storage_of",
    "text",
    "text_of",
    "unasked",
    "unpack",
    "within",
]
