"""Small releases as texts, whole or with one fault, drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autograder.judge import Draw

Files = dict[str, str]
NAMES = ("temper", "row_scale", "gate", "soft_clip", "blend", "lean", "warp")
LIBRARIES = ("headloss", "widehead", "fusedrows", "quickhead")


_LOAD = 'torch.ops.load_library(next(Path(__file__).parent.glob("_C*.so")))\n'


@dataclass(frozen=True)
class Operator:
    """One operator: its schema's arguments, its C++ parameters and the lines of its body."""

    name: str
    arguments: str
    parameters: str
    body: tuple[str, ...]
    returns: str = "Tensor"
    differentiable: bool = True

    @property
    def names(self) -> list[str]:
        """What its arguments are called."""
        return [argument.split()[-1] for argument in self.arguments.split(",")]


@dataclass(frozen=True)
class Release:
    """A library with its operators, and what is left out or turned round in its files. behind: what
    is a comment in the C++ stands behind the line before it; block: between /* and */. remark: a
    comment at the top of pyproject.toml. beside_it: a module that nobody imports loads the library.
    """

    library: str
    operators: tuple[Operator, ...]
    version: str
    python: int
    torch: int
    no_kernel: str = ""
    no_fake: str = ""
    no_gradient: str = ""
    commented: bool = False
    behind: bool = False
    block: bool = False
    loaded: str = "at import"
    runs_with: str = ""
    built_with: str = ""
    package_data: str = "_C*.so"
    pure: bool = False
    tag: str = ""
    beside: str = "numpy>=2"
    remark: str = ""
    beside_it: bool = False
    order: tuple[int, ...] = field(default=())

    def files(self) -> Files:
        """The texts by path."""
        lib = self.library
        made = {
            "pyproject.toml": self._pyproject(),
            f"{lib}/__init__.py": self._init(),
            f"{lib}/ops.py": self._ops(),
            f"csrc/{lib}.cpp": self._cpp(),
            self.wheel: self._wheel(),
        }
        paths = list(made)
        files = {paths[k]: made[paths[k]] for k in self.order}
        if self.beside_it:
            files[f"{lib}/loading.py"] = "from pathlib import Path\n\nimport torch\n\n" + _LOAD
        return files

    @property
    def wheel(self) -> str:
        return f"{self.library}-{self.version}.dist-info/WHEEL"

    def _left_out(self, lines: str, comment: str) -> str:
        """Nothing, or the lines as a comment."""
        if not self.commented:
            return ""
        return "".join(f"{comment} {line}\n" for line in lines.splitlines())

    def _pyproject(self) -> str:
        exact = f"torch==2.{self.torch}.*"
        remark = f"# {self.remark}\n" if self.remark else ""
        return (
            f'{remark}[build-system]\nrequires = ["setuptools>=77", "{self.built_with or exact}"]\n'
            'build-backend = "setuptools.build_meta"\n\n'
            f'[project]\nname = "{self.library}"\nversion = "{self.version}"\n'
            f'requires-python = ">=3.{self.python}"\n'
            f'dependencies = ["{self.beside}", "{self.runs_with or exact}"]\n\n'
            "[tool.setuptools.package-data]\n"
            f'{self.library} = ["py.typed", "{self.package_data}"]\n'
        )

    def _init(self) -> str:
        load = _LOAD
        if self.loaded == "in a function":
            load = "\ndef load():\n    " + load + "\n"
        if self.loaded == "never":
            load = self._left_out(load, "#")
        return (
            f'"""{self.library}: operators for a wide head."""\n\n'
            f"from pathlib import Path\n\nimport torch\n\n{load}\nfrom . import ops\n"
        )

    def _ops(self) -> str:
        return "import torch\n\n" + "\n".join(map(self._registered, self.operators))

    def _registered(self, op: Operator) -> str:
        """The Python side of an operator: its fake kernel and its gradient."""
        first, second = op.names
        made = "None" if op.returns == "()" else f"torch.empty_like({first})"
        full = f"{self.library}::{op.name}"
        fake = (
            f'@torch.library.register_fake("{full}")\n'
            f"def _({first}, {second}):\n    return {made}\n\n"
        )
        text = self._left_out(fake, "#") if op.name == self.no_fake else fake
        if not op.differentiable:
            return text
        grad = (
            f'torch.library.register_autograd("{full}", {op.name}_formula,\n'
            f"                                setup_context={op.name}_inputs)\n"
        )
        is_number = "float p" in op.arguments
        keep, kept = ("ctx.p = p", "ctx.p") if is_number else _SAVED
        formula = (
            f"def {op.name}_inputs(ctx, inputs, output):\n    x, p = inputs\n    {keep}\n\n"
            f"def {op.name}_formula(ctx, dy):\n"
            f"    return torch.ops.{self.library}.{op.name}_backward(dy, {kept}), None\n\n"
        )
        return text + formula + (self._left_out(grad, "#") if op.name == self.no_gradient else grad)

    def _cpp(self) -> str:
        functions = "\n".join(map(_function, self.operators))
        defs = "".join(
            f'  m.def("{op.name}({op.arguments}) -> {op.returns}");\n' for op in self.operators
        )
        impls = "".join(map(self._impl, self.operators))
        if self.behind:
            impls = impls.replace(";\n  //", ";  //")
        return (
            f"#include <torch/extension.h>\n\n{functions}\n"
            f"TORCH_LIBRARY({self.library}, m) {{\n{defs}}}\n\n"
            f"TORCH_LIBRARY_IMPL({self.library}, CPU, m) {{\n{impls}}}\n"
        )

    def _impl(self, op: Operator) -> str:
        line = f'  m.impl("{op.name}", &{op.name});\n'
        if op.name == self.no_kernel and self.block:
            return f"  /*\n{line}  */\n"
        return self._left_out(line, "  //") if op.name == self.no_kernel else line

    def _wheel(self) -> str:
        cp = f"cp3{self.python}"
        tag = self.tag or ("py3-none-any" if self.pure else f"{cp}-{cp}-manylinux_2_28_x86_64")
        root = str(self.pure).lower()
        return (
            "Wheel-Version: 1.0\nGenerator: setuptools (80.9.0)\n"
            f"Root-Is-Purelib: {root}\nTag: {tag}\n"
        )


