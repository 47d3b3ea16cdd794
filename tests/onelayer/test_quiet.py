"""A page without noise: what torch says of a compiler without a GPU and of the guards of one
Python, and only that, is left out."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from onelayer.quiet import keep_quiet

LOOKS = "from torch.utils import cpp_extension; cpp_extension._find_cuda_home()"


def stderr_of(program: str, home: Path) -> str:
    """What `program` says on stderr on a machine that has a CUDA toolkit in `home`."""
    variables = {**os.environ, "CUDA_HOME": str(home)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return done.stderr


@pytest.mark.slow
def test_a_compiler_without_a_gpu_is_no_news(tmp_path: Path) -> None:
    assert stderr_of(f"import onelayer; {LOOKS}", tmp_path) == ""


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU torch is silent by itself")
def test_torch_alone_would_have_said_it(tmp_path: Path) -> None:
    assert "No CUDA runtime is found" in stderr_of(LOOKS, tmp_path)


def test_slow_guards_are_no_news_and_another_warning_is(tmp_path: Path) -> None:
    says = "import warnings; warnings.warn('{}', RuntimeWarning)"
    slow = says.format("Guards may run slower on Python 3.13.0. Consider upgrading.")
    assert stderr_of(f"import onelayer; {slow}", tmp_path) == ""
    assert "Guards may run" in stderr_of(slow, tmp_path)
    other = says.format("Guards failed")
    assert "Guards failed" in stderr_of(f"import onelayer; {other}", tmp_path)


@pytest.mark.slow
def test_tf32_left_alone_is_no_news() -> None:
    said = "from torch._inductor.compile_fx import _warn_tf32_disabled as look; import torch;"
    said += (
        "torch.cuda.is_available = lambda: True; torch.cuda.get_device_capability = lambda: (9, 0);"
    )
    said += "look()"
    assert "TensorFloat32" in stderr_of(said, Path())
    assert stderr_of(f"import onelayer; {said}", Path()) == ""


def test_whatever_else_torch_has_to_say_there_is_said(caplog: pytest.LogCaptureFixture) -> None:
    keep_quiet()
    logger = logging.getLogger("torch.utils.cpp_extension")
    logger.addHandler(caplog.handler)
    logger.warning("No CUDA runtime is found, using CUDA_HOME='%s'", "x")
    logger.warning("The compiler is too old")
    logger.removeHandler(caplog.handler)
    assert {record.getMessage() for record in caplog.records} == {"The compiler is too old"}
    assert logger.filters.count(logger.filters[-1]) == 1
