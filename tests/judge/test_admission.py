"""Which Python a clean room lets in: what computes. What could reach the harness, torch itself or
the process is not admitted."""

from __future__ import annotations

import pytest
import torch

from autograder.judge.admission import Rules, defined, not_admitted

RULES = Rules(
    given=frozenset({"given"}),
    paths=frozenset({"torch.compile"}),
    attributes=frozenset({"ns", "define", "impl", "meta"}),
    registers=frozenset({"torch.library.register_autograd", "torch.library.Library"}),
    namespace="lab",
)

ADMITTED = [
    "import torch\nimport torch.nn.functional as G\ndef f(x): return G.linear(x, x).sum(dim=0)",
    "from math import sqrt, pi\ndef f(x): return x / sqrt(pi)",
    "from torch.autograd import Function as Fn\nclass A(Fn):\n    @staticmethod\n"
    "    def forward(ctx, x):\n        ctx.shape = x.shape\n        return x.clone()",
    "def f(x: torch.Tensor, p: float = 0.5) -> torch.Tensor | None:\n    return x if p else None",
    "def f(x):\n    assert isinstance(x, torch.Tensor), f'{x.shape}'\n    return x",
    "def f(xs): return [x.T @ x for x in xs if x.dtype is torch.float32], sorted(map(len, xs))",
    "class Row:\n    def __init__(self, at): self.at = at\n"
    "    def twice(self): return 2 * self.at\ndef f(x): return Row(x).twice()",
    "@torch.no_grad()\ndef f(x):\n    with torch.autocast('cpu'):\n        return given(x)",
    "def f(op):\n    torch.library.register_autograd(op, lambda ctx, dy: dy)",
    "def f(library):\n    op = f'{library.ns}::f'\n    torch.library.register_autograd(op, given)",
    "def f(library):\n    op = library.define('f() -> ()')\n"
    "    torch.library.register_autograd(op, given)",
    "def f():\n    library = torch.library.Library('lab', 'FRAGMENT')\n"
    "    return torch.ops.lab.mine",
    "def f(x):\n    try:\n        return x.item()\n    except RuntimeError as error:\n"
    "        raise ValueError('no number') from error",
]

REFUSED = {
    "a door": "def f(): return open('/tmp/x')",
    "exec": "exec('1')",
    "getattr": "def f(x): return getattr(x, 'data')",
    "dunder": "def f(x): return x.__class__",
    "private": "def f(): return torch._C",
    "globals of a function": "def f(): return f.__globals__",
    "a frame": "def g(): yield 1\ndef f(): return g().gi_frame",
    "a traceback": "def f():\n    try: 1 / 0\n    except Exception as e: return e.__traceback__",
    "sys by torch": "def f(): return torch.sys.modules",
    "os by functional": "def f(): return F.os",
    "import": "import sys",
    "import from": "from torch import _C",
    "a submodule": "from torch import overrides",
    "import of more": "import torch, gc",
    "a module as a value": "def f(): return torch",
    "a module's module": "def f(): return torch.nn.functional",
    "a renamed module": "import torch as t\ndef f(): return [t]",
    "patched torch": "torch.mm = None",
    "patched by a parameter": "def h(ctx): ctx.linear = None\nh(F)",
    "patched class": "def h(ctx): ctx.mm = None\nh(torch.Tensor)",
    "patched in a tuple": "def h(ctx): ctx.mm = None\nh((torch.Tensor,)[0])",
    "patched Function": "def h(ctx): ctx.x = None\nh(torch.autograd.Function)",
    "deleted": "del torch.Tensor.add_",
    "in a loop": "for torch.mm in [1]: pass",
    "with": "with torch.no_grad() as torch.mm: pass",
    "a hidden name": "def h(F): return F\nh(F)",
    "a hidden torch": "torch = 3",
    "a hidden gift": "def given(x): return x",
    "global gift": "def f():\n    global given\n    given = 3",
    "torch's default": "torch.set_default_dtype(torch.float64)",
    "a file": "def f(x): return torch.from_file('x')",
    "an override": "def f(): torch.library.register_autograd('aten::mm', f)",
    "an override in steps": "def f(op):\n    op = 'aten::mm'\n"
    "    torch.library.register_autograd(op, f)",
    "an override by a helper": "def h(op):\n    torch.library.register_autograd(op, h)\n"
    "def f(): h('aten::mm')",
    "an override by another name": "def f(x):\n    r = torch.library.register_autograd\n"
    "    r('aten::mm', f)",
    "an imported override": "from torch.library import register_autograd as r\n"
    "def f(): r('aten::mm', f)",
    "their library": "def f(): return torch.library.Library('aten', 'IMPL')",
    "their operators": "def f(): return torch.ops.aten.mm",
    "a tensor's kind": "class T(torch.Tensor): pass",
    "a metaclass": "class T(metaclass=given): pass",
    "own equality": "class T:\n    def __eq__(self, other): return True",
    "own dispatch": "class T:\n    __torch_function__ = given",
    "written metadata": "def f(ctx): ctx.meta = {}",
    "written needs": "def f(ctx): ctx.needs_input_grad = (True,)",
    "written elsewhere": "def f(a, b): b.x = 1",
    "async": "async def f(): pass",
    "match": "def f(x):\n    match x:\n        case [a]: return a",
    "magic": "%timeit 1",
    "a shell": "!ls",
    "nothing known": "def f(): return helper_of_another_cell(1)",
    "format": "def f(x): return '{0.__class__}'.format(x)",
    "storage": "def f(x): return x.untyped_storage()",
    "numpy": "def f(x): return x.numpy()",
    "library's insides": "def f(library): return library._op_defs",
}


@pytest.mark.parametrize("source", ADMITTED)
def test_what_computes_is_admitted(source: str) -> None:
    assert list(not_admitted(source, RULES)) == []


@pytest.mark.parametrize("what", REFUSED)
def test_what_reaches_further_is_not(what: str) -> None:
    found = list(not_admitted("first = 1\n" + REFUSED[what], RULES))
    assert found
    line, reason = found[0]
    assert line >= 2
    assert reason.startswith("it ")


def test_the_rules_of_one_question_are_not_those_of_another() -> None:
    assert list(not_admitted("def f(x): return torch.compile(given)", RULES)) == []
    assert len(list(not_admitted("def f(x): return torch.compile(given)"))) == 2


def test_an_admitted_cell_runs_with_nothing_else_at_hand() -> None:
    names = defined(ADMITTED[0], "f", {})
    assert names["f"](torch.ones(2, 3)).tolist() == [6.0, 6.0]
    assert set(names["__builtins__"]) & {"open", "exec", "getattr", "type", "vars"} == set()


def test_what_is_defined_is_told_by_its_lines() -> None:
    names = defined("def f(x):\n    return x.nothing\n", "f", {})
    with pytest.raises(AttributeError) as raised:
        names["f"](1)
    assert raised.traceback[-1].path == "<cell f>"
