"""Python reads this file when it starts, in every process on a mocked device: its torch is prepared
as soon as it is imported, also in a rank that a script starts by itself."""

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def _torch(_: ModuleType) -> None:
    from onelayer.mock_cuda.instruments import prepare

    prepare()


def _triton(module: ModuleType) -> None:
    from onelayer.mock_cuda.kernels import mark_what_triton_launches

    mark_what_triton_launches(module)


WATCHED = {
    "torch": _torch,
    "triton.runtime.jit": _triton,
    "torch._inductor.runtime.triton_heuristics": _triton,
}


class _After:
    """Finds modules as they would be found without it, and does something once they are loaded."""

    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self.wanted = wanted

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        after = self.wanted.pop(name, None)
        spec = importlib.util.find_spec(name) if after else None
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_do(module: ModuleType) -> None:
            load(module)
            assert after is not None
            after(module)

        spec.loader.exec_module = load_and_do  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Prepares each watched module: at once where it is loaded, else as soon as it is."""
    waiting = {name: act for name, act in WATCHED.items() if name not in sys.modules}
    sys.meta_path.insert(0, _After(waiting))
    for name in WATCHED.keys() - waiting.keys():
        WATCHED[name](sys.modules[name])


if "ONELAYER_MOCK_FOLDER" in os.environ:
    watch()
