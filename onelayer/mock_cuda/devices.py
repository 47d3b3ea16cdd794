"""The devices that can be mocked: what each says of itself, and the peaks that its times follow.

Rates are those of NVIDIA's data sheets, checked against the pages that stand beside them: dense
(half of what a sheet gives "with sparsity"), one direction of a link. Limits of a multiprocessor
are those of its compute capability
(https://docs.nvidia.com/cuda/cuda-c-programming-guide/#features-and-technical-specifications).
Memory is what torch calls the total capacity on such a device, which is less than the sheet's GB:
from the messages of real programs that ran out of it.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace

from onelayer.drawing.words import say

GIB = 2**30
_UNITS = {"MiB": 2**20, "GiB": GIB, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class DeviceModel:
    """A device. Memory and caches in bytes, rates in bytes or FLOP per second. `source`: where the
    figures come from."""

    name: str
    major: int
    minor: int
    sms: int
    memory_bytes: int
    hbm_bytes_s: float
    pcie_bytes_s: float
    peer_bytes_s: float
    fp64_flop_s: float
    fp32_flop_s: float
    tf32_flop_s: float
    half_flop_s: float
    l2_bytes: int
    shared_per_sm: int
    shared_optin: int
    threads_per_sm: int
    clock_khz: int
    source: str

    def setting(self) -> str:
        """What the mocked driver is told: `key=value;...`."""
        told = {name: value for name, value in asdict(self).items() if name != "source"}
        return ";".join(f"{name}={value}" for name, value in told.items())


_T4 = DeviceModel(
    name="Tesla T4",
    major=7,
    minor=5,
    sms=40,
    memory_bytes=int(14.56 * GIB),
    hbm_bytes_s=320e9,
    pcie_bytes_s=16e9,
    peer_bytes_s=16e9,
    fp64_flop_s=0.25e12,
    fp32_flop_s=8.1e12,
    tf32_flop_s=8.1e12,  # has none: fp32 then
    half_flop_s=65e12,
    l2_bytes=4 << 20,
    shared_per_sm=64 << 10,
    shared_optin=64 << 10,
    threads_per_sm=1024,
    clock_khz=1_590_000,
    source="https://sysrqmts.com/en/gpus/nvidia/tesla/t4 (data sheet); total capacity: "
    "https://github.com/Zheng-Chong/CatVTON/issues/133",
)
_L4 = DeviceModel(
    name="NVIDIA L4",
    major=8,
    minor=9,
    sms=58,
    memory_bytes=23_034 << 20,
    hbm_bytes_s=300e9,
    pcie_bytes_s=32e9,
    peer_bytes_s=32e9,
    fp64_flop_s=0.47e12,
    fp32_flop_s=30.3e12,
    tf32_flop_s=60e12,
    half_flop_s=121e12,
    l2_bytes=48 << 20,
    shared_per_sm=100 << 10,
    shared_optin=99 << 10,
    threads_per_sm=1536,
    clock_khz=2_040_000,
    source="https://fpsbench.com/compare/gpu/nvidia-l4-vs-nvidia-tesla-m40 (clock, bandwidth, "
    "fp32, cache), https://store.sourcecode.com/en-us/bg-bucket-compare/125/9820 (TF32, with "
    "sparsity; half precision is twice that); memory: "
    "https://github.com/modal-labs/modal-client/issues/2797",
)
_A100 = DeviceModel(
    name="NVIDIA A100-SXM4-80GB",
    major=8,
    minor=0,
    sms=108,
    memory_bytes=int(79.14 * GIB),
    hbm_bytes_s=2039e9,
    pcie_bytes_s=32e9,
    peer_bytes_s=300e9,
    fp64_flop_s=19.5e12,
    fp32_flop_s=19.5e12,
    tf32_flop_s=156e12,
    half_flop_s=312e12,
    l2_bytes=40 << 20,
    shared_per_sm=164 << 10,
    shared_optin=163 << 10,
    threads_per_sm=2048,
    clock_khz=1_410_000,
    source="https://glennklockwood.com/garden/processors/A100, which quotes the data sheet; total "
    "capacity: https://github.com/lianqi1008/Control-GIC/issues/6",
)
_H100 = replace(
    _A100,
    name="NVIDIA H100 80GB HBM3",
    major=9,
    sms=132,
    memory_bytes=85_520_809_984,
    hbm_bytes_s=3.35e12,
    pcie_bytes_s=64e9,
    peer_bytes_s=450e9,
    fp64_flop_s=67e12,
    fp32_flop_s=67e12,
    tf32_flop_s=494.5e12,
    half_flop_s=989.5e12,
    l2_bytes=50 << 20,
    shared_per_sm=228 << 10,
    shared_optin=227 << 10,
    clock_khz=1_980_000,
    source="https://glennklockwood.com/garden/processors/h100 (SXM5); memory: bytes reported in "
    "https://github.com/modal-labs/modal-client/issues/2797",
)
_H200 = replace(
    _H100,
    name="NVIDIA H200",
    memory_bytes=int(139.80 * GIB),
    hbm_bytes_s=4.8e12,
    source="https://github.com/allenai/open-instruct/pull/1441 (4.8 TB/s, and the H100's peaks); "
    "total capacity: 139.80 GiB in torch's messages of several programs on it",
)
DEVICES = {"T4": _T4, "L4": _L4, "A100": _A100, "H100": _H100, "H200": _H200}


def device_model(name: str, memory: str | int | None = None) -> DeviceModel:
    """The device, with another memory if one is given, as in "24 GiB" or in bytes.

    Raises ValueError for a device that is not in the table, or a memory that is no size.
    """
    if name not in DEVICES:
        raise ValueError(
            say("device {name!r}: known are {known}", name=name, known=", ".join(DEVICES))
        )
    model = DEVICES[name]
    return model if memory is None else replace(model, memory_bytes=parse_bytes(memory))


def parse_bytes(text: str | int) -> int:
    """Bytes of "8 GiB", "24GB", "512 MiB" or a number of bytes. Raises ValueError for others."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*([\d.]+)\s*(\w+)\s*", text)
    if not match or match[2] not in _UNITS:
        raise ValueError(say("memory {text!r}: say it as in 8 GiB or 24 GB", text=text))
    return int(float(match[1]) * _UNITS[match[2]])
