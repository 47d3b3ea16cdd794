"""A student in the jail is the student of the notebook: the same answers, the same errors."""

import errno
import os

import pytest
import torch

from autograder.judge import (
    Draw,
    GraderFault,
    Lab,
    LocalStudent,
    NoAnswer,
    Raised,
    State,
    WroteInput,
    ask,
    expect_close,
    expect_view,
)
from autograder.sandbox import Cell, Jail, Limits, probe

pytestmark = pytest.mark.jail
LIMITS = Limits(wall_s=5.0, load_s=12.0)


@pytest.fixture(scope="module")
def jail():
    with Jail(LIMITS) as jail:
        yield jail


def told(student, function, *args, may_write=False):
    """What the student's function returned, or the Raised."""
    student.begin(may_write=may_write)
    try:
        return student.call(function, *args)
    except NoAnswer as none:
        return none.raised


FUNCTIONS = Cell(
    "functions",
    """
import torch

def same(value): return value
def transposed(x): return x.T
def middle(x): return x[1:-1]
def doubled(x): return x * 2
def zeroed(x): return x.zero_()
def both(x, w=None): return [x, w, (x, {"w": w})]
def leaf(x): return x.detach().requires_grad_(True)
def shared(x):
    y = torch.arange(6.0)
    return y[1:], y.view(2, 3).T
def failing(x):
    y = x + 1
    return y @ y
def empty(x): ...
def stub(x): raise NotImplementedError("Lab 7.1: stub, about 1 line")
def lines(): return [i for i in range(3)]
def generator(x): yield x
def endless(x):
    while True: yield x
class Mine: pass
def own_class(): return Mine()
def subclass(x): return torch.nn.Buffer(x) if hasattr(torch.nn, "Buffer") else x
""",
)


def test_answers_come_back_as_from_a_notebook(jail):
    x = torch.randn(4, 5)
    with jail.open([FUNCTIONS]) as student:
        assert student.where == "bubblewrap"
        expect_view(told(student, "transposed", x), x.T)
        expect_view(told(student, "middle", x), x[1:-1])
        expect_close(told(student, "doubled", x), x * 2)
        y, z = told(student, "shared", x)
        assert y.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
        assert (y.storage_offset(), z.stride()) == (1, (1, 3))
        assert told(student, "leaf", x).requires_grad
        assert told(student, "lines") == [0, 1, 2]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**63) + 1,
        float("inf"),
        "snowman ☃ \x00 \u2028",
        (1, [2.5, {"a": slice(0, None, 2)}]),
        torch.bfloat16,
        torch.empty(0, 3),
        torch.tensor(3),
        torch.arange(12).view(3, 4)[::2, 1:].T,
        torch.ones(1).expand(7, 7),
        torch.tensor([1 + 2j]),
        torch.tensor([float("nan"), -0.0]),
    ],
    ids=str,
)
def test_values_make_the_round_trip(student_of_functions, value):
    got = told(student_of_functions, "same", value)
    if isinstance(value, torch.Tensor):
        assert (got.dtype, got.shape, got.stride()) == (value.dtype, value.shape, value.stride())
        torch.testing.assert_close(got, value, rtol=0, atol=0, equal_nan=True)
    else:
        assert got == value
        assert type(got) is type(value)


@pytest.fixture(scope="module")
def student_of_functions(jail):
    with jail.open([FUNCTIONS]) as student:
        yield student


def test_aliases_among_arguments_survive(student_of_functions):
    x = torch.randn(6)
    got = told(student_of_functions, "both", x[1:])
    assert got[1] is None
    expect_view(got[0], x[1:])
    expect_view(got[2][0], x[1:])


def test_writing_is_told_apart_by_permission(student_of_functions):
    x = torch.randn(3, 4)
    before = x.clone()
    with pytest.raises(WroteInput, match="argument"):
        told(student_of_functions, "zeroed", x.T)
    assert torch.equal(x, before)
    expect_view(told(student_of_functions, "zeroed", x, may_write=True), x)
    assert not x.any()


def test_an_error_shows_the_students_own_lines(student_of_functions):
    raised = told(student_of_functions, "failing", torch.ones(2, 3))
    assert (raised.kind, raised.error) == ("raised", "RuntimeError")
    assert raised.lines == ((15, "return y @ y"),)


@pytest.mark.parametrize(
    ("function", "arguments", "kind"),
    [
        ("absent", (), "missing"),
        ("stub", (1,), "blank"),
        ("own_class", (), "unsendable"),
        ("endless", (1,), "unsendable"),
    ],
)
def test_other_ways_not_to_answer(student_of_functions, function, arguments, kind):
    assert told(student_of_functions, function, *arguments).kind == kind


