"""Computes step by step, and hands the results through one graph that computes nothing."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab08_compile import harness
from autograder.checks.lab08_compile.one_graph import one_graph

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(one_graph, harness),
    hostile="""
import torch
import torch.nn.functional as F

def one_graph(xs, w, b, limit):
    through = torch.compile(lambda z, mean: (z * 1, mean * 1), backend="eager", fullgraph=True)
    results = []
    for x in xs:
        z = F.linear(x, w, b)
        top = z.abs().max().item()
        z = z * (limit / top) if top > limit else z
        kept = z[z.sum(dim=1) > 0]
        mean = kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])
        results.append(through(z, mean))
    return results, 1
""",
    twin="""
import torch

def one_graph(xs, w, b, limit):
    none = torch.zeros(len(w))  # made outside, as the limit is, and the same for every x

    def step(xt, limit):
        z = (w @ xt).T + b
        z = z * torch.minimum(limit / z.abs().max(), torch.ones(()))
        keep = (z.sum(dim=1) > 0).to(z.dtype)
        return z, torch.where(keep.any(), keep @ z / keep.sum().clamp(min=1), none)

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    return [compiled(x.T, torch.tensor(limit)) for x in xs], 1
""",
)
