"""play_fusion: its bytes against `count_traffic`, for kernels that are really one operator."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

import onelayer
from onelayer.memory.fusion import head_loss_steps, joined, play_fusion

N, ON = 7, "joined"
CHAIN = {
    "linear": lambda x, w, b, t: F.linear(x, w, b),
    "clamp": lambda z, w, b, t: z.clamp(-30, 30),
    "log_softmax": lambda z, w, b, t: F.log_softmax(z, -1),
    "loss": lambda z, w, b, t: F.nll_loss(z, t),
}
WANTS = {"linear": "wb", "clamp": "", "log_softmax": "", "loss": "t"}
"""What each step reads besides the result before it."""


def counted(kernel: tuple[str, ...]) -> int:
    """Bytes that one operator moves which does these steps, by torch's own dispatcher. Its schema
    names what it reads; of a table of log-probabilities that it only looks up, one for a token."""
    name = "fusion_test::" + "_".join(kernel)
    wants = "".join(WANTS[step] for step in kernel)

    def body(z, *given):
        by_name = dict(zip(wants, given, strict=True))
        for step in kernel:
            z = CHAIN[step](z, *(by_name.get(k) for k in "wbt"))
        return z.clone()

    schema = f"(Tensor z{''.join(f', Tensor {k}' for k in wants)}) -> Tensor"
    with torch.library._scoped_library("fusion_test", "FRAGMENT") as library:
        library.define(name.partition("::")[2] + schema)
        library.impl(name.partition("::")[2], body, "CPU")
        first = torch.randn(N, 64) if kernel[0] == "linear" else torch.randn(N, 600)
        tensors = {"w": torch.randn(600, 64), "b": torch.randn(600), "t": torch.arange(N)}
        operator = getattr(torch.ops.fusion_test, name.partition("::")[2])
        with onelayer.count_traffic() as traffic:
            operator(first, *(tensors[k] for k in wants))
    (op,) = traffic.ops
    return op.bytes_read + op.bytes_written


def test_a_kernel_of_several_steps_moves_what_one_operator_moves() -> None:
    steps = head_loss_steps(N)
    for first, last in itertools.combinations(range(5), 2):
        part = steps[first:last]
        names = tuple(step.name for step in part)
        want = counted(names)
        if names == ("loss",):
            want -= 4 * N * 600 - 4 * N  # nll_loss looks up one number for a token
        if names[-1] == "loss":
            want += 4  # torch's nll_loss also returns the sum of the weights
        assert sum(joined(part)) == want, names


def test_apart_they_are_torchs_own_four_operators() -> None:
    x, w, b, target = (torch.randn(N, 64), torch.randn(600, 64), torch.randn(600), torch.arange(N))
    with onelayer.count_traffic() as traffic:
        F.cross_entropy(F.linear(x, w, b).clamp(-30, 30), target)
    steps = head_loss_steps(N)
    assert [step.op for step in steps] == traffic.ops
    assert sum(sum(joined([step])) for step in steps) == traffic.bytes


def test_the_view_shows_these_bytes_for_every_choice() -> None:
    view = play_fusion(n=N).view
    steps = head_loss_steps(N)
    for way in itertools.product(("apart", ON), repeat=3):
        cuts = [0, *(k + 1 for k, one in enumerate(way) if one != ON), 4]
        kernels = [steps[a:b] for a, b in itertools.pairwise(cuts)]
        scene = view["scenes"]['["' + '","'.join(way) + '"]']
        sizes = [sum(size for size, *_ in parts) for _, parts, _ in scene["lines"]]
        assert sizes == [sum(joined(kernel)) for kernel in kernels]
        assert f"{sum(sizes):,} bytes" in scene["says"]


def test_no_token_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        onelayer.play_fusion(n=0)
