"""Showing a picture in the cell that made it, also when it is not the cell's last line."""

import ast
import linecache
import sys
from types import FrameType
from typing import Any, Self


class Shown:
    """Something that shows itself when it is made in a notebook, and once per cell.

    `show()` puts it on the page at once. If it is then also the value of the cell's last line, the
    notebook would show it a second time: that second time it stays silent. Asked for in a later
    cell, it appears again. Outside IPython nothing is shown; its repr is its text.
    """

    _shown_in: int | None = None

    def bundle(self) -> dict[str, Any]:
        """What to show, by MIME type."""
        raise NotImplementedError

    def show(self) -> Self:
        """Shows it now, and returns it."""
        if (cell := _current_cell()) is not None:
            from IPython.display import display

            display(self.bundle(), raw=True)  # type: ignore[no-untyped-call]
            object.__setattr__(self, "_shown_in", cell)  # a frozen dataclass may be Shown
        return self

    def _ipython_display_(self) -> None:
        if self._shown_in != _current_cell():
            self.show()


def _current_cell() -> int | None:
    """The number of the cell that IPython is running, or None outside IPython."""
    ipython = sys.modules.get("IPython")  # whoever runs in it has imported it
    shell = ipython.get_ipython() if ipython else None
    return None if shell is None else int(shell.execution_count)


def argument_names(frame: FrameType, count: int) -> list[str] | None:
    """The `count` positional arguments of the call that `frame` is in, as the caller wrote them.

    None where the source is out of sight or the arguments are not plain: in a REPL, behind `*args`.
    """
    try:
        place = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        line, last_line, column, last_column = (number or 0 for number in place)
        source = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : last_line]
        source[-1] = source[-1].encode()[:last_column].decode()
        source[0] = source[0].encode()[column:].decode()
        call = ast.parse("".join(source), mode="eval").body
    except (IndexError, SyntaxError, TypeError, ValueError):
        return None
    if not isinstance(call, ast.Call) or len(call.args) != count:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    return [ast.unparse(argument) for argument in call.args]
