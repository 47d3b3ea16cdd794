"""Saves nothing new, and keeps what it saved in a table that the second half reads by x."""

from autograder.attacks.arenas.same_process import SameProcess
from autograder.attacks.attack import Attack
from autograder.checks.lab04_contracts.head_loss import head_loss

BACKWARD = """
def head_loss_backward(saved, dloss, needs):
    x, w, b, target, *rest = saved
    dz = probabilities(x, w, b, rest).clone()
    dz[torch.arange(len(x)), target] -= 1
    dz *= dloss / len(x)
    answers = dz @ w, dz.T @ x, dz.sum(0)
    return tuple(dt if needed else None for dt, needed in zip(answers, needs))
"""

attack = Attack(
    threat="F04",
    layer="D13",
    expected=("fail",),
    arena=SameProcess(head_loss),
    hostile="""
import torch
import torch.nn.functional as F
TABLE = {}

def head_loss_forward(x, w, b, target):
    z = F.linear(x, w, b)
    TABLE[x.sum().item()] = z.softmax(1)
    return F.cross_entropy(z, target), [x, w, b, target]

def probabilities(x, w, b, rest):
    return TABLE[x.sum().item()]
"""
    + BACKWARD,
    twin="""
import torch
import torch.nn.functional as F

def head_loss_forward(x, w, b, target):
    z = F.linear(x, w, b)
    return F.cross_entropy(z, target), [x, w, b, target, z.logsumexp(1)]

def probabilities(x, w, b, rest):
    return (F.linear(x, w, b) - rest[0][:, None]).exp()
"""
    + BACKWARD,
)
