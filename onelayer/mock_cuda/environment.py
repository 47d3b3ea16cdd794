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
DEVICE = "ONELAYER_MOCK_DEVICE"
DEVICES = "ONELAYER_MOCK_DEVICES"
OF_ONE_RUN = frozenset({MOCKED, VALUES, TRACE, DEVICE, DEVICES, "PYTEST_CURRENT_TEST"})
"""What nobody reads before a device is used: runs that differ in no other variable can be forks of
one process that has loaded torch."""
OUT_OF_MEMORY = "out_of_memory"
"""The file that a process leaves where torch ran out of the device's memory."""
STARTUP = Path(__file__).parent / "startup"


def mocked_environment(
    model: DeviceModel, *, devices: int, values: bool, trace: bool, folder: Path
) -> dict[str, str]:
    """The variables of now and those of the mocked device. Raises NoMock where there is none."""
    loaded = loading(library(), model, devices=devices, values=values)
    loaded["LD_PRELOAD"] += _also(" ", os.environ.get("LD_PRELOAD", ""))
    loaded["LD_LIBRARY_PATH"] += _also(":", os.environ.get("LD_LIBRARY_PATH", ""))
    watched = {
        "PYTHONPATH": ":".join([str(STARTUP), *filter(None, sys.path)]),
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99"),  # it greets on stderr
        TRACE: str(int(trace)),
        MOCKED: str(folder),
    }
    return os.environ | loaded | watched


def loading(mock: Path, model: DeviceModel, *, devices: int, values: bool) -> dict[str, str]:
    """What a process needs to find the mocked device. Nothing is recorded of it, and its torch is
    not prepared: that is `instruments.prepare_torch`."""
    return {
        "LD_PRELOAD": str(mock),
        "LD_LIBRARY_PATH": str(mock.parent),
        "TRITON_LIBCUDA_PATH": str(mock.parent),
        DEVICE: model.setting(),
        DEVICES: str(devices),
        VALUES: str(int(values)),
    }


def _also(between: str, more: str) -> str:
    return between + more if more else ""
