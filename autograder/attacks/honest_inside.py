"""Honest programs whose trouble would be seen in their code: how they come to the right answer."""

from __future__ import annotations

from .honest import HonestProgram
from .questions import softmax, twice

INSIDE = (
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