def _function(op: Operator) -> str:
    returned = "void" if op.returns == "()" else "at::Tensor"
    lines = "".join(f"  {line}\n" for line in op.body)
    return f"{returned} {op.name}({op.parameters}) {{\n{lines}}}\n"


_PURE = {
    "by_number": (
        "Tensor x, float p",
        "const at::Tensor& x, double p",
        ("TORCH_CHECK(x.is_contiguous());", "at::Tensor y = x.mul(p);", "return y;"),
    ),
    "in_a_copy": (
        "Tensor x, Tensor p",
        "const at::Tensor& x, const at::Tensor& p",
        ("at::Tensor temp = at::empty_like(x);", "temp.copy_(x);", "temp.mul_(p);", "return temp;"),
    ),
}
_SAVED = ("ctx.save_for_backward(p)", "*ctx.saved_tensors")
"""How a formula's tensor waits for the backward, and how it comes back."""
_WRITING = {
    "by_number": ("x.mul_(p);", "return x.clone();"),
    "in_a_copy": (
        "p.clamp_(0, 1);  // probabilities",
        "at::Tensor y = at::empty_like(x);",
        "at::mul_out(y, x, p);",
        "return y;",
    ),
}


def _forward(name: str, kind: str) -> Operator:
    return Operator(name, *_PURE[kind])


def _backward(name: str, kind: str) -> Operator:
    """Of the forward of that kind: it is given the same p."""
    arguments, parameters = (text.replace("x,", "dy,") for text in _PURE[kind][:2])
    body = ("at::Tensor dx = dy.mul(p);", "return dx;")
    return Operator(f"{name}_backward", arguments, parameters, body, differentiable=False)


def _in_place(name: str) -> Operator:
    body = ("x.clamp_(-p, p);",)
    made = Operator(f"{name}_", "Tensor(a!) x, float p", "at::Tensor x, double p", body, "()")
    return replace(made, differentiable=False)


def whole(draw: Draw) -> Release:
    """Two operators with gradients, theirs, and one that writes and says so."""
    one, two, three = draw.shuffled(NAMES)[:3]
    kinds = ((one, "by_number"), (two, "in_a_copy"))
    ops = [made(name, kind) for name, kind in kinds for made in (_forward, _backward)]
    return Release(
        library=draw.choice(LIBRARIES),
        operators=tuple(draw.shuffled([*ops, _in_place(three)])),
        version=f"{draw.integer(0, 3)}.{draw.integer(0, 12)}.{draw.integer(0, 9)}",
        python=draw.integer(10, 13),
        torch=draw.integer(11, 15),
        order=tuple(draw.shuffled(range(5))),
    )


Broken = tuple[Release, str]  # a release, and the place of its fault
Fault = Callable[[Draw, Release, bool], Broken]
"""The last argument: in the form that is harder to see."""


def _operator(draw: Draw, release: Release, *, differentiable: bool) -> str:
    """The name of one of the operators, or of those with a gradient."""
    ops = [op.name for op in release.operators if op.differentiable or not differentiable]
    return draw.choice(ops)


def _no_kernel(draw: Draw, release: Release, commented: bool) -> Broken:
    name = _operator(draw, release, differentiable=commented)  # one whose backward has it
    return replace(release, no_kernel=name, commented=commented), f"{release.library}::{name}"


