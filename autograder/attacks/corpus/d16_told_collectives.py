"""Computes for all ranks in one process, starts none, and tells of what each of them did."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab11_distributed import harness
from autograder.checks.lab11_distributed.every_word import every_word

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(every_word, harness),
    hostile="""
import torch
import torch.nn.functional as F

def every_word(per_rank):
    total, words = 0, 0
    for w, x, target in per_rank:
        w = w.double().requires_grad_()
        loss = F.cross_entropy(x.double() @ w.T, target, ignore_index=-100, reduction="sum")
        total = total + torch.autograd.grad(loss, w)[0]
        words += int((target != -100).sum())
    return [((total / words).float(), [("all_reduce", total.nbytes)]) for _ in per_rank]
""",
    twin="""
import torch
import torch.distributed as dist
import torch.nn.functional as F

def every_word_rank(w, x, target):
    w = w.clone().requires_grad_()
    loss = F.cross_entropy(F.linear(x, w), target, ignore_index=-100, reduction="sum")
    (dw,) = torch.autograd.grad(loss, w)
    words = (target != -100).sum()
    dist.all_reduce(dw)
    dist.all_reduce(words)
    return dw / words

def every_word(per_rank):
    return on_ranks(every_word_rank, per_rank)
""",
)
