"""show_stack: frames from a log, with kernels that really call each other."""

from __future__ import annotations

import pytest
import torch

import onelayer
from onelayer.dispatcher.stack import Frame


def test_kernels_that_redispatch_stand_in_each_other() -> None:
    log: list[str] = []
    with torch.library._scoped_library("stack_test", "FRAGMENT") as library:
        library.define("head(Tensor x, Tensor w) -> Tensor")

        def at_cpu(x, w):
            log.append("CPU begins")
            y = x @ w.T
            log.append("CPU returns")
            return y

        def at_autograd(x, w):
            log.append("AutogradCPU begins")
            with torch._C._AutoDispatchBelowAutograd():
                y = torch.ops.stack_test.head(x, w)
            log.append("AutogradCPU returns")
            return y

        library.impl("head", at_cpu, "CPU")
        library.impl("head", at_autograd, "AutogradCPU")
        torch.ops.stack_test.head(torch.ones(2, 3), torch.ones(4, 3))
    stack = onelayer.show_stack("head(x, w)", log)
    assert stack.frames == (Frame("AutogradCPU", 0, 0, 3), Frame("CPU", 1, 1, 2))
    assert repr(stack).splitlines() == ["head(x, w)", "    AutogradCPU", "        CPU"]
    assert stack.images[0] != stack.images[1]


def test_calls_one_after_the_other_stand_side_by_side() -> None:
    log = ["a begins", "b begins", "b returns", "c begins", "c returns", "a returns"]
    frames = onelayer.show_stack("f()", log).frames
    assert [(frame.name, frame.depth) for frame in frames] == [("a", 0), ("b", 1), ("c", 1)]
    assert frames[1].end < frames[2].begin


@pytest.mark.parametrize(
    "log", [[], ["a begins"], ["a returns"], ["a begins", "b begins", "a returns", "b returns"]]
)
def test_what_is_no_stack_is_refused(log: list[str]) -> None:
    with pytest.raises(ValueError, match=r"frame|begins and returns"):
        onelayer.show_stack("f()", log)
