"""The class is graded through what other packages offer: no private name of theirs is touched, and
none of their objects is patched."""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import autograder

HOUSE = Path(autograder.__path__[0])
ROOMS = ("classroom", "gpu")
METHODS = (FunctionType, property, classmethod, staticmethod)
CELL = "gpu/kernel_origins.py"
"""Its text runs in the jail and tries what torch offers under private names only: NVRTC, and the
code that Inductor wrote. The grader runs none of it itself."""
OURS = ("autograder", "onelayer", "tests")
DOCUMENTED = {"os._exit"}
"""Has an underscore and is public: https://docs.python.org/3/library/os.html#os._exit"""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(source: str) -> set[str]:
    """Private names in a module's text that the module does not define itself: attributes of other
    objects, and modules and names that are imported from elsewhere."""
    tree = ast.parse(textwrap.dedent(source))
    own, used = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.id if isinstance(node, ast.Name) else node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            used.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.split(".")  # as `import_module` is given it
            used |= {node.value} if len(parts) > 1 and all(map(str.isidentifier, parts)) else set()
    theirs = {name for name in used if name.split(".")[0] not in OURS}
    return {name for name in theirs if any(map(is_private, name.split(".")))} - DOCUMENTED


def overridden(module: str) -> set[str]:
    """Private names of other packages' classes that our subclasses take for themselves."""
    found = set()
    for name, made in inspect.getmembers(import_module(module), inspect.isclass):
        if made.__module__ == module:
            theirs = [base for base in made.__mro__ if base.__module__.split(".")[0] not in OURS]
            methods = [a for a, value in vars(made).items() if isinstance(value, METHODS)]
            for attribute in filter(is_private, methods):
                if any(attribute in vars(base) for base in theirs):
                    found.add(f"{name}.{attribute}")
    return found


def patched(source: str) -> set[str]:
    """Attributes of imported modules, classes and their objects that are set from here."""
    tree = ast.parse(textwrap.dedent(source))
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    targets = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
    ]
    return {name for node in targets if (name := ast.unparse(node)).split(".")[0] in imported}


FILES = sorted(path for room in ROOMS for path in (HOUSE / room).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_no_private_name_of_another_package_is_touched():
    assert len(FILES) > 50
    found = {str(path.relative_to(HOUSE)): private_names(path.read_text()) for path in FILES}
    assert len(found.pop(CELL)) == 2
    assert {file: names for file, names in found.items() if names} == {}


def test_no_private_method_of_another_package_is_overridden():
    modules = [module_of(path) for path in FILES if path.stem != "__main__"]
    assert {module: names for module in modules if (names := overridden(module))} == {}


def test_no_object_of_another_package_is_patched():
    found = {str(path.relative_to(HOUSE)): patched(path.read_text()) for path in FILES}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "import torch\ntorch._C._dispatch_dump('x')",
        "from nbgrader.dbutil import _temp_alembic_ini",
        "import torch._dynamo",
        "from importlib import import_module\nimport_module('torch._dynamo')",
        "def f(gradebook):\n    return gradebook.db._session",
    ],
)
def test_a_private_name_is_noticed(planted):
    assert private_names(planted)


def test_a_private_method_that_is_overridden_is_noticed(monkeypatch):
    from nbgrader.preprocessors import SaveAutoGrades

    from autograder.classroom.gradebook import recorded

    planted = type("Planted", (SaveAutoGrades,), {"_add_score": lambda self: None})
    planted.__module__ = recorded.__name__
    monkeypatch.setattr(recorded, "Planted", planted, raising=False)
    assert overridden(recorded.__name__) == {"Planted._add_score"}


def test_a_patch_is_noticed():
    assert patched("import nbgrader.api\nnbgrader.api.get_alembic_version = None")
    assert not patched("class A:\n    def __init__(self):\n        self.x = 1")
