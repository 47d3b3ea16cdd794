"""The environment of a process that runs on the mocked device: what it loads first, and what the
library is told. A process that it starts, such as a rank of DDP, inherits both."""

from __future__ import annotations

import os
from pathlib import Path

from onelayer.mock_cuda.builds import library
from onelayer.mock_cuda.devices import DeviceModel

MOCKED = "ONELAYER_MOCK_FOLDER"
"""Set in such a process: the folder where its calls are written."""


def mocked_environment(
    model: DeviceModel, *, devices: int, values: bool, folder: Path
) -> dict[str, str]:
    """The variables of now and those of the mocked device. Raises NoMock where there is none."""
    mock = library()
    mine = {
        "LD_PRELOAD": _joined(str(mock), os.environ.get("LD_PRELOAD", ""), " "),
        "LD_LIBRARY_PATH": _joined(str(mock.parent), os.environ.get("LD_LIBRARY_PATH", ""), ":"),
        "TRITON_LIBCUDA_PATH": str(mock.parent),
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99"),  # it greets on stderr
        "CUDA_MODULE_LOADING": "LAZY",
        "ONELAYER_MOCK_DEVICE": model.setting(),
        "ONELAYER_MOCK_DEVICES": str(devices),
        "ONELAYER_MOCK_VALUES": str(int(values)),
        MOCKED: str(folder),
    }
    return os.environ | mine


def _joined(first: str, rest: str, between: str) -> str:
    return between.join(filter(None, [first, rest]))


def is_mocked() -> bool:
    """Whether this process runs on a mocked device."""
    return MOCKED in os.environ
