"""Which Python a clean room lets in: what computes. What could reach the harness, torch itself or
the process is not admitted."""

from __future__ import annotations

import linecache

import pytest
import torch

from autograder.judge import admission
from autograder.judge.admission import (
    Rules,
    defined,
    line_of,
    not_admitted,
    without_trials,
)

RULES = Rules(
    given=frozenset({"given"}),
    paths=frozenset({"torch.compile"}),
    attributes=frozenset({"ns", "define", "impl", "meta"}),
    registers=frozenset({"torch.library.register_autograd", "torch.library.Library"}),
    namespace="lab",
)

WHEEL = Rules(
    given=frozenset({"hasattr", "__file__"}),
    paths=frozenset({"os.path.join", "pathlib.Path", "torch.ops.lab"}),
    namespace="lab",
    binds=frozenset({"__all__"}),
)
"""Of a module that is imported as any other: all of Python's names stand behind its own."""

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
    "from torch import Tensor, nn\nimport torch.nn as nn\nfrom __future__ import annotations\n"
    "def f(x: Tensor): return nn.functional.relu(x), math.floor(torch.linalg.norm(x).item())",
    "import torch.nn.functional\nfrom math import pow, pi\ndef f(x): return pow(x, torch.pi)",
    "from torch.library import register_autograd\n"
    "def f(op):\n    register_autograd(op, lambda ctx, dy: dy)",
    "def f(x): return torch.special.expit(x).type(torch.bfloat16), torch.softmax(x, 0)",
    "class Row:\n    width: int = 3\n    def __init__(self): self.left = {}\n"
    "def f(x): return Row.width, Row().left, torch.linalg.svd(x)",
    "def f(xs: list[tuple[torch.Tensor, torch.dtype]]) -> torch.Tensor:\n"
    "    total: torch.Tensor | None = None\n    return total",
    "def f(x): return isinstance(x, (torch.Tensor, torch.Size)), torch.Size([1])",
    "def f(x, w):\n    w.grad = None\n    x.requires_grad = True\n    x.grad = w",
    "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
    "        def inner(self): self.rows = 1\n        ctx.dim = ctx.T = 0\n        return x",
    "def f(x, input, type=3):\n    id = input\n    return [hash for hash in x], id, type",
    "def f(op):\n    def inner():\n        torch.library.register_autograd(op, given)\n    inner()",
    "def f(library, other=1):\n    op: str = f'{library.ns}::f{other}'\n"
    "    torch.library.register_autograd(op, given)\n"
    "    torch.library.register_autograd('lab::f', given)",
    "def f(x):\n    global seen\n    seen = x\n    def g():\n        nonlocal x\n        x = 1",
    "def f(x): return torch.ops.lab.mine(x), x.ns.define, torch.library.Library('lab')",
    "class Room:\n    def __enter__(self): return self\n"
    "    def __exit__(self, kind, error, trace): return False\n"
    "def f(x):\n    with Room() as room: return room.__enter__",
    "class A:\n    def send(self): return self.send()",
    "class A:\n    def __call__(self): return self.__call__",
    "id = 3\ndef f(id): return given(id)(id)",
    "from torch.nn import functional\ndef f(x): return functional.relu(x)",
    "@torch.enable_grad\ndef f(x): return x",
    "def f(x): return torch.Tensor.add(x, x), torch.Tensor(x).data",
    "def f(op, library):\n    rows = 1\n    torch.library.register_autograd(op, given)\n"
    "    own = library.define('f() -> ()')\n"
    "    torch.library.register_autograd(own, given)",
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
    "a loader": "def f(): return math.__loader__.load_module('sys')",
    "every class": "def f(): return math.pi.__class__.__base__.__subclasses__()",
    "no name of math": "def f(): return math.nothing",
    "imported insides": "from math import __spec__ as s",
    "all of math": "from math import *",
    "torch by special": "def f(): return torch.special.torch",
    "what torch has not": "def f(): return torch.linalg.nothing, torch.special.nothing",
    "a path of nobody": "from torch.linalg import LinAlgError",
    "a private function": "def f(x): return F._canonical_mask",
    "a private operator": "def f(x): return torch._adaptive_avg_pool2d",
    "a neighbour's module": "from . import torch",
    "a neighbour called math": "from .math import sqrt",
    "one of two imports": "from torch import Tensor, _C",
    "builtins by an import": "import torch as __builtins__",
    "a name of two modules": "def g():\n    import math as torch\n"
    "def f(): return torch.sys.modules",
    "one name of two imports": "import math as m\ndef g():\n    import torch as m",
    "an imported gift": "from math import pi as given",
    "an imported door": "def g():\n    from math import pi as exec\ndef f(): return exec",
    "an imported isinstance": "from functools import partial as isinstance\n"
    "def h(ctx): ctx.mm = None\ndef f(): isinstance(h, torch.Tensor)()",
    "an own isinstance": "def isinstance(ctx, kind): kind()\n"
    "def f(x): return isinstance(x, torch.Tensor)",
    "an import and a name": "from math import pi\ndef f(): return [pi for pi in [1]]",
    "an own name for a frame": "class K:\n    gi_frame = f_back = f_globals = 0\n"
    "def f():\n    def g(): yield it.gi_frame.f_back.f_globals\n"
    "    it = g()\n    return next(it)",
    "an own name for a traceback": "class K:\n    tb_frame = 0\n"
    "    def __exit__(self, kind, error, trace): return trace.tb_frame",
    "an own name for classes": "class K:\n    def mro(self): return 0\n"
    "def f(): return torch.Tensor.mro()",
    "a node's class": "def h(ctx): ctx.mm = None\ndef f(node): h(node.type)",
    "a node's class under a name": "def f(node):\n    kept = node.type",
    "what Python calls": "class K:\n    def __init__(self): pass\ndef f(): return __init__",
    "a node's class in a call": "class K:\n    type = 0\ndef f(node): print(node.type)",
    "an own name for storage": "class K:\n    def untyped_storage(self): return 0\n"
    "def f(x): return x.untyped_storage()",
    "an own name for code": "class K:\n    recompile = on_generate_code = 0\n"
    "def f(graph): graph.on_generate_code(f)",
    "a name that it only reads": "class K:\n    def m(self): return given\n"
    "def f(x): return x.given",
    "a class that was annotated": "def h(ctx): ctx.mm = None\n"
    "def f(x):\n    kept: int = torch.Tensor\n    h(kept)",
    "a pair that was annotated": "def f(x):\n    kept: int = (torch.Tensor, 1)",
    "a dict of annotations": "kept = collections = {}\ndef f(x: kept[torch.Tensor]): return kept",
    "a list of classes": "def f(x): return [torch.Tensor]",
    "a default": "def f(x=torch.Tensor): return x",
    "a default of two": "def f(x=torch.Tensor | None): return x",
    "a list in a subscript": "def f(x):\n    return x[torch.Tensor]",
    "a kind that decorates a class": "@torch.autograd.Function\nclass A: pass",
    "a keyword": "def f(x): return isinstance(x, kind=torch.Tensor)",
    "another's question": "def f(x): return max(x, torch.Tensor)",
    "a class as an argument": "def f(x): return x.sum(torch.Size)",
    "gradients of all": "import torch.autograd as ag\nag.grad = None",
    "a gradient of what is no name": "def f(xs): xs[0].grad = None",
    "what a tensor is asked": "def h(t, p): t.data_ptr = lambda: p",
    "what is private": "def f(ctx): ctx._x = 1",
    "outside a function": "x = given\nx.y = 1",
    "of the second": "def f(a, b):\n    a.x = b\n    b.x = a",
    "their private operators": "def f(x): return torch.ops.lab.__getattribute__('x')",
    "deeper operators": "def f(x): return torch.ops.lab",
    "a number of torch's": "import torch.nn.functional\ndef f(x): return functional.relu",
    "an override by a lambda": "def f(op):\n"
    "    (lambda op: torch.library.register_autograd(op, f))('aten::mm')",
    "an override by an inner helper": "def f(op):\n"
    "    def h(op): torch.library.register_autograd(op, given)\n    h('aten::mm')",
    "an override by a decorator": "def h(fn): fn('aten::mm')\n"
    "@h\ndef f(op): torch.library.register_autograd(op, given)",
    "an override by a default": "def f(x, op='aten::mm'):\n"
    "    torch.library.register_autograd(op, given)",
    "an override by an own ns": "class A:\n    ns = 'aten'\n"
    "def f(x): torch.library.register_autograd(f'{A.ns}::mm', given)",
    "an override by an own define": "class A:\n    def define(self): return 'aten::mm'\n"
    "def f(x):\n    op = A().define()\n    torch.library.register_autograd(op, given)",
    "an override by a name's namesake": "def f(library):\n    op = f'{library.ns}::f'\n"
    "def h(op): torch.library.register_autograd(op, given)\ndef g(x): h('aten::mm')",
    "an override after the first": "def f(library):\n    op = f'{library.ns}::f'\n"
    "    op = 'aten::mm'\n    torch.library.register_autograd(op, given)",
    "an override by two names": "def f(library):\n    a = b\n    b = a\n"
    "    torch.library.register_autograd(a, given)",
    "an override by a method": "def f(library):\n    op = library.upper()\n"
    "    torch.library.register_autograd(op, given)",
    "an override by a loop": "def f(library):\n    for op in ['aten::mm']:\n"
    "        torch.library.register_autograd(op, given)",
    "an override by a name of nothing": "def f(library):\n"
    "    torch.library.register_autograd(op, given)\ndef op(): pass",
    "an override by another f-string": "def f(library):\n"
    "    torch.library.register_autograd(f'{library.name}::mm', given)",
    "a namespace that goes on": "def f(library):\n"
    "    torch.library.register_autograd(f'{library.ns}x::mm', given)",
    "a namespace alone": "def f(library):\n"
    "    torch.library.register_autograd(f'{library.ns}', given)",
    "a namespace and a value": "def f(library, x):\n"
    "    torch.library.register_autograd(f'{library.ns}{x}', given)",
    "a longer namespace": "torch.library.register_autograd('labor::mm', given)",
    "an override by a keyword": "torch.library.register_autograd(op='aten::mm')",
    "an override by a number": "torch.library.register_autograd(3)",
    "a register as a value": "def f(x): return torch.library.register_autograd",
    "a register as an argument": "def f(x): return map(torch.library.register_autograd, x)",
    "a global module": "def f():\n    global torch",
    "a global module of two": "def f():\n    global kept, torch",
    "a method of Python's own": "def f(x): return x.__init__",
    "an import of what is no module": "import torch.mm",
    "a register by what it is called with": "class K:\n    def __call__(self): pass\n"
    "def f(x): torch.library.register_autograd.__call__('aten::mm', given)",
    "an imported register's": "from torch.library import register_autograd as r\n"
    "class K:\n    def __call__(self): pass\ndef f(x): r.__call__('aten::mm', given)",
    "an own private name": "class K:\n    _op_defs = 0\ndef f(x): return x._op_defs",
    "an override by a method's parameter": "class K:\n"
    "    def m(self, op): torch.library.register_autograd(op, given)\n"
    "def f(x): K().m('aten::mm')",
    "an override of what was handed over": "def f(op):\n    op = 'aten::mm'\n"
    "    torch.library.register_autograd(op, given)",
    "an override in one step": "def f(x):\n    op = 'aten::mm'\n"
    "    torch.library.register_autograd(op, f)",
    "an exception's name": "try: pass\nexcept ValueError as given: pass",
}
OF_A_MODULE = {
    "exec": "def g(exec): pass\nexec('1')",
    "exec of a class": "class K:\n    exec = exec",
    "exec by a function": "def f():\n    return open\ndef g(open): pass",
    "exec by another function": "x = y = 1\ndef f(open): pass\ndef g(): return open",
    "its operators": "def h(ctx): ctx.mine = h\nh(torch.ops.lab)",
    "a class of paths": "import pathlib\nx = [pathlib.Path]",
    "a file": "class K:\n    write_text = 0\ndef f(path): path.write_text('x')",
    "a module of its own": "import os\nos.system('ls')",
    "two modules": "import os, sys",
    "its own name": "__name__ = 'torch'",
    "its own names, read": "__all__ = []\nx = __all__",
    "its own loader": "def f(): return __loader__",
    "its own loader, bound": "try: pass\nexcept ValueError as __loader__: pass",
}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Each cell is read as the first one is."""
    for remembered in (admission.methods, admission.doors, admission.is_path, admission._value):
        remembered.cache_clear()


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


@pytest.mark.parametrize("what", OF_A_MODULE)
def test_what_reaches_further_from_a_module_is_not(what: str) -> None:
    assert list(not_admitted(OF_A_MODULE[what], WHEEL))


def test_a_module_is_admitted_that_asks_what_it_may() -> None:
    source = """import os.path
