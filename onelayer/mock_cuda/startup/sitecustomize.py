"""Python reads this file when it starts, in every process on a mocked device: its torch is prepared
as soon as it is imported, also in a rank that a script starts by itself."""

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any


class _AfterTorch:
    """Finds torch as it would be found without, and prepares it once it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_prepare(module: ModuleType) -> None:
            load(module)
            from onelayer.mock_cuda.instruments import prepare

            prepare()

        spec.loader.exec_module = load_and_prepare  # type: ignore[method-assign]
        return spec


if "ONELAYER_MOCK_FOLDER" in os.environ:
    sys.meta_path.insert(0, _AfterTorch())
