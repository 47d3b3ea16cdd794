"""Who was given other numbers in a lab's text, and which: one file per lab, written when the
notebooks went out.

The numbers are drawn from the folder's secret and the student's id, so whoever gives out again
gives the same. They are written down, because the notebooks are out by then: whatever becomes of
the secret or of the course, a student is asked for what the own notebook says. What a hand-in says
of its numbers is never read.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path

from autograder import atomic_write
from autograder.judge import Lab, Numbers

from ..errors import UserError

Variant = Mapping[str, Numbers]
"""The numbers of a student, by question."""


def drawn(secret: bytes, lab: Lab, student: str) -> dict[str, dict[str, int]]:
    """The numbers that are this student's, by question: never those of the public lab, whose
    solutions lie open. {} for a lab without questions that have a variant."""
    return {
        question.name: {
            number: _one(others, secret, f"{lab.name}|{question.name}|{number}|{student}")
            for number, (_, *others) in question.variant.items()
        }
        for question in lab
        if question.variant
    }


def _one(values: list[int], secret: bytes, told: str) -> int:
    digest = hmac.new(secret, f"variant|{told}".encode(), hashlib.sha256).digest()
    return values[int.from_bytes(digest[:8], "big") % len(values)]


def read(folder: Path, lab: Lab) -> dict[str, Variant]:
    """What was given out of `lab`, by student; who is left out has the public numbers. Raises
    UserError where the list is damaged, and where the lab no longer asks with such numbers."""
    path = _path(folder, lab)
    try:
        told: dict[str, Variant] = json.loads(path.read_bytes())
        for variant in told.values():
            for name, numbers in variant.items():
                if numbers not in lab.questions[name].variants:
                    raise LookupError(f"{name} with {numbers}")
    except FileNotFoundError:
        return {}
    except LookupError as error:
        raise UserError(
            f"{lab.name} was given out with {error}, which it no longer asks: "
            "use the course as it was."
        ) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}, which says who was given which numbers, is damaged. Remove it and give them "
            f"out again, which gives the same: autograder release {lab.name} --variants FILE"
        ) from error
    return told


def write(folder: Path, lab: Lab, told: Mapping[str, Variant]) -> None:
    data = json.dumps(told, ensure_ascii=False, indent=1, sort_keys=True)
    atomic_write.write(_path(folder, lab), data.encode(), mode=0o600)


def in_key(variant: Variant) -> list[str]:
    """What a record's key says of them: nothing of the public ones."""
    return [json.dumps(variant, sort_keys=True)] if variant else []


def _path(folder: Path, lab: Lab) -> Path:
    return folder / "variants" / f"{lab.name}.json"
