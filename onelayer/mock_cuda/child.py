"""What a fork of the zygote does: it runs the function of `on_mock_gpu`.

In the folder lie the pickled function and its arguments; into it go the pickled outcome and what
the instruments saw.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import cloudpickle
from torch import Tensor
from torch.utils._pytree import tree_map

from onelayer.mock_cuda.aliases import on_cpu, require
from onelayer.mock_cuda.instruments import finish
from onelayer.mock_cuda.run import Failed, Uncomputed, Wanted


def main(folder: Path) -> None:
    wanted: Wanted = cloudpickle.loads((folder / "wanted").read_bytes())
    (folder / "outcome").write_bytes(cloudpickle.dumps(_outcome(wanted)))


def _outcome(wanted: Wanted) -> Any:
    try:
        function, args = cloudpickle.loads(wanted.payload)
        result = function(*args)
        finish()
        return tree_map(_to_host if wanted.values else _described, result)
    except BaseException as error:  # also SystemExit: the notebook asked for an answer
        return Failed(type(error).__name__, str(error), _lines(error))


def _lines(error: BaseException) -> str:
    """The traceback from the function on: the lines before it are ours."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return "".join(traceback.format_list(frames))


def _to_host(value: Any) -> Any:
    if not (isinstance(value, Tensor) and value.is_cuda):
        return value
    require(value)
    return on_cpu(value.detach()).clone()


def _described(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_cuda:
        return Uncomputed(tuple(value.shape), str(value.dtype), str(value.device))
    return value
