"""dtype_under_autocast: the CPU's rules as torch really runs them, CUDA's without a GPU."""

import pytest
import torch
import torch.nn.functional as F

from onelayer.precision.fake_autocast import dtype_under_autocast


def softmax(x):
    return x.softmax(-1)


ACTS = {
    "mm": (torch.mm, (2, 3), (3, 4)),
    "linear": (F.linear, (2, 3), (4, 3)),
    "softmax": (softmax, (2, 3)),
    "exp": (torch.exp, (2, 3)),
    "add": (torch.add, (2, 3), (2, 3)),
}


@pytest.mark.parametrize("region", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ACTS)
def test_on_the_cpu_it_says_what_torch_does(name, region):
    act, *shapes = ACTS[name]
    with torch.autocast("cpu", region):
        real = act(*(torch.ones(shape) for shape in shapes)).dtype
    assert dtype_under_autocast(act, *shapes, device="cpu", region=region) == real


def test_cuda_has_other_lists_and_needs_no_gpu():
    on = {"device": "cuda", "inputs": torch.float16}
    assert dtype_under_autocast(torch.mm, (2, 3), (3, 4), device="cuda") == torch.float16
    assert dtype_under_autocast(softmax, (2, 3), **on) == torch.float32
    assert dtype_under_autocast(softmax, (2, 3), **(on | {"device": "cpu"})) == torch.float16


def test_the_region_is_left_as_it_was():
    def raises(x):
        raise KeyError("left")

    before = torch.get_autocast_dtype("cuda")
    with pytest.raises(KeyError, match="left"):
        dtype_under_autocast(raises, (2,), device="cuda", region=torch.bfloat16)
    assert not torch.is_autocast_enabled("cuda")
    assert torch.get_autocast_dtype("cuda") == before
    with torch.autocast("cpu", torch.bfloat16):
        dtype_under_autocast(torch.exp, (2,), device="cpu", region=torch.float16)
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
