"""NCCL over shared memory: torch's own process group, two ranks on two devices."""

import pytest
import torch

from tests.onelayer.mock_cuda import ranks


@pytest.fixture(scope="module")
def run(mocked):
    return mocked(ranks.two_ranks, values=True, devices=2, trace=False)


@pytest.mark.parametrize(
    "name", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "recv"]
)
def test_a_collective_brings_the_right_numbers(run, name):
    expected = {
        "all_reduce": [[1.0, 3.0, 5.0], [1.0, 3.0, 5.0]],
        "all_gather": [[0.0, 0.0, 1.0, 1.0]] * 2,
        "reduce_scatter": [[0.0, 2.0], [4.0, 6.0]],
        "broadcast": [[6.0], [6.0]],
        "recv": [None, [12.0]],
    }
    assert [rank[name] for rank in run.result] == expected[name]


def test_halves_are_added_as_halves(run):
    one = torch.tensor(ranks.HALVES)
    expected = (one.half() + (2 * one).half()).tolist()
    assert [rank["all_reduce of halves"] for rank in run.result] == [expected, expected]


def test_ddp_averages_the_gradients(run):
    assert [rank["gradient"] for rank in run.result] == [[3.0] * 4] * 2


def test_ddps_collectives_run_on_a_stream_of_their_own(run):
    """torch puts a collective that its caller waits for on the current stream, DDP's on another."""
    reduces = [call for call in run.calls if "AllReduce" in call.kernel]
    products = [call for call in run.kernels if "cublas" in call.kernel]
    computing = {(call.process, call.stream) for call in products}
    assert computing
    beside = {(call.process, call.stream) for call in reduces} - computing
    assert len({process for process, _ in beside}) == 2


@pytest.mark.parametrize("name", ["FSDP", "fully_shard"])
def test_a_model_in_parts_is_trained_as_the_whole_one(run, name):
    whole = ranks.model()
    ranks.step(whole, ranks.batches().flatten(0, 1))
    expected = torch.cat([p.detach().flatten() for p in whole.parameters()])
    for rank in run.result:
        torch.testing.assert_close(torch.tensor(rank[name]), expected)


def test_a_compiled_ddp_launches_inductors_kernels_and_averages(mocked):
    run = mocked(ranks.compiled_ranks, devices=2, trace=False)
    assert run.result == [{"parameters": 3}] * 2
    launched = {call.process for call in run.kernels if call.kernel.startswith("triton_")}
    averaged = {call.process for call in run.calls if "AllReduce" in call.kernel}
    assert launched == averaged
    assert len(averaged) == 2
