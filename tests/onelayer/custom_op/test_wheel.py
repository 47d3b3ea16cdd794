"""play_wheel: what it says of installers against pip, and of torch against torch's own headers."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from packaging.version import Version

import onelayer
from onelayer.custom_op.wheel import PYTHONS, TORCHES, installs, play_wheel, promised

HERE = sys.version_info[:2]
TAGS = ("py3-none", "cp311-abi3", "cp312-abi3", "cp311-cp311", "cp312-cp312", "cp313-cp313")
INFO = "headloss-0.1.0.dist-info"


def wheel(folder: Path, tag: str) -> Path:
    """A wheel of this name, with nothing but its papers."""
    path = folder / f"headloss-0.1.0-{tag}-linux_x86_64.whl"
    papers = {
        "METADATA": "Metadata-Version: 2.1\nName: headloss\nVersion: 0.1.0\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}-linux_x86_64\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as made:
        for name, text in papers.items():
            made.writestr(f"{INFO}/{name}", text)
    return path


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the wheels are for Linux"
)
@pytest.mark.parametrize("tag", TAGS)
def test_pip_takes_the_same_wheels(tmp_path: Path, tag: str) -> None:
    path = wheel(tmp_path, tag)
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps"]
    done = subprocess.run([*asked, str(path)], capture_output=True, text=True)
    refused = "is not a supported wheel on this platform" in done.stderr
    assert (done.returncode == 0) is not refused, done.stderr
    assert installs(path.name, ">=2.11", HERE, (2, 13)) is not refused


@pytest.mark.parametrize("torch_", TORCHES)
def test_metadata_decides_which_torch(torch_: tuple[int, int]) -> None:
    name = "headloss-0.1.0-py3-none-linux_x86_64.whl"
    assert installs(name, ">=2.11", (3, 12), torch_) is (torch_ >= (2, 11))
    assert installs(name, "==2.13.*", (3, 12), torch_) is (torch_ == (2, 13))


@pytest.mark.parametrize(("flag", "want"), [("0x020b000000000000", (2, 11)), (None, None)])
@pytest.mark.compiler
def test_torchs_header_aims_at_the_target_or_at_its_own_release(
    flag: str | None, want: tuple[int, int] | None
) -> None:
    flags = [f"-DTORCH_TARGET_VERSION={flag}"] if flag else []
    asked = "#include <torch/csrc/stable/version.h>\nthe_version TORCH_FEATURE_VERSION\n"
    include = f"-I{Path(torch.__file__).parent / 'include'}"
    command = ["c++", "-E", "-xc++", *flags, include, "-"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    text = re.sub(r"(?<=\d)(ULL|UL|U)|\(uint64_t\)", "", done.stdout.split("the_version")[1])
    number = int(eval(text.replace("\n", " "), {"__builtins__": {}}))  # shifts of constants
    aims_at = (number >> 56, number >> 48 & 0xFF)
    version = Version(torch.__version__)
    assert aims_at == (want or (version.major, version.minor))


def test_what_is_promised() -> None:
    ways = ("stable ABI, target 2.11", "stable ABI, no target", "C++ classes")
    kept = {way: [torch_ for torch_ in TORCHES if promised(way, torch_)] for way in ways}
    assert kept[ways[0]] == list(TORCHES[1:])
    assert kept[ways[1]] == list(TORCHES[3:])
    assert kept[ways[2]] == [(2, 13)]


def test_the_view_counts_what_it_draws() -> None:
    view = play_wheel().view
    best = 0
    for scene in view["scenes"].values():
        looks = [look for _, parts, _ in scene["lines"] for _, look, _ in parts]
        assert len(looks) == len(PYTHONS) * len(TORCHES)
        assert f"runs on {looks.count('green')} of {len(looks)}." in scene["says"]
        assert ("undefined symbol" in scene["says"]) is ("red" in looks)
        best = max(best, looks.count("green"))
    target_and_no_python = view["scenes"]['["stable ABI, target 2.11","none","torch>=2.11"]']
    assert f"runs on {best} of" in target_and_no_python["says"]  # what the chapter advises


def test_it_is_public() -> None:
    assert onelayer.play_wheel is play_wheel
