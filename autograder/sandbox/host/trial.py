"""Whether this machine can build the walls, found by building all of them once, without torch.

The grader's side starts this in the same jail as the zygote; it makes one fork with the same steps
as a submission's. A tenth of a second.
"""

import json
import os
import subprocess
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from ..engines import bubblewrap
from ..engines.choice import Jailed
from ..engines.isolation import JailSpec
from ..engines.limits import Limits
from ..inside import forking

PATIENCE_S = 60.0
PROGRAM = "from autograder.sandbox.host.trial import main; main(sys.argv[1])"


def failure(limits: Limits, *, start: Callable[[JailSpec], Jailed], program: str = PROGRAM) -> str:
    """Why the walls do not stand, in the jail's own words; "" where they do.

    start: one of `choice.ENGINES`. program: what is tried there.
    """
    paths = bubblewrap.visible()
    order = json.dumps({"limits": asdict(limits), "paths": paths, "without": []})
    try:
        command = bubblewrap.bare_python(program, order)
        jailed = start(JailSpec(command, paths=paths, tmp_bytes=limits.tmp_bytes))
    except OSError as error:
        return f"the jail cannot be started: {error}"
    try:
        status = jailed.process.wait(PATIENCE_S)
        said = jailed.last_words() or f"it ended with {status}"
        return "" if status == 0 else f"the jail did not start: {said}"
    except subprocess.TimeoutExpired:
        return f"the jail did not start within {PATIENCE_S:g} seconds"
    finally:
        jailed.end()


def main(order: str) -> NoReturn:
    """In the jail: one fork behind all walls. Ends with 0 where they stand."""
    told = json.loads(order)
    status = 1
    try:
        pid = forking.fork(lambda: _behind_walls(told), frozenset())
        _, ended = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(ended)
    except OSError as error:
        os.write(2, str(error).encode())
    os._exit(0 if status == 0 else 1)


def _behind_walls(order: dict[str, Any]) -> NoReturn:
    try:
        forking.build_walls(order)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
