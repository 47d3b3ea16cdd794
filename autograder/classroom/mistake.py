"""What the person at the keyboard can put right: one line, and no traceback."""

from __future__ import annotations


class Mistake(Exception):
    """The command cannot go on, and its message says what is missing and what to do about it."""
