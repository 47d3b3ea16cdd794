"""What a test sees of the processes below it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.processes import children_with


def test_a_child_that_has_ended_is_none_though_nobody_waited_for_it():
    """As an earlier test may leave one: it has no command line to ask for."""
    begin = [sys.executable, "-c", "import time; time.sleep(60)", "of the test of children"]
    lives, over = [subprocess.Popen(begin) for _ in range(2)]
    over.kill()
    os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
    assert [child.pid for child in children_with("of the test of children")] == [lives.pid]
    for one in (lives, over):
        one.kill()
        one.wait()