import pathlib as paths
from os import path
__all__ = ["f"]
here = os.path.join(path.join(__file__), "x"), paths.Path(__file__)
def f(x):
    if not hasattr(torch.ops.lab, "mine"):
        return torch.ops.lab.mine(x)
"""
    assert list(not_admitted(source, WHEEL)) == []
    assert list(not_admitted(source, Rules()))


def test_operators_are_nobody_s_where_a_question_has_no_namespace() -> None:
    rules = Rules(registers=RULES.registers)
    for name in ("'::mm'", "''", "'lab::mm'"):
        assert list(not_admitted(f"torch.library.register_autograd({name})", rules))
    for path in ("torch.ops.lab.mine", "torch.ops"):
        assert list(not_admitted(f"def f(): return {path}", rules))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\nx = (", [2]),
        ("\0", [1]),
        ("-" * 100_000 + "1", [1]),
        ("x = 1\ndef f(x):\n    match x:\n        case 1: pass", [3, 4]),
        ("import sys\n\nimport os", [1, 3]),
        ("x = 1\nwith open('x') as y:\n    exec(y)", [2, 3]),
    ],
)
def test_it_is_told_which_lines_are_not_admitted(source: str, lines: list[int]) -> None:
    assert sorted({line for line, _ in not_admitted(source, RULES)}) == lines


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
    linecache.checkcache()
    assert linecache.getlines("<cell f>") == ["def f(x):\n", "    return x.nothing\n"]


def test_an_admitted_cell_imports_what_it_was_admitted_for() -> None:
    source = "import math, torch.autograd\nfrom torch.nn import functional\n"
    names = defined(source + "from torch.library import Library", "f", {})
    assert names["torch"].autograd is torch.autograd
    assert names["functional"] is names["F"] is torch.nn.functional
    assert (names["Tensor"], names["Function"]) == (torch.Tensor, torch.autograd.Function)
    for other in ("import sys", "import torchgen", "from os import path"):
        with pytest.raises(ImportError, match="clean room"):
            defined(other, "f", {})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("within", ["\x0c", "\x1c", "\x85", "\u2028"])
def test_the_line_that_is_named_is_the_one_that_is_shown(end: str, within: str) -> None:
    source = end.join([f'"""A text{within}in one line."""', "", "import sys", "x = 1"])
    assert [line_of(source, line) for line, _ in not_admitted(source)] == ["import sys"]


def test_an_error_shows_the_line_that_failed_behind_a_form_feed() -> None:
    defined("text = 'A text\x0cin one line.'\ndef f(x):\n    return x.nothing\n", "f", {})
    assert linecache.getline("<cell f>", 3).strip() == "return x.nothing"


def test_what_an_answer_says_of_itself_stands_before_its_future() -> None:
    """A statement that may raise would have to come after it."""
    source = '"""Twice."""\nfrom __future__ import annotations\ndef f(x: int): return 2 * x\n'
    assert list(not_admitted(source)) == []
    assert defined(source, "f", {})["f"](3) == 6


F = "def f(x): return 2 * x\n"


@pytest.mark.parametrize(
    "tried",
    [
        f"%%time\n{F}",
        f"!pip install einops\n%matplotlib inline\n{F}%timeit f(3)\n",
        f"{F}torch.manual_seed(0)\nprint(\n    f(torch.Generator())\n)\n",
        f"{F}print(f(onelayer.head()))",
        f"{F}f(1) / 0\n",
        f"print(torch.Generator())\n{F}x = 1\n",
    ],
)
def test_what_was_tried_beside_an_answer_costs_nothing(tried: str) -> None:
    source = without_trials(tried, RULES)
    assert list(not_admitted(source, RULES)) == []
    assert len(source.splitlines()) == len(tried.splitlines())
    assert defined(source, "f", {})["f"](3) == 6


@pytest.mark.parametrize(
    "kept",
    [
        F,
        f"{F}x = torch.Generator()\n",
        f"{F}print(x.__class__); g = f\n",
        f"{F}g = f; print(x.__class__)\n",
        f"{F}g = (\n    f); print(x.__class__)\n",
        "f(\n",
        f'{F}"""\n%%time\n"""\n',
        "def f(x):\n    open('x')\n",
    ],
)
def test_what_defines_something_is_judged_as_it_stands(kept: str) -> None:
    assert without_trials(kept, RULES) == kept
