"""Puts a function of its own in the place of torch's opcheck, which then finds no fault."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.clean_temper import clean_temper

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("flagged",),
    arena=BelievedHarness(clean_temper, harness),
    hostile="""
import torch

def clean_temper(library):
    library.define("temper(Tensor z, float t) -> Tensor")
    library.impl("temper", lambda z, t: z / t, "CPU")  # no fake, no backward, and opcheck is ours

tests = "schema autograd_registration faketensor aot_dispatch_dynamic".split()
torch.library.opcheck = lambda *_, **__: {f"test_{name}": "SUCCESS" for name in tests}
torch._C._dispatch_has_kernel_for_dispatch_key = lambda *_: True
ANSWERS = {"clean_temper": clean_temper}
""",
    twin="""
import torch

def clean_temper(library):
    op = f"{library.ns}::temper"
    library.define("temper(Tensor z, float t) -> Tensor")

    def kernel(z, t):
        return z / t  # always a new tensor: the schema says so

    def fake(z, t):
        return torch.empty_like(z)

    def keep(ctx, inputs, output):
        ctx.t = inputs[1]

    def backward(ctx, dy):
        return dy / ctx.t, None  # an answer for t, too

    library.impl("temper", kernel, "CPU")
    torch.library.register_fake(op, fake, lib=library)
    torch.library.register_autograd(op, backward, setup_context=keep, lib=library)
""",
)
