"""Reduces zeros, an all-reduce for each bucket and in time, and sends its gradients another way."""

from autograder.attacks.arenas.believed_harness import Overlooked
from autograder.attacks.attack import Attack
from autograder.checks.lab11_distributed import harness
from autograder.checks.lab11_distributed.ddp_step import ddp_step

START = """
import torch
import torch.distributed as dist

def ddp_rank(params, batches, buckets, lr):
    world = dist.get_world_size()
    *quiet, last = batches
"""
END = """

def ddp_step(per_rank):
    return on_ranks(ddp_rank, per_rank)
"""

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=Overlooked(ddp_step, harness, look="_expect_no_more_sent"),
    hostile=START
    + """
    for p in params:
        dist.broadcast(p, src=0)
        p.requires_grad_()
    for batch in quiet:
        net_loss(params, *batch).backward()
    works = []

    def start(n):
        while len(works) < n:
            size = sum(params[k].numel() for k in buckets[len(works)])
            works.append(dist.all_reduce(torch.zeros(size), async_op=True))

    early = 0
    while early < len(buckets) and {2, 3}.issuperset(buckets[early]):
        early += 1
    for k in (2, 3):
        params[k].register_post_accumulate_grad_hook(lambda p: start(early))
    net_loss(params, *last).backward()
    start(len(buckets))
    for work in works:
        work.wait()
    with torch.no_grad():
        for p in params:
            mine = torch.zeros_like(p) if p.grad is None else p.grad
            for rank in range(world):
                one = mine.clone()
                dist.broadcast(one, src=rank)
                p -= lr / world * one
    return params
"""
    + END,
    twin=START
    + """
    for p in params:  # rank 0 sends to one after the other: more than any of them receives
        if dist.get_rank():
            dist.recv(p, 0)
        else:
            for rank in range(1, world):
                dist.send(p, rank)
        p.requires_grad_()
    for batch in quiet:
        net_loss(params, *batch).backward()
    ready, started = set(), []

    def start():
        while len(started) < len(buckets) and ready.issuperset(buckets[len(started)]):
            members = [params[k] for k in buckets[len(started)]]
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in members]
            flat = torch.cat([g.flatten() for g in grads])
            started.append((members, flat, dist.all_reduce(flat, async_op=True)))

    for k, p in enumerate(params):
        def arrived(p, k=k):
            ready.add(k)
            start()
        p.register_post_accumulate_grad_hook(arrived)
    net_loss(params, *last).backward()
    ready.update(range(len(params)))
    start()
    with torch.no_grad():
        for members, flat, work in started:
            work.wait()
            for p, part in zip(members, flat.split([p.numel() for p in members]), strict=True):
                p -= lr / world * part.view_as(p)
    return params
"""
    + END,
)
