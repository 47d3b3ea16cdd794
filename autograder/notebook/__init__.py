"""The student's face in a notebook: `check`, `hint`, `predict`, `reveal`, `progress`, `answered`.

What lives here: what a student sees, and the small file that remembers it. What may not: judging
(`autograder.judge`), the questions themselves (`autograder.checks`), and anything that a student's
install does not have, such as nbgrader.

Whatever goes wrong is one sentence on the page. Every function returns an object that a notebook
shows as a card and that a terminal prints as text.
"""

from .answers import answered
from .checking import check
from .doctor import doctor
from .hinting import hint
from .overview import progress
from .predicting import predict, reveal

__all__ = ["answered", "check", "doctor", "hint", "predict", "progress", "reveal"]
