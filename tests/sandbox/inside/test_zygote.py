"""The process that all submissions are forked from."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import threading
from autograder.sandbox.inside import zygote

threading.Thread(target=threading.Event().wait, args=[0.3]).start()
print(zygote._threads())
zygote.THREAD_S = 0.1
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(zygote._threads())
"""


@pytest.mark.slow
def test_a_thread_that_ends_is_waited_for_and_one_that_stays_is_told() -> None:
    """A fork of two threads could hang; matplotlib's, which watches a search, ends by itself."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=alone, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "2"]