def test_what_a_generator_yields_is_an_answer(student_of_functions):
    assert told(student_of_functions, "generator", 1) == [1]


def test_the_jail_and_the_notebook_say_the_same(student_of_functions):
    """The same cell, run in this process: every outcome is alike, errors included."""
    namespace = {}
    exec(compile(FUNCTIONS.source, "<cell functions>", "exec"), namespace)
    here = LocalStudent(namespace)
    for function in ("same", "transposed", "failing", "stub", "absent", "zeroed", "empty"):
        answers = []
        for student in (here, student_of_functions):
            try:
                answers.append(told(student, function, torch.arange(6.0).view(2, 3)))
            except WroteInput as wrote:
                answers.append(str(wrote))
        a, b = answers
        if isinstance(a, torch.Tensor):
            expect_close(b, a)
        elif isinstance(a, Raised):
            assert (a.kind, a.error, a.message) == (b.kind, b.error, b.message)
        else:
            assert a == b


def test_a_cell_may_set_up_plots_and_leave(jail):
    source = "%matplotlib inline\ndef f(): return 1\nexit()"
    with jail.open([Cell("a", source)]) as student:
        assert told(student, "f") == 1


def test_a_question_is_asked_and_judged(student_of_functions):
    lab = Lab("01_trial", "Trial")

    @lab.question("doubled", points=2, minutes=1, difficulty=1, hints=("a", "b", "c"))
    def doubled(student, draw: Draw):
        """Twice x."""
        for n in draw.sizes(0, 1, 7):
            x = draw.tensor(n, 3, layout=draw.layout())
            expect_close(student.call("doubled", x), x * 2)

    verdict = ask(doubled, student_of_functions, seed=5, rounds=3)
    assert (verdict.state, verdict.points, verdict.tier) == (State.PASS, 2, "bubblewrap")


# Cells


def test_each_cell_fails_on_its_own(jail):
    cells = [
        Cell("one", "x = 1"),
        Cell("syntax", "def broken(:"),
        Cell("raises", "def g():\n    1 / 0\ng()"),
        Cell("last", "def f(): return x + 1"),
    ]
    with jail.open(cells) as student:
        one, syntax, raises, last = student.cells
        assert [c.name for c in student.cells] == ["one", "syntax", "raises", "last"]
        assert one.error is last.error is None
        assert syntax.error.error == "SyntaxError"
        assert raises.error.error == "ZeroDivisionError"
        assert raises.error.lines == ((3, "g()"), (2, "1 / 0"))
        assert told(student, "f") == 2


def test_cells_mean_what_they_mean_in_a_notebook(jail):
    cells = [
        Cell("shown", "6 * 7"),
        Cell("magic", "%timeit -n1 -r1 None\nafter_magic = True"),
        Cell("shell", "!echo shouted $((1 + 1))"),
        Cell("bash", "%%bash\necho from bash"),
        Cell("await", "import asyncio\nawait asyncio.sleep(0)\nafter_await = True"),
        Cell("unknown", "%no_such_magic"),
        Cell("file", "%%writefile mine.py\nvalue = 5"),
        Cell(
            "import", "import mine\ndef f(): return [after_magic, after_await, mine.value, Out[1]]"
        ),
        Cell("main", "assert __name__ == '__main__'"),
        Cell("plot", "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"),
        Cell("source", "import inspect\ndef h(): return inspect.getsource(h)"),
    ]
    with jail.open(cells) as student:
        outputs = {c.name: c.output for c in student.cells}
        failed = {c.name: str(c.error) for c in student.cells if c.error}
        assert failed.keys() <= {"unknown"}, failed
        assert "42" in outputs["shown"]
        assert "loop" in outputs["magic"]
        assert "shouted 2" in outputs["shell"]
        assert "from bash" in outputs["bash"]
        assert "not found" in outputs["unknown"]
        assert told(student, "f") == [True, True, 5, 42]
        assert told(student, "h").startswith("def h():")


def test_warnings_and_prints_cost_nothing(jail):
    noisy = """
import sys, warnings
def f(x):
    warnings.warn("careful")
    print("working", x)
    print("NNPACK", file=sys.stderr)
    return x
"""
    with jail.open([Cell("noisy", noisy + "print('ø', end='')")]) as student:
        assert student.cells[0].output == "ø"
        assert told(student, "f", 3) == 3