def _no_fake(draw: Draw, release: Release, commented: bool) -> Broken:
    name = _operator(draw, release, differentiable=commented)
    return replace(release, no_fake=name, commented=commented), f"{release.library}::{name}"


def _no_gradient(draw: Draw, release: Release, commented: bool) -> Broken:
    name = _operator(draw, release, differentiable=True)
    return replace(release, no_gradient=name, commented=commented), f"{release.library}::{name}"


def _undeclared_write(draw: Draw, release: Release, in_the_second: bool) -> Broken:
    kind = "in_a_copy" if in_the_second else "by_number"
    old = next(op for op in release.operators if op.arguments == _PURE[kind][0])
    writes = replace(old, body=_WRITING[kind])
    ops = tuple(writes if op is old else op for op in release.operators)
    return replace(release, operators=ops), f"{release.library}::{old.name}"


def _not_loaded(draw: Draw, release: Release, in_function: bool) -> Broken:
    broken = replace(release, loaded="in a function" if in_function else "never")
    return broken, f"{release.library}/__init__.py"


def load_in_a_comment(draw: Draw) -> Broken:
    release = whole(draw)
    broken = replace(release, loaded="never", commented=True)
    return broken, f"{release.library}/__init__.py"


def loaded_by_nobody(draw: Draw) -> Broken:
    release = replace(whole(draw), loaded="never", beside_it=True)
    return release, f"{release.library}/__init__.py"


def pinned_in_a_comment(draw: Draw) -> Broken:
    release = whole(draw)
    remark = f'dependencies = ["torch==2.{release.torch}.*"]'
    return replace(release, runs_with="torch", remark=remark), "pyproject.toml"


def taken_along_in_a_comment(draw: Draw) -> Broken:
    release = whole(draw)
    remark = f'{release.library} = ["{release.package_data}"]'
    return replace(release, package_data="*.pyi", remark=remark), "pyproject.toml"


def taken_along_behind_a_line(draw: Draw) -> Broken:
    return replace(whole(draw), package_data='*.pyi"]  # ["_C*.so'), "pyproject.toml"


def _torch_unpinned(draw: Draw, release: Release, with_a_bound: bool) -> Broken:
    loose = f"torch>=2.{release.torch}" if with_a_bound else "torch"
    return replace(release, runs_with=loose), "pyproject.toml"


def pinned_to_another(draw: Draw) -> Broken:
    release = whole(draw)
    return replace(release, runs_with=f"torch==2.{release.torch + 1}.*"), "pyproject.toml"


def pinned_nowhere(draw: Draw, bound: str = "") -> Broken:
    """One text in both places, which names no one version. bound: what stands before the number."""
    release = whole(draw)
    loose = f"torch{bound}2.{release.torch}" if bound else "torch"
    return replace(release, built_with=loose, runs_with=loose), "pyproject.toml"


def tag_of_any_platform(draw: Draw) -> Broken:
    release = whole(draw)
    return replace(release, tag=f"cp3{release.python}-cp3{release.python}-any"), release.wheel


def tag_of_any_python(draw: Draw) -> Broken:
    """What WHEEL says beside its tag is right."""
    release = replace(whole(draw), tag="py3-none-any")
    return release, release.wheel


def other_library_taken_along(draw: Draw) -> Broken:
    return replace(whole(draw), package_data="lib*.so"), "pyproject.toml"


def kernel_in_a_block(draw: Draw) -> Broken:
    release = whole(draw)
    name = draw.choice(release.operators).name
    return replace(release, no_kernel=name, block=True), f"{release.library}::{name}"


def left_out_of(draw: Draw, kind: str, end: str) -> Broken:
    """The kernel or the fake of an operator whose name ends so."""
    release = whole(draw)
    name = next(op.name for op in release.operators if op.name.endswith(end))
    broken = replace(release, no_kernel=name if kind == "no_kernel" else "")
    broken = replace(broken, no_fake=name if kind == "no_fake" else "")
    return broken, f"{release.library}::{name}"


def _with_body(draw: Draw, end: str, *body: str, says_so: bool = False) -> tuple[Release, str]:
    """A whole release in which an operator whose name ends so has this body. says_so: that it
    writes x."""
    release = whole(draw)
    old = next(
        op
        for op in release.operators
        if (op.name.endswith(end) if end else op.arguments == _PURE["by_number"][0])
    )
    made = replace(old, body=body)
    if says_so:
        made = replace(made, arguments="Tensor(a!) x, float p", parameters="at::Tensor x, double p")
    ops = tuple(made if op is old else op for op in release.operators)
    return replace(release, operators=ops), f"{release.library}::{old.name}"


def write_in_a_backward(draw: Draw) -> Broken:
    return _with_body(draw, "_backward", "dy.mul_(p);", "return dy.clone();")


