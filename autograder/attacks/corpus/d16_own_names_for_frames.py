"""Names attributes of its own after those that lead from a generator to the harness's frames, and
adds to what a graph is said to have made."""

from autograder.attacks.arenas.believed_harness import AdmittedUnread
from autograder.attacks.attack import Attack
from autograder.checks.lab08_compile import harness
from autograder.checks.lab08_compile.one_graph import one_graph

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("flagged",),
    arena=AdmittedUnread(one_graph, harness),
    hostile="""
import torch
import torch.nn.functional as F

class Mine:
    gi_frame = f_back = f_locals = made = runs = append = None

def one_graph(xs, w, b, limit):
    torch.compile(lambda x: x + 1, backend="eager")(xs[0])  # one graph, and nothing of it is used

    def step(x):
        z = F.linear(x, w, b)
        top = z.abs().max().item()
        z = z * (limit / top) if top > limit else z
        kept = z[z.sum(dim=1) > 0]
        return z, kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])

    results = [step(x) for x in xs]

    def frames():
        yield here[0].gi_frame.f_back.f_back

    here = []
    here.append(frames())
    for frame in here[0]:
        for x, pair in zip(xs, results):
            frame.f_locals["watch"].runs.append((step, (x,), pair))
            for t in pair:
                frame.f_locals["watch"].made.append((t, t))
    return results, 1
""",
    twin="""
import torch
import torch.nn.functional as F

class Step:
    limit = None

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, x, w, b):
        z = F.linear(x, w, b)
        top = z.abs().max()
        z = z * torch.where(top > self.limit, self.limit / top, 1.0)
        keep = (z.sum(dim=1) > 0).to(z.dtype)
        return z, keep @ z / keep.sum().clamp(min=1)

def one_graph(xs, w, b, limit):
    torch._dynamo.reset()
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    compiled = torch.compile(Step(limit), backend=backend, fullgraph=True)
    return [compiled(x, w, b) for x in xs], len(graphs)
""",
)
