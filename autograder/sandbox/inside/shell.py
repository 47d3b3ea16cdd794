"""A notebook without a notebook: IPython's own shell, made once in the zygote, run in each fork.

Cells mean what they mean in Jupyter (`%timeit`, `!ls`, top-level await, `_`, a last expression that
is shown), and a traceback names the cell it came from.
"""

import ast
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.judge import Raised, raised_by

from .statements import Overrun, Statements, definitions

NO_INSTALLS = {"PIP_NO_INDEX": "1", "PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""There is no network: `!pip install` finds what is here, or says so at once."""


_SPECIAL = re.compile(r"^\s*[!?%,;/]|=\s*[!%]|\?", re.MULTILINE)
"""What each syntax of IPython's own has in one of its lines: a beginning, `= !`, `= %` or `?`."""


class Transformer(TransformerManager):
    """Reads a cell token by token, which takes as long as to run it, only where something in it can
    be IPython's own syntax."""

    def do_token_transforms(self, lines: list[str]) -> list[str]:
        is_plain = not any(map(_SPECIAL.search, lines)) and not self._has_others()
        if is_plain:
            return lines
        found: list[str] = super().do_token_transforms(lines)  # type: ignore[no-untyped-call]
        return found

    def _has_others(self) -> bool:
        """Whether a cell has added syntax of its own."""
        usual = TransformerManager()  # type: ignore[no-untyped-call]
        return bool(self.token_transformers != usual.token_transformers)


class _NamedCompiler(CachingCompiler):
    """Compiles each cell under `<cell NAME>`, and keeps its source where tracebacks look."""

    cell_name = ""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"<cell {self.cell_name}>"


class _Shell(InteractiveShell):
    """Runs a cell's statements one by one, as IPython does, each in its time."""

    statements: Statements | None = None
    only_definitions = False

    async def run_ast_nodes(self, nodelist: list[ast.stmt], *args: Any, **named: Any) -> Any:
        if self.statements is not None:
            nodelist = definitions(nodelist) if self.only_definitions else nodelist
            self.statements.nodes = nodelist
        return await super().run_ast_nodes(nodelist, *args, **named)

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        run = super().run_code
        statements, self.statements = self.statements, None  # a cell that it runs is part of it
        try:
            if statements is None:
                return bool(await run(code_obj, result, async_=async_))  # type: ignore[no-untyped-call]
            if statements.skips_next():
                return False
            with statements.timed():
                failed = await run(code_obj, result, async_=async_)  # type: ignore[no-untyped-call]
            return bool(failed and not statements.goes_on(result.error_in_exec))
        finally:
            self.statements = statements


class NotebookShell:
    """Runs cells in one namespace."""

    def __init__(self) -> None:
        """Nothing of the user's own IPython comes in: no profile, no history, no start-up files."""
        os.environ.update(NO_INSTALLS)
        os.environ["IPYTHONDIR"] = os.path.join(os.environ.get("HOME", "/tmp"), ".ipython")
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.autocall = 0
        config.InteractiveShell.xmode = "Minimal"
        self._shell = _Shell.instance(config=config)
        self._compiler = _NamedCompiler()  # type: ignore[no-untyped-call]
        self._shell.compile = self._compiler
        self._shell.input_transformer_manager = Transformer()  # type: ignore[no-untyped-call]
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

    def run(
        self, name: str, source: str, statements: Statements, *, only_definitions: bool = False
    ) -> Raised | None:
        """Runs one cell; what it raised, if it did. Its output goes to stdout and stderr.

        statements: which of them are left out, and how long each may take; it remembers those that
        took longer. only_definitions: of a cell that ended its process.
        """
        self._compiler.cell_name = name
        self._shell.statements, self._shell.only_definitions = statements, only_definitions
        streams = sys.stdout, sys.stderr  # IPython flushes them, so no cell after this may miss one
        try:
            result: Any = self._shell.run_cell(source, store_history=True)  # type: ignore[no-untyped-call]
            raised = result.error_before_exec or result.error_in_exec
        except BaseException as error:  # a KeyboardInterrupt, or a shell that the cells broke
            raised = error
        finally:
            self._shell.statements, (sys.stdout, sys.stderr) = None, streams
        return None if raised is None or isinstance(raised, Overrun) else raised_by(raised)
