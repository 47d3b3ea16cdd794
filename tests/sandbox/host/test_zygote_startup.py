"""A jail that begins before its owner has imported torch."""

import subprocess
import sys

import pytest

from autograder.sandbox import BUBBLEWRAP, Cell, Jail, Limits
from autograder.sandbox.engines.choice import ENGINES
from autograder.sandbox.host import zygote_startup

pytestmark = pytest.mark.jail

WITHOUT_TORCH = """
from autograder.sandbox import begin_usual
import sys
tier, zygote = begin_usual()
assert "torch" not in sys.modules, "whoever imports torch first waits for it twice"
from autograder.sandbox import Jail
assert "torch" in sys.modules
with Jail(tier=tier, begun=zygote) as jail:
    assert jail.pid == zygote.jailed.process.pid
assert zygote.jailed.process.poll() is not None
print(tier.name)
"""


def test_it_begins_without_torch_and_the_jail_that_takes_it_ends_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ENGINES


def test_a_jail_whose_begun_zygote_has_died_starts_another() -> None:
    zygote = zygote_startup.begin("bubblewrap", Limits())
    with Jail(begun=zygote) as jail:
        zygote.jailed.process.kill()
        zygote.jailed.process.wait()
        with jail.open([Cell("a", "f = lambda: 5")]) as student:
            assert student.call("f") == 5
        assert jail.pid != zygote.jailed.process.pid


def test_a_student_collects_garbage_though_nobody_did_while_torch_was_imported() -> None:
    """A student's fork that never did would run out of memory over cycles that nobody holds."""
    source = "import gc\nf = lambda: [gc.isenabled(), gc.get_freeze_count() > 100_000]"
    with Jail() as jail, jail.open([Cell("a", source)]) as student:
        assert student.call("f") == [True, True]


def test_what_cannot_be_started_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> object:
        raise OSError("no more processes")

    monkeypatch.setitem(ENGINES, "bubblewrap", refuse)
    monkeypatch.setattr(zygote_startup, "probe", lambda: BUBBLEWRAP)
    assert zygote_startup.begin_usual() == (BUBBLEWRAP, None)
