"""Cases that are the same for everybody."""

from __future__ import annotations

from autograder.judge import some


def test_some_of_many_cases_are_the_same_for_everybody() -> None:
    cases = list(range(1000))
    found = some(cases, 77)
    assert found == some(cases, 77)
    assert len({*found}) == 77
    assert {case // 100 for case in found} == set(range(10))  # all over them
