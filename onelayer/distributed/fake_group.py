"""A process group of which this process is the only member that exists."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch.distributed as dist

from onelayer.drawing.words import say


@contextlib.contextmanager
def fake_group(ranks: int, *, rank: int = 0) -> Iterator[None]:
    """Makes this process `rank` of `ranks`, and nobody the others, while it lasts.

        with onelayer.fake_group(64), onelayer.record_collectives() as log:
            fully_shard(model)
            model(x).sum().backward()

    It is torch's own `fake` backend: every collective returns at once and moves nothing, so
    shapes, calls and bytes are those of a real group, and values are not. DDP's reducer expects a
    result in the future of its all-reduce, which a fake one lacks: give it a communication hook.

    Raises ValueError for a rank that is none of them; RuntimeError inside another group.
    """
    if not 0 <= rank < ranks:
        raise ValueError(
            say(
                "rank {rank} of {n}: ranks are numbered from 0 to {last}.",
                rank=rank,
                n=ranks,
                last=ranks - 1,
            )
        )
    if dist.is_initialized():
        raise RuntimeError(
            say("This process is in a group already: leave it before you fake another.")
        )
    from torch.testing._internal.distributed import fake_pg  # registers the backend

    del fake_pg
    with tempfile.TemporaryDirectory(prefix="fake-") as folder:
        store = (Path(folder) / "store").as_uri()
        dist.init_process_group("fake", init_method=store, rank=rank, world_size=ranks)
        try:
            yield
        finally:
            dist.destroy_process_group()
