"""No two modules import each other, not even under TYPE_CHECKING or inside a function."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def modules_below(house: Path, root: str) -> dict[str, Path]:
    """Dotted name -> file; a package goes by its own name."""
    files = sorted((house / root).rglob("*.py"))
    parts = ((file.relative_to(house).with_suffix("").parts, file) for file in files)
    return {".".join(p[:-1] if p[-1] == "__init__" else p): file for p, file in parts}


def imported(module: str, file: Path) -> Iterator[str]:
    """Every name that an import statement anywhere in `file` can mean, longest first."""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def arrows(house: Path, root: str) -> dict[str, set[str]]:
    """Module -> the modules below `root` that it imports. `from a import b` is an arrow to a.b
    where that is a module, and to a where it is not."""
    modules = modules_below(house, root)
    found: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = (n if n in modules else n.rpartition(".")[0] for n in imported(module, file))
        found[module] = {name for name in names if name in modules and name != module}
    return found


def hangs_on_its_lab(module: str, other: str) -> bool:
    """A question imports `lab` from its own package, which imports it: the list of a lab's
    questions is made so, and by nothing else."""
    return other.startswith("autograder.checks.lab") and module.rpartition(".")[0] == other


def circle(house: Path, root: str) -> list[str]:
    """One circle of modules, its first named again at the end; [] where there is none."""
    graph = {
        module: {other for other in others if not hangs_on_its_lab(module, other)}
        for module, others in arrows(house, root).items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
@pytest.mark.parametrize("root", ["onelayer", "autograder", "setup_env"])
def test_no_module_comes_back_to_itself(root: str) -> None:
    assert sum(map(len, arrows(REPO, root).values())) > 3, "found nothing to check"
    assert circle(REPO, root) == []


@pytest.mark.parametrize(
    "back",
    [
        "from house.picture import draw",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .picture import draw",
        "def html():\n    from . import picture",
        "import house.picture",
    ],
)
def test_a_planted_circle_is_caught(tmp_path: Path, back: str) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house/__init__.py").write_text('"""A room."""\n')
    (tmp_path / "house/picture.py").write_text("from .storage import Storage\n")
    (tmp_path / "house/storage.py").write_text(back)
    assert set(circle(tmp_path, "house")) == {"house.picture", "house.storage"}
    (tmp_path / "house/storage.py").write_text("from . import __doc__\n")
    assert circle(tmp_path, "house") == []
