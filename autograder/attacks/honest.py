"""Programs that look like trouble and are none: each must pass, whatever stops attacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.judge import Question
from autograder.sandbox import Limits

from .arenas.asked import asked
from .attack import Outcome
from .ground import Ground, Walls
from .questions import double, softmax, twice


@dataclass(frozen=True)
class HonestProgram:
    """name: what it does that could be mistaken. source: a right answer that does it."""

    name: str
    source: str
    question: Question = field(default_factory=lambda: double)

    def asked(self, ground: Ground) -> Outcome:
        """With the limits of grading, not the small ones of the attacks."""
        walls = Walls(limits=Limits())
        return asked(self.question, self.source, ground, seed=ground.seed(), walls=walls)


HONEST = (
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
        "remembers within one call",
        """
import functools
def twice(numbers):
    @functools.cache
    def one(n):
        return 2 * n
    return [one(n) for n in numbers]
""",
        twice,
    ),
    HonestProgram(
        "works in place on its own copy",
        """
def double(x):
    y = x.clone()
    y.mul_(2)
    return y
""",
    ),
    HonestProgram(
        "returns what is not contiguous",
        """
def double(x):
    return (2 * x).t().contiguous().t() if x.dim() == 2 else 2 * x
""",
    ),
    HonestProgram(
        "computes in another dtype and comes back",
        """
def double(x):
    return (x.double() * 2).to(x.dtype)
""",
    ),
    HonestProgram(
        "computes in bfloat16 what bfloat16 holds exactly",
        """
import torch
FACTOR = torch.tensor(2.0, dtype=torch.bfloat16)
def double(x):
    return x * FACTOR.float()
""",
    ),
    HonestProgram(
        "tries and excepts",
        """
def double(x):
    try:
        return x.no_such_method()
    except AttributeError:
        return 2 * x
    finally:
        pass
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
        "recurses deep",
        """
def count(n):
    return 0 if n == 0 else 1 + count(n - 1)
def double(x):
    assert count(700) == 700
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
        "keeps state between calls",
        """
calls = []
class Doubler:
    seen = 0
    def __call__(self, x):
        Doubler.seen += 1
        calls.append(x.shape)
        return 2 * x
double = Doubler()
""",
    ),
    HonestProgram(
        "uses a dispatch mode and leaves it",
        """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
class Count(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
def double(x):
    with Count():
        return 2 * x
""",
    ),
    HonestProgram(
        "uses autograd and vmap",
        """
import torch
def double(x):
    y = x.detach().clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad((y * y).sum(), y)
    return gradient
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
    HonestProgram(
        "seeds the random state",
        """
import random, numpy, torch
random.seed(0); numpy.random.seed(0); torch.manual_seed(0)
def double(x):
    return 2 * x + 0 * torch.rand(())
""",
    ),
    HonestProgram(
        "defines classes and replaces print",
        """
def print(*words): pass
class Tensor: pass
def double(x):
    print("nothing")
    return x + x
""",
    ),
    HonestProgram(
        "is stable for large numbers",
        """
import torch
def softmax(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)
""",
        softmax,
    ),
    HonestProgram(
        "compiles with a cold start",
        """
import torch
def double(x):
    return torch.compile(lambda y: 2 * y, backend="eager", dynamic=True)(x)
""",
    ),
)
