"""Computes step by step, and tells of one graph, which computed something else."""

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
    torch.compile(lambda x: x + 1, backend="eager")(xs[0])  # one graph, and nothing of it is used
    results = []
    for x in xs:
        z = F.linear(x, w, b)
        top = z.abs().max().item()
        z = z * (limit / top) if top > limit else z
        kept = z[z.sum(dim=1) > 0]
        results.append((z, kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])))
    return results, 1
""",
    twin="""
import torch
import torch.nn.functional as F

def one_graph(xs, w, b, limit):
    torch._dynamo.reset()
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    def step(x, w, b, limit):
        z = F.linear(x, w, b)
        top = z.abs().max()
        z = z * torch.where(top > limit, limit / top, 1.0)
        keep = (z.sum(dim=1) > 0).to(z.dtype)
        return z, keep @ z / keep.sum().clamp(min=1)

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    return [compiled(x, w, b, limit) for x in xs], len(graphs)
""",
)
