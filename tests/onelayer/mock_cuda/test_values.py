"""Values: a number of the mocked device is right, or it is not there and says so."""

import math

import pytest

from onelayer.mock_cuda.run import Uncomputed
from tests.onelayer.mock_cuda import programs


def test_three_steps_of_the_head_equal_the_cpus_bit_for_bit(facts):
    ours, cpus = facts["three_steps"]["losses"]
    assert ours == cpus
    assert facts["three_steps"]["same"] == [True, True]


def test_a_tensor_of_the_device_comes_back_with_its_numbers(facts):
    weight = facts["three_steps"]["weight"]
    assert weight.device.type == "cpu"
    assert weight.shape == (600, 64)


def test_without_values_no_number_is_there(mocked):
    run = mocked(programs.three_steps)
    ours, cpus = run.result["losses"]
    assert all(map(math.isnan, ours))
    assert not any(map(math.isnan, cpus))
    assert run.result["weight"] == Uncomputed((600, 64), "torch.float32", "cuda:0")


@pytest.mark.parametrize("kind", ["item", "copy", "derived"])
def test_a_number_that_nothing_computed_is_refused_with_its_kernels_name(facts, kind):
    said = facts[f"never_computed={kind}"]
    assert said.startswith("NeverComputed")
    assert "fmha" in said


def test_what_a_kernel_of_triton_was_to_write_is_not_there(facts):
    said = facts["triton_kernel"]
    assert said.startswith("NeverComputed")
    assert "double was launched" in said


def test_printing_says_that_it_was_never_computed(facts):
    assert "never computed: fmha" in facts["never_computed=print"]


def test_sizes_that_are_numbers_of_the_device(facts):
    assert facts["sizes_from_numbers"] == {
        "nonzero": [0, 2],
        "mask": [3.0, 2.0],
        "select": [-1.0, -5.0],
        "put": [3.0, 0.0, 2.0, 0.0],
        "unique": [1, 2],
    }


def test_a_graph_computes_at_its_replay(facts):
    assert facts["replayed_with_values"] == [6.0, 30.0]


def test_a_convolution_without_cudnn(facts):
    assert facts["convolution"]["got"] == pytest.approx(facts["convolution"]["want"], rel=1e-5)


def test_two_devices_keep_their_own_accounts(facts):
    found = facts["two_devices"]
    assert (found["count"], found["same"], found["peer"]) == (2, True, True)
    assert found["allocated"] == [4096, 4096]
