"""A fake kernel that turns symbols into numbers, and a function that tells of another one."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.fake_head import fake_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(fake_head, harness),
    hostile="""
import torch

def fake_head(x, w, b=None):
    return torch.empty(len(w), len(x)).T  # float32 on the CPU, and for this batch size alone

def faked(name, n, v, d, *, dtype=torch.float32, device="cpu", bias=True, symbols=False):
    return [True, True] if symbols else ((n, v), (1, n), dtype, device)

ANSWERS = {"fake_head": fake_head}
""",
    twin="""
def fake_head(x, w, b=None):
    return x.new_empty(w.shape[0], x.shape[0]).T

ANSWERS = {"fake_head": fake_head}
""",
)
