"""What a person does to break it: indices out of range, forks, threads, kills."""

import pytest

from onelayer.mock_cuda.run import MockFailed
from tests.onelayer.mock_cuda import programs

ASSERT = "device-side assert triggered"


def test_an_index_out_of_range_is_told_at_the_next_synchronisation(facts):
    found = facts["out_of_range"]
    assert found["launch"] == ""
    assert ASSERT in found["synchronize"]
    assert ASSERT in found["after"]


def test_launch_blocking_moves_it_to_the_launch(mocked, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    facts = mocked(programs.out_of_range, values=True, trace=False).result
    assert ASSERT in facts["launch"]


def test_a_function_that_is_not_mocked_names_itself(facts):
    assert facts["not_mocked"]
    assert "cufftCreate is not mocked: please open an issue" in facts["printed"]


def test_a_fork_after_cuda_began_is_refused(facts):
    assert "re-initialize CUDA in forked" in facts["forked"]


def test_two_threads_and_a_hundred_thousand_launches(mocked):
    run = mocked(programs.two_threads, 50_000, trace=False)
    assert len([c for c in run.kernels if "neg" in c.kernel]) == run.result == 100_000


def test_a_process_that_is_killed_leaves_what_it_had_written(mocked):
    with pytest.raises(MockFailed, match="exit code -9") as caught:
        mocked(programs.killed_in_the_middle, trace=False)
    assert len(caught.value.run.kernels) > 1000