@pytest.mark.parametrize("gone", ["None", "print", "open('mine.txt', 'w')"])
def test_a_cell_that_takes_the_output_away_takes_it_from_itself_alone(jail, gone):
    taken = f"import sys\nsys.stdout = sys.stderr = {gone}\ndef f(): return 1"
    with jail.open([Cell("taken", taken), Cell("next", "def g(): return 2\nprint(3)")]) as student:
        assert student.cells[1].output == "3\n"
        assert [told(student, "f"), told(student, "g")] == [1, 2]


def test_no_cells_and_empty_cells(jail):
    with jail.open([]) as student:
        assert student.cells == ()
        assert told(student, "f").kind == "missing"
    with jail.open([Cell("", ""), Cell("\x00\ud800", "# \ud800\nx = '\u2028'")]) as student:
        assert student.cells[0].error is None


def test_forks_do_not_share_their_random_numbers(jail):
    cell = """
import random, numpy, torch
def f(): return [random.random(), numpy.random.rand(), torch.rand(()).item()]
def threads(): return torch.get_num_threads()
"""
    drawn = []
    for _ in range(2):
        with jail.open([Cell("draw", cell)]) as student:
            drawn += told(student, "f")
            assert told(student, "threads") == 1
    assert len(set(drawn)) == 6


def test_our_own_packages_are_there_and_the_rest_is_not(jail):
    cell = """
import onelayer
from autograder import judge
def f(name):
    try:
        __import__(name)
    except ImportError:
        return "absent"
    return "there"
"""
    with jail.open([Cell("imports", cell)]) as student:
        assert student.cells[0].error is None
        assert told(student, "f", "autograder.judge") == "there"
        assert told(student, "f", "autograder.classroom.run") == "absent"


def test_ranks_may_talk_among_themselves_when_allowed(tmp_path):
    cell = """
import socket
def f():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            peer, _ = server.accept()
            with peer:
                client.sendall(b"hello")
                return peer.recv(5).decode()
"""
    with Jail(Limits(loopback=True)) as jail, jail.open([Cell("talk", cell)]) as student:
        assert told(student, "f") == "hello"


RANKS = """
import os, socket, struct
import torch, onelayer
import torch.distributed as dist

def summed(n):
    def rank(x):
        x = x + dist.get_rank()
        dist.all_reduce(x)
        return x
    return list(onelayer.run_ranks(n, rank, torch.ones(3), show=False))

def parents():
    return list(onelayer.run_ranks(2, os.getppid, show=False)), os.getpid()

def down():
    # asks rtnetlink to switch the loopback off: RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK
    lo = socket.if_nametoindex("lo")
    body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, lo, 0, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as ask:
        ask.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body)
        return struct.unpack_from("=i", ask.recv(4096), 16)[0]
"""


def test_ranks_meet_over_gloo_in_a_jail_that_was_opened_for_them(jail):
    """And the socket by which they find their network changes nothing in it."""
    with jail.open([Cell("ranks", RANKS)], loopback=True) as student:
        student.begin(may_write=False, budget_s=60.0)
        for n in (2, 7):
            want = torch.full((3,), float(n + sum(range(n))))
            assert all(total.equal(want) for total in student.call("summed", n))
        parents, jailed = student.call("parents")
        assert parents == [jailed, jailed]  # forks of it: nobody imports torch again
        assert student.call("down") == -errno.EPERM
        assert student.call("summed", 2)[0].equal(torch.full((3,), 3.0))


def test_ranks_do_not_meet_where_no_question_asks_for_them(jail):
    with jail.open([Cell("ranks", RANKS)]) as student:
        student.begin(may_write=False, budget_s=60.0)
        with pytest.raises(NoAnswer, match="PermissionError"):
            student.call("summed", 2)


def test_what_is_named_readable_can_be_read_and_not_written(tmp_path):
    """Even below /tmp, where each submission has a directory of its own."""
    (tmp_path / "data.txt").write_text("given")
    tmp_path.chmod(0o755)
    cell = f"""
path = {str(tmp_path / "data.txt")!r}
def read(): return open(path).read()
def write(): return open(path, "w").write("taken")
"""
    with Jail(readable=[tmp_path]) as jail, jail.open([Cell("a", cell)]) as student:
        assert told(student, "read") == "given"
        assert told(student, "write").error in ("OSError", "PermissionError")
    assert (tmp_path / "data.txt").read_text() == "given"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read more than the jail's user")
def test_what_root_alone_can_read_is_refused_with_a_reason(tmp_path):
    tmp_path.chmod(0o700)
    with (
        pytest.raises(GraderFault, match=r"closed to others: chmod o\+rX"),
        Jail(readable=[tmp_path]),
    ):
        pass


def test_the_probe_found_the_jail():
    tier = probe()
    assert (tier.name, tier.safe) == ("bubblewrap", True)
    assert tier.reason.endswith(".")
