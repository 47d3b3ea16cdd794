"""The shipped weights, and the only code that reads or writes them.

What lives here: `grammar_gpt.safetensors`, the card that describes it, and the guard at its door.
What may not: a pickle, or any second copy of the weights.

The file carries its own sha256 in its header, taken over all its bytes with the digest's 64 places
read as zeros. So one flipped bit anywhere is noticed, and a new file replaces the old one in a
single step: at no moment do the weights and their digest disagree.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from onelayer.drawing.words import say

FILE = Path(__file__).parent / "grammar_gpt.safetensors"
BLANK = b"0" * 64
DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class WeightsError(RuntimeError):
    """The weights are missing or damaged. The message names the file and how to restore it."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(
            say(
                "{path} {fault}. Restore it with `git checkout -- onelayer/model/weights` at the "
                "top of your clone, or train it again with `python -m onelayer.model.train`.",
                path=path,
                fault=fault,
            )
        )


def load(path: Path = FILE) -> dict[str, Tensor]:
    """The tensors in `path` by name. Raises WeightsError unless every bit is as it was saved."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise WeightsError(path, say("is missing")) from None
    except OSError as error:
        raise WeightsError(
            path, say("cannot be read ({strerror})", strerror=error.strerror)
        ) from None
    if digest(data) is None:
        raise WeightsError(
            path, say("is damaged: its {n:,} bytes do not match its sha256", n=len(data))
        )
    return from_bytes(data)


def save(tensors: Mapping[str, Tensor], path: Path = FILE) -> str:
    """Write `tensors` to `path` and return their sha256. A reader sees the old file or the new."""
    blank = to_bytes(dict(tensors), metadata={"sha256": BLANK.decode()})
    sha256 = hashlib.sha256(blank).hexdigest()
    replace(path, blank.replace(BLANK, sha256.encode(), 1))
    return sha256


def digest(data: bytes) -> str | None:
    """The sha256 that `data` carries, or None if it carries none or another than its own."""
    found = DIGEST.search(data)
    if found is None:
        return None
    blank = data[: found.start(1)] + BLANK + data[found.end(1) :]
    claimed = found[1].decode()
    return claimed if hashlib.sha256(blank).hexdigest() == claimed else None


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` whole or not at all, whatever interrupts it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave a whole name on an empty file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
