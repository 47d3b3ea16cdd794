"""The environment of a process that runs on the mocked device: what it loads first, and what the
library is told. A process that it starts, such as a rank of DDP, inherits both."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onelayer.mock_cuda.builds import library
from onelayer.mock_cuda.devices import DeviceModel

MOCKED = "ONELAYER_MOCK_FOLDER"
"""Set in such a process: the folder where its calls are written."""
VALUES = "ONELAYER_MOCK_VALUES"
TRACE = "ONELAYER_MOCK_TRACE"
"""Whether the first process keeps a trace of torch.profiler."""
MAIN = "ONELAYER_MOCK_MAIN"
"""The number of the first process that loaded torch."""
OUT_OF_MEMORY = "out_of_memory"
"""The file that a process leaves where torch ran out of the device's memory."""
STARTUP = Path(__file__).parent / "startup"


def mocked_environment(
    model: DeviceModel, *, devices: int, values: bool, trace: bool, folder: Path
) -> dict[str, str]:
    """The variables of now and those of the mocked device. Raises NoMock where there is none."""
    mock = library()
    mine = {
        "LD_PRELOAD": _joined(str(mock), os.environ.get("LD_PRELOAD", ""), between=" "),
        "LD_LIBRARY_PATH": _joined(str(mock.parent), os.environ.get("LD_LIBRARY_PATH", "")),
        "PYTHONPATH": _joined(str(STARTUP), *sys.path),
        "TRITON_LIBCUDA_PATH": str(mock.parent),
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99"),  # it greets on stderr
        "ONELAYER_MOCK_DEVICE": model.setting(),
        "ONELAYER_MOCK_DEVICES": str(devices),
        VALUES: str(int(values)),
        TRACE: str(int(trace)),
        MOCKED: str(folder),
    }
    return os.environ | mine


def _joined(*parts: str, between: str = ":") -> str:
    return between.join(filter(None, parts))
