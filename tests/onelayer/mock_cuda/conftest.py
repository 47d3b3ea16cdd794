"""What the tests of the mocked device share: it, or one clear sentence why it cannot be here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from onelayer.mock_cuda.builds import NoMock, library
from onelayer.mock_cuda.run import MockRun, on_mock_gpu
from tests.onelayer.mock_cuda import programs

WITHOUT_NUMBERS = (
    "allocator_rules",
    "out_of_memory_and_on",
    "own_profiler",
    "forked",
    "not_mocked",
)
WITH_NUMBERS = (
    "three_steps",
    "never_computed=item",
    "never_computed=copy",
    "never_computed=derived",
    "never_computed=print",
    "sizes_from_numbers",
    "replayed_with_values",
    "convolution",
    "triton_kernel",
    "two_devices",
    "out_of_range",  # the last: a device that met an assert stays as it is
)


@pytest.fixture(scope="session")
def facts(mocked: Callable[..., MockRun]) -> dict[str, Any]:
    """What the programs found out that need no process of their own, by their name."""
    without = mocked(programs.in_turn, *WITHOUT_NUMBERS, memory="1 GiB")
    numbers = mocked(programs.in_turn, *WITH_NUMBERS, values=True, devices=2)
    return {**without.result, **numbers.result, "printed": without.printed}


@pytest.fixture(scope="session")
def mocked() -> Callable[..., MockRun]:
    """`on_mock_gpu`, which runs a program with the same options once. Skips where there can be no
    mocked device, except where ONELAYER_MOCK_REQUIRED says that there must be one."""
    try:
        library()
    except NoMock as why:
        pytest.fail(str(why)) if os.environ.get("ONELAYER_MOCK_REQUIRED") else pytest.skip(str(why))
    known: dict[Any, MockRun] = {}

    def run(program: Callable[..., Any], *args: Any, **options: Any) -> MockRun:
        key = (program, args, tuple(sorted(options.items())))
        if key not in known:
            known[key] = on_mock_gpu(program, *args, show=False, **options)
        return known[key]

    return run
