"""The secret from which a grading folder draws all its inputs.

Every submission is asked the same questions with inputs of its own, and nobody can know them: the
secret is made once, never leaves the grader's side, and only its hash is written down elsewhere.
"""

import hashlib
import hmac
import os
from pathlib import Path

from autograder import atomic_write

from ..errors import UserError

SECRET_BYTES = 32


def secret(folder: Path) -> bytes:
    """The folder's secret, made when there is none yet. Raises UserError for a damaged one."""
    path = folder / "seed"
    if not path.exists():
        atomic_write.write(path, os.urandom(SECRET_BYTES), mode=0o600)
    data = path.read_bytes()
    if len(data) != SECRET_BYTES:
        raise UserError(f"{path} is damaged. Remove it to grade everybody anew with fresh inputs.")
    return data


def name_of(secret: bytes) -> str:
    """the seed secret, by a hash that does not give the secret away."""
    return hashlib.sha256(b"epoch " + secret).hexdigest()


def seed(secret: bytes, lab: str, question: str, sha256: str) -> int:
    """The seed of a question's inputs for one submission: 63 bits.

    Feedback shows some of the inputs, and a failing answer can print the rest: another submission,
    by the same student or a neighbour, must meet others.
    """
    digest = hmac.new(secret, f"{lab}|{question}|{sha256}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") >> 1