def write_with_a_result(draw: Draw) -> Broken:
    return _with_body(draw, "", "at::Tensor y = x.mul_(p);", "return y;")


def write_returned(draw: Draw) -> Broken:
    return _with_body(draw, "", "return x.mul_(p);")


def written_and_returned(draw: Draw) -> Broken:
    """It says that it writes, and returns something: it needs a gradient."""
    release, place = _with_body(draw, "", "x.mul_(p);", "return x.clone();", says_so=True)
    return replace(release, no_gradient=place.partition("::")[2]), place


def unusual(draw: Draw) -> list[Release]:
    """Whole ones in which something looks like a fault and is none."""
    quiet = _with_body(draw, "", "x.mul_(p);", "return x.clone();", says_so=True)[0]
    copied = ("// x.mul_(p);", "at::Tensor y = x.mul(p).add_(1);", "/* p.zero_(); */", "return y;")
    unnamed = whole(draw)
    ops = tuple(
        replace(op, name=f"{op.name}rows") if op.returns == "()" else op for op in unnamed.operators
    )
    return [
        quiet,
        _with_body(draw, "", *copied)[0],
        replace(unnamed, operators=ops),
        replace(whole(draw), package_data="*.so"),
        replace(whole(draw), package_data='_C*.so", "*.pyi'),
        replace(whole(draw), beside="torchmetrics>=1"),
        replace(whole(draw), beside="numpy==2.3.*"),
        replace(whole(draw), remark='dependencies = ["torch"]'),
    ]


def built_with_any(draw: Draw) -> Broken:
    return replace(whole(draw), built_with="torch"), "pyproject.toml"


def kernel_of_a_longer_name(draw: Draw) -> Broken:
    """No kernel, and another operator has one whose name ends in the same word."""
    release = whole(draw)
    one, other = (op for op in release.operators if op.differentiable)
    longer = {f"{other.name}{end}": f"one_{one.name}{end}" for end in ("", "_backward")}
    ops = tuple(replace(op, name=longer.get(op.name, op.name)) for op in release.operators)
    broken = replace(release, operators=ops, no_kernel=one.name)
    return broken, f"{release.library}::{one.name}"


def gradient_of_a_longer_name(draw: Draw) -> Broken:
    """No gradient, and another operator whose name begins with this one's has it."""
    release = whole(draw)
    one, other = (op for op in release.operators if op.differentiable)
    longer = {f"{other.name}{end}": f"{one.name}_rows{end}" for end in ("", "_backward")}
    ops = tuple(replace(op, name=longer.get(op.name, op.name)) for op in release.operators)
    return replace(release, operators=ops, no_gradient=one.name), f"{release.library}::{one.name}"


def kernel_behind_a_line(draw: Draw) -> Broken:
    """The line stands in a comment, and the comment behind another operator's line."""
    release = whole(draw)
    name = draw.choice(release.operators[1:]).name
    broken = replace(release, no_kernel=name, commented=True, behind=True)
    return broken, f"{release.library}::{name}"


def backward_in_its_name(draw: Draw) -> Broken:
    """Its name begins with the word, and does not end with it: it needs a gradient."""
    release = whole(draw)
    old = next(op for op in release.operators if op.arguments == _PURE["by_number"][0])
    named = replace(old, name=f"backward_{old.name}")
    ops = tuple(named if op is old else op for op in release.operators)
    broken = replace(release, operators=ops, no_gradient=named.name)
    return broken, f"{release.library}::{named.name}"


def write_beside_a_declared_one(draw: Draw) -> Broken:
    """One argument may be written, and the kernel writes the other one."""
    release = whole(draw)
    old = next(op for op in release.operators if op.returns == "()")
    writes = replace(
        old,
        arguments="Tensor(a!) x, Tensor p",
        parameters="at::Tensor x, at::Tensor p",
        body=("x.mul_(p);", "p.zero_();"),
    )
    ops = tuple(writes if op is old else op for op in release.operators)
    return replace(release, operators=ops), f"{release.library}::{old.name}"


def _file_left_out(draw: Draw, release: Release, sources: bool) -> Broken:
    return replace(release, package_data="*.cpp" if sources else "*.pyi"), "pyproject.toml"


def _wrong_tag(draw: Draw, release: Release, _: bool) -> Broken:
    return replace(release, pure=True), release.wheel


FAULTS: dict[str, Fault] = {
    "not_loaded": _not_loaded,
    "no_kernel": _no_kernel,
    "no_fake": _no_fake,
    "no_gradient": _no_gradient,
    "undeclared_write": _undeclared_write,
    "torch_unpinned": _torch_unpinned,
    "file_left_out": _file_left_out,
    "wrong_tag": _wrong_tag,
}
