"""What a cell of lab 11 may say: collectives, hooks, and what `on_ranks` returned."""

from __future__ import annotations

from contextlib import AbstractContextManager

from autograder.judge import Rules, Student, answer_room

from . import harness

COLLECTIVES = """all_gather all_gather_into_tensor all_reduce all_to_all all_to_all_single barrier
batch_isend_irecv broadcast gather irecv isend recv reduce reduce_scatter reduce_scatter_tensor
scatter send"""
OTHERS = "P2POp ReduceOp get_rank get_world_size is_initialized"
RULES = Rules(
    given=frozenset({"net_loss", "on_ranks"}),
    paths=frozenset(f"torch.distributed.{name}" for name in f"{COLLECTIVES} {OTHERS}".split()),
    attributes=frozenset({"wait", "is_completed", "register_post_accumulate_grad_hook", "SUM"}),
)


def room_for(student: Student, *names: str) -> AbstractContextManager[Student]:
    """A clean room that holds the functions `names` of an answer. Raises NoAnswer, NotAdmitted."""
    return answer_room(student, harness, names, RULES)
