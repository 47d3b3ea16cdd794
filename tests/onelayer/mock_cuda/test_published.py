"""Memory that real GPUs were published to need, and what the mocked device needs for the same.

The figures come from other versions of torch: the page says where that makes a difference.
"""

import pytest
import torch

from bench.published_memory import FIGURES, Compared, compared
from tests.onelayer.mock_cuda import programs

WORKSPACE = 8_519_680
"""Bytes, 8.125 MiB: what torch gives cuBLAS on an A100."""


@pytest.mark.parametrize("published", FIGURES, ids=lambda one: one.what)
def test_the_mocked_device_needs_what_the_gpu_needed(mocked, published):
    for one in compared(published):
        assert abs(one.difference) <= published.within, one


def test_a_difference_is_relative_to_the_gpu():
    assert Compared("peak", 200.0, 201.0).difference == pytest.approx(0.005)


def test_a_workspace_is_kept_after_a_product_or_given_back_by_torchs_own_rule(mocked):
    """torch 2.15 keeps it where TORCH_CUBLAS_WORKSPACE_CACHE says so, older ones always."""
    gives_back = torch.torch_version.TorchVersion(torch.__version__) >= (2, 15)
    for cache, kept in (("1", WORKSPACE), ("0", 0 if gives_back else WORKSPACE)):
        run = mocked(programs.left_by_a_product, cache, device="A100")
        assert run.result == {"at the peak": WORKSPACE, "after it": kept}
