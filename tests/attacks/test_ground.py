"""Attacks meet a jail or nothing: with its wall off, an attack would reach this machine itself."""

import pytest

from autograder.attacks import ground
from autograder.attacks.ground import Ground, missing
from autograder.judge import GraderFault
from autograder.sandbox import Tier


def test_no_attack_is_tried_where_there_is_no_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground, "probe", lambda: Tier("process", "There is no bwrap.", False))
    with Ground() as made:
        for walls in (ground.ALL, missing("privileges", "landlock", "seccomp")):
            with pytest.raises(GraderFault, match=r"no attack is tried.*There is no bwrap"):
                made.jail(walls)
