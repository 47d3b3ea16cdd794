"""`onelayer mock-gpu`: a script that knows nothing of the mocked device, and the page about it."""

import json
import pickle

import pytest

from onelayer.mock_cuda.devices import device_model
from onelayer.mock_cuda.script import run_script

SCRIPT = """
import sys
import torch

layer = torch.nn.Linear(64, 600).cuda()
for step in range(3):
    x = torch.randn(int(sys.argv[1]), 64).cuda()
    loss = layer(x).square().mean()
    loss.backward()
    print("loss", loss.item())
"""


@pytest.fixture
def script(mocked, tmp_path):
    """The script above, run on a mocked L4 of 256 MiB with so many rows."""
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)

    def run(rows):
        model = device_model("L4", "256 MiB")
        return run_script(file, [str(rows)], model=model, out=tmp_path / "out")

    return run


def test_a_script_that_fits_is_told_with_its_waits_and_copies(script, capfd):
    run = script(64)
    assert run.exit_code == 0
    assert "fits in 256.0 MiB" in run.page
    assert '3 x train.py:10  print("loss", loss.item())  (cudaStreamSynchronize)' in run.page
    assert "3 x train.py:7  x = torch.randn(int(sys.argv[1]), 64).cuda()" in run.page
    assert "numbers   3 copies to the host" in run.page
    assert capfd.readouterr().out == "loss nan\n" * 3


def test_what_is_left_is_what_torchs_viewers_read(script):
    memory, trace = sorted(script(64).files)
    assert pickle.loads(memory.read_bytes())["segments"]
    kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    assert len(kernels) > 10


def test_a_script_that_does_not_fit_is_told_in_torchs_words(script):
    run = script(200_000)
    assert run.exit_code == 1
    assert "does not fit: CUDA out of memory. Tried to allocate" in run.page


RANKS = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def work(rank, store):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=2)
    whole = DistributedDataParallel(nn.Linear(64, 600).cuda(), device_ids=[rank])
    sharded = fully_shard(nn.Linear(64, 600).cuda())
    for model in (whole, sharded):
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):  # after the first step DDP sorts its buckets anew
            model(torch.randn(32, 64, device="cuda")).square().mean().backward()
            optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
"""


def test_a_script_of_two_ranks_trains_whole_and_sharded(mocked, tmp_path):
    """DDP compares its ranks by numbers that the host lays down: these travel without values."""
    file, store = tmp_path / "ranks.py", (tmp_path / "store").as_uri()
    file.write_text(RANKS)
    run = run_script(file, [store], model=device_model("L4"), devices=2, out=tmp_path / "out")
    assert run.exit_code == 0
    assert run.page.count("peak ") == 2
    assert {f.name for f in run.files} >= {"memory.pickle", "trace.json"}
