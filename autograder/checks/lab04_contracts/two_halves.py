"""A Function in two halves: the first lists what it saves, the second gets that list alone."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from autograder.judge import Wrong, describe


def new_bytes(saved: Sequence[Tensor], arguments: Sequence[Tensor]) -> int:
    """Bytes of the distinct storages of `saved`, without those that the arguments lie in."""
    known = {t.untyped_storage().data_ptr() for t in arguments}
    new = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    return sum(nbytes for address, nbytes in new.items() if address not in known)


def expect_few_bytes(
    saved: Sequence[Tensor], arguments: Sequence[Tensor], allowed: int, why: str
) -> None:
    """At most `allowed` bytes beside the arguments; raises Wrong with what was saved, and `why`."""
    nbytes = new_bytes(saved, arguments)
    if nbytes > allowed:
        listed = "; ".join(describe(t) for t in saved)
        raise Wrong(
            expected=f"at most {allowed:,} bytes beside the arguments",
            got=f"{nbytes:,} bytes",
            where=f"in what was saved: {listed}",
            why=f"{why} (A tensor counts with its whole storage, unless an argument lies there.)",
        )
