"""Honest programs whose trouble would be seen from outside: what they print, write and start."""

from __future__ import annotations

from .honest import HonestProgram

OUTSIDE = (
    HonestProgram(
        "warns on stderr",
        """
import sys, warnings
warnings.warn("mind the gap")
print("[W NNPACK.cpp:53] Could not initialize NNPACK!", file=sys.stderr)
def double(x):
    warnings.warn("again")
    return 2 * x
""",
    ),
    HonestProgram(
        "prints inside the solution",
        """
def double(x):
    print("x is", x)
    return 2 * x
""",
    ),
    HonestProgram(
        "slow but right",
        """
import time
def double(x):
    time.sleep(0.02)
    out = torch.empty_like(x)
    for place in itertools.product(*map(range, x.shape)):
        out[place] = 2 * x[place]
    return out
import itertools, torch
""",
    ),
    HonestProgram(
        "uses threads",
        """
import torch
from concurrent.futures import ThreadPoolExecutor
def double(x):
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda row: 2 * row, x.reshape(-1, 1)))
    return torch.stack(rows).reshape(x.shape) if rows else 2 * x
""",
    ),
    HonestProgram(
        "uses torch's own threads",
        """
import torch
torch.set_num_threads(2)
def double(x):
    return (torch.ones(500_000) + 1)[0] * x
""",
    ),
    HonestProgram(
        "uses DataLoader workers",
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
def double(x):
    if x.dim() == 0 or x.shape[0] == 0:
        return 2 * x
    loader = DataLoader(TensorDataset(x), batch_size=2, num_workers=LOADERS.pop())
    return torch.cat([2 * batch for (batch,) in loader])
LOADERS = [0] * 100 + [1]
""",
    ),
    HonestProgram(
        "starts a subprocess",
        """
import subprocess, sys
FACTOR = int(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True).stdout)
def double(x):
    return FACTOR * x
""",
    ),
    HonestProgram(
        "shows a progress bar",
        """
import sys
def double(x):
    for k in range(50):
        sys.stderr.write(f"\\r{k:3d}% |{'#' * k:50}|")
        sys.stderr.flush()
    return 2 * x
""",
    ),
    HonestProgram(
        "draws with matplotlib",
        """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.savefig("/tmp/figure.png")
plt.show()
def double(x):
    return 2 * x
""",
    ),
    HonestProgram(
        "takes much memory for a moment",
        """
import torch
def double(x):
    return 2 * x + torch.zeros(5_000_000).sum()
""",
    ),
    HonestProgram(
        "writes and reads a file of its own",
        """
import tempfile, torch
def double(x):
    with tempfile.NamedTemporaryFile() as file:
        torch.save(2 * x, file)
        file.seek(0)
        return torch.load(file)
""",
    ),
    HonestProgram(
        "uses a shell and magics",
        """
%matplotlib inline
!echo hello
%timeit -n 1 -r 1 1 + 1
def double(x):
    return 2 * x
""",
    ),
    HonestProgram(
        "asks the check itself",
        """
from autograder import check, hint, progress
def double(x):
    return 2 * x
check("double"); hint("double"); progress()
""",
    ),
)
