"""What was handed in, whose it is, and the notebook rebuilt from it.

What lives here: files, archives, owners and quotas; nothing of a student's is run. What may not:
jails and grades. Why a hand-in cannot be graded is said in English here; `es.toml` and its like
hold what its student reads in their own language.
"""

from pathlib import Path

from autograder.judge import content_room

content_room(Path(__file__).parent)
