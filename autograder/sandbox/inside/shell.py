"""A notebook without a notebook: IPython's own shell, made once in the zygote, run in each fork.

Cells mean what they mean in Jupyter (`%timeit`, `!ls`, top-level await, `_`, a last expression that
is shown), and a traceback names the cell it came from.
"""

import os
from collections.abc import Mapping
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.judge import Raised, raised_by


class _NamedCompiler(CachingCompiler):
    """Compiles each cell under `<cell NAME>`, and keeps its source where tracebacks look."""

    cell_name = ""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"<cell {self.cell_name}>"


class NotebookShell:
    """Runs cells in one namespace."""

    def __init__(self) -> None:
        """Nothing of the user's own IPython comes in: no profile, no history, no start-up files."""
        os.environ["IPYTHONDIR"] = os.path.join(os.environ.get("HOME", "/tmp"), ".ipython")
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.autocall = 0
        config.InteractiveShell.xmode = "Minimal"
        self._shell = InteractiveShell.instance(config=config)
        self._compiler = _NamedCompiler()  # type: ignore[no-untyped-call]
        self._shell.compile = self._compiler
        # What a notebook's kernel does without: `%matplotlib inline` and `exit()` in a cell.
        self._shell.enable_gui = lambda gui=None: None  # type: ignore[method-assign]
        self._shell.ask_exit = lambda: None  # type: ignore[attr-defined]
        # The first cell makes what IPython puts off; here once, and not in every fork.
        self._shell.run_cell("def first(): pass", store_history=False)  # type: ignore[no-untyped-call]
        del self._shell.user_ns["first"]

    @property
    def namespace(self) -> Mapping[str, Any]:
        """What the cells defined."""
        names: Mapping[str, Any] = self._shell.user_ns
        return names

    def run(self, name: str, source: str) -> Raised | None:
        """Runs one cell; what it raised, if it did. Its output goes to stdout and stderr."""
        self._compiler.cell_name = name
        try:
            result: Any = self._shell.run_cell(source, store_history=True)  # type: ignore[no-untyped-call]
            raised = result.error_before_exec or result.error_in_exec
        except BaseException as error:  # a KeyboardInterrupt, or a shell that the cells broke
            raised = error
        return None if raised is None else raised_by(raised)
