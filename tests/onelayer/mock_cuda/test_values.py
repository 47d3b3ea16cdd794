"""Values: a number of the mocked device is right, or it is not there and says so."""

import math

import pytest

from onelayer.mock_cuda.run import MockFailed, Uncomputed
from tests.onelayer.mock_cuda import programs


def test_three_steps_of_the_head_equal_the_cpus_bit_for_bit(mocked):
    run = mocked(programs.three_steps, values=True)
    ours, cpus = run.result["losses"]
    assert ours == cpus
    assert run.result["same"] == [True, True]


def test_a_tensor_of_the_device_comes_back_with_its_numbers(mocked):
    weight = mocked(programs.three_steps, values=True).result["weight"]
    assert weight.device.type == "cpu"
    assert weight.shape == (600, 64)


def test_without_values_no_number_is_there(mocked):
    run = mocked(programs.three_steps)
    ours, cpus = run.result["losses"]
    assert all(map(math.isnan, ours))
    assert not any(map(math.isnan, cpus))
    assert run.result["weight"] == Uncomputed((600, 64), "torch.float32", "cuda:0")


def test_the_launches_are_the_same_with_and_without_values(mocked):
    runs = [mocked(programs.three_steps, values=values) for values in (False, True)]
    with_numbers, without = ([call.kernel for call in run.kernels] for run in runs)
    assert with_numbers == without
    assert len(without) > 30


@pytest.mark.parametrize("kind", ["item", "copy", "derived"])
def test_a_number_that_nothing_computed_is_refused_with_its_kernels_name(mocked, kind):
    with pytest.raises(MockFailed) as caught:
        mocked(programs.never_computed, kind, values=True)
    assert caught.value.kind == "NeverComputed"
    assert "fmha" in str(caught.value)


def test_printing_says_that_it_was_never_computed(mocked):
    assert "never computed" in mocked(programs.never_computed, "print", values=True).result


def test_sizes_that_are_numbers_of_the_device(mocked):
    assert mocked(programs.sizes_from_numbers, values=True).result == {
        "nonzero": [0, 2],
        "mask": [3.0, 2.0],
        "select": [-1.0, -5.0],
        "put": [3.0, 0.0, 2.0, 0.0],
        "unique": [1, 2],
    }


def test_a_graph_computes_at_its_replay(mocked):
    assert mocked(programs.replayed_with_values, values=True).result == [6.0, 30.0]


def test_a_convolution_without_cudnn(mocked):
    facts = mocked(programs.convolution, values=True).result
    assert facts["got"] == pytest.approx(facts["want"], rel=1e-5)
