"""What a cell does beside defining its function costs the function nothing."""

from __future__ import annotations

import pytest

from autograder.judge import Cause, text
from autograder.sandbox import Cell, Jail, Limits
from tests.sandbox.host.test_jailed_student import told

pytestmark = pytest.mark.jail
LIMITS = Limits(wall_s=5.0, load_s=10.0)  # a second for a busy machine to stop a line in
ANSWER = "def f{k}(): return {k}\n"


@pytest.fixture(scope="module")
def jail():
    with Jail(LIMITS) as jail:
        yield jail


SLOW = {
    "sleeps": "import time\ntime.sleep(60)\n",
    "works": "while True:\n    sum(range(1000))\n",
    "swallows_errors": "while True:\n    try: sum(range(1000))\n    except Exception: pass\n",
    "starts_a_program": "!sleep 60\n",
    "shows": "%timeit -n1 -r1 __import__('time').sleep(60)\n",
}
LOST = {
    "will_not_stop": "while True:\n    try: sum(range(99))\n    except BaseException: pass\n",
    "one_long_call": "sum(range(10**12))\n",
    "leaves": "import os\nos._exit(3)\n",
}


@pytest.mark.parametrize("experiment", SLOW.values(), ids=SLOW)
def test_a_slow_line_is_stopped_and_the_cell_goes_on(jail, experiment):
    before, after = ANSWER.format(k=1), ANSWER.format(k=2)
    with jail.open([Cell("one", before + experiment + after)]) as student:
        pid = student.pid
        assert [told(student, "f1"), told(student, "f2")] == [1, 2]
        assert student.pid == pid  # no process was lost
        (cell,) = student.cells
        assert cell.error.kind is Cause.TIMED_OUT
        line = 2 + experiment.startswith("import")
        assert cell.error.lines == ((line, (before + experiment).splitlines()[line - 1]),)


@pytest.mark.parametrize("experiment", LOST.values(), ids=LOST)
def test_a_cell_that_ends_its_process_leaves_its_definitions(jail, experiment):
    cells = [
        Cell("one", ANSWER.format(k=1) + experiment + ANSWER.format(k=2)),
        Cell("two", ANSWER.format(k=3)),
    ]
    with jail.open(cells) as student:
        assert [told(student, f"f{k}") for k in (1, 2, 3)] == [1, 2, 3]
        assert [cell.error is None for cell in student.cells] == [False, True]


SPINS = "import os\nif os.fork() == 0:\n    while True: pass\n"


def test_who_leaves_something_running_again_and_again_is_waited_for_less(jail):
    """Its answers count all the same; of its last cells only definitions run, and that is told."""
    cells = [Cell(f"cell-{k}", SPINS + ANSWER.format(k=k)) for k in range(4)]
    cells += [Cell("last", "import nothing_of_that_name\ndef endless():\n    while True: pass")]
    with jail.open(cells) as student:
        assert [told(student, f"f{k}") for k in range(4)] == [0, 1, 2, 3]
        errors = [cell.error.error for cell in student.cells]
        assert errors == ["LeftRunning"] * 2 + ["NotRun"] * 3
        assert told(student, "endless").why == text("no_answer_in_time", seconds=0.2)


def test_one_cell_that_leaves_something_running_costs_the_next_nothing(jail):
    cells = [Cell("one", SPINS + ANSWER.format(k=1)), Cell("two", "n = 2\ndef f2(): return n")]
    with jail.open(cells) as student:
        assert [told(student, f"f{k}") for k in (1, 2)] == [1, 2]
        assert [cell.error is None for cell in student.cells] == [False, True]


def test_definitions_that_end_the_process_too_are_left_out(jail):
    deadly = "import os\nclass A:\n    os._exit(3)\n"
    cells = [Cell("one", ANSWER.format(k=1) + deadly), Cell("two", ANSWER.format(k=2))]
    with jail.open(cells) as student:
        assert told(student, "f1").kind is Cause.MISSING
        assert told(student, "f2") == 2


def test_four_slow_experiments_cost_no_answer(jail):
    slow = "import time\ntime.sleep(12)\n"
    cells = [Cell(f"c{k}", ANSWER.format(k=k) + slow) for k in range(4)]
    cells += [Cell(f"c{k}", ANSWER.format(k=k)) for k in range(4, 10)]
    with jail.open(cells) as student:
        assert [told(student, f"f{k}") for k in range(10)] == list(range(10))


def test_a_slow_line_is_not_waited_for_again(jail):
    """A process that is lost in a call is replaced without the slow lines."""
    cells = [Cell("one", "import os, time\ntime.sleep(60)\ndef dies(): os._exit(1)\nx = 3\n")]
    cells += [Cell("two", "def f(): return x")]
    with jail.open(cells, total_s=8.0) as student:
        assert [told(student, "dies").kind for _ in range(3)] == [Cause.DIED] * 3
        assert told(student, "f") == 3


def test_what_a_slow_line_was_to_make_is_missing(jail):
    with jail.open([Cell("one", "import time\nx = time.sleep(60)\ndef f(): return x")]) as student:
        raised = told(student, "f")
        assert (raised.error, raised.name) == ("NameError", "x")
        assert student.cells[0].error.why == text("statement_stopped", seconds=LIMITS.load_s / 2)


def test_a_cell_that_takes_its_time_is_waited_for(jail):
    cells = [Cell("one", "import time\ntime.sleep(1)\ntime.sleep(0.5)\nx = 1")]
    with jail.open([*cells, Cell("two", "def f(): return x")]) as student:
        assert told(student, "f") == 1
        assert student.cells[0].error is None


def test_the_students_own_alarms_harm_nobody(jail):
    own = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.alarm(1)\n"
    cells = [Cell("one", own + ANSWER.format(k=1)), Cell("two", ANSWER.format(k=2))]
    with jail.open(cells) as student:
        assert [told(student, "f1"), told(student, "f2")] == [1, 2]


def test_settings_of_torch_that_a_cell_leaves_behind_change_no_other_answer(jail):
    left = "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
    left += "torch.set_default_device('meta')\ntorch.set_num_threads(3)\n"
    asks = "def f():\n    x = torch.ones(2, requires_grad=True)\n"
    asks += "    return str(x.dtype), str(x.device), (2 * x).requires_grad, torch.get_num_threads()"
    with jail.open([Cell("one", left), Cell("two", asks)]) as student:
        assert told(student, "f") == ("torch.float32", "cpu", True, 1)


def test_a_package_that_is_not_there_costs_what_uses_it_and_no_more(jail):
    source = "import no_such_package as nsp\n" + ANSWER.format(k=1) + "def g(): return nsp.x\n"
    with jail.open([Cell("one", source)]) as student:
        assert told(student, "f1") == 1
        assert told(student, "g").name == "nsp"
        assert student.cells[0].error.error == "ModuleNotFoundError"


def test_an_import_that_fails_for_another_reason_stops_the_cell_as_in_a_notebook(jail):
    source = "from math import no_such_name\n" + ANSWER.format(k=1)
    with jail.open([Cell("one", source)]) as student:
        assert told(student, "f1").kind is Cause.MISSING
        assert student.cells[0].error.error == "ImportError"


@pytest.mark.parametrize("install", ["!pip install pandas", "%pip install pandas"])
def test_an_install_does_not_wait_for_a_network_that_is_not_there(jail, install):
    with jail.open([Cell("one", f"{install}\n{ANSWER.format(k=1)}")]) as student:
        assert told(student, "f1") == 1
        assert student.cells[0].error is None
        assert "No matching distribution found for pandas" in student.cells[0].output
