"""What a cell of lab 08 may say: torch.compile, a backend that reads its graph, an operator of its
own."""

from __future__ import annotations

from contextlib import AbstractContextManager

from autograder.judge import Rules, Student, answer_room

from . import harness

ON_GRAPHS = ("graph", "nodes", "target", "meta", "op", "name", "args", "kwargs", "forward")
ON_OPERATORS = ("register_fake", "register_kernel", "define", "impl", "_destroy")
RULES = Rules(
    given=frozenset({"words_needed"}),
    paths=frozenset({"torch.compile", "torch._dynamo.reset"}),
    attributes=frozenset(
        {*ON_GRAPHS, "register_fake", "register_kernel", "define", "impl", "_destroy"}
    ),
    registers=frozenset(
        f"torch.library.{what}" for what in ("custom_op", "Library", "register_fake")
    ),
    namespace="lab08",
)
HOST = (
    "Dynamo traces what sets the GPU as default, too, and there it asks for a `getattr` that the "
    "clean room does not have."
)


def room_for(student: Student, name: str) -> AbstractContextManager[Student]:
    """A clean room that holds the answer `name`. Raises NoAnswer, NotAdmitted."""
    return answer_room(student, harness, [name], RULES)
