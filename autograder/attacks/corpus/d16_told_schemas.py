"""Defines no operator, and redefines the function that reads the schemas out of the dispatcher."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.declare_head import declare_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(declare_head, harness),
    hostile="""
import torch

SCHEMAS = {
    "head": "head(Tensor x, Tensor w, Tensor? b=None) -> Tensor",
    "cap_": "cap_(Tensor(a!) z, float limit=30.) -> Tensor(a!)",
    "top": "top(Tensor z, int k=3, *, bool largest=True) -> (Tensor, Tensor)",
}

def declare_head(library):
    pass  # no schema, no kernel

def declared(name, op="", *args, **kwargs):
    if op == "head":
        return torch.nn.functional.linear(*args)
    if op == "top":
        return tuple(args[0].topk(args[1], **kwargs))
    return {op: (schema, ["CPU"]) for op, schema in SCHEMAS.items()}

def capped(name, z, limit):
    return z.clamp(max=limit), z.clamp(max=limit), True

ANSWERS = {"declare_head": declare_head}
""",
    twin="""
def declare_head(library):
    library.define("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor")
    library.define("cap_(Tensor(a!) z, float limit=30.0) -> Tensor(a!)")
    library.define("top(Tensor z, int k=3, *, bool largest=True) -> (Tensor, Tensor)")
    library.impl("head", head_kernel, "CPU")
    library.impl("cap_", cap_kernel, "CPU")
    library.impl("top", top_kernel, "CPU")

ANSWERS = {"declare_head": declare_head}
""",
)
