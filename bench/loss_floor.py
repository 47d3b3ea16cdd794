"""The least time in which a device can do a step, from what it shows that it can do.

Forward and backward need three products of N x V x D multiply-adds: z = x w^T, dx = dz w, dw =
dz^T x, 6 N V D operations, if each logit is computed once. They have to read x and write dx, 2 N D
numbers; w, b, t and their gradients are small beside that, and no logit needs to reach memory. So

    floor = max(6 N V D / rate of a large product, 2 N D bytes per number / rate of a large copy)

with both rates measured in this run. On an H200 at 790 TFLOP/s and 4.3 TB/s that is 0.31 ms for
N = 2^20 in bfloat16. Who computes the logits again in backward needs four products and can reach
75 % of it; five, as one kernel for dx and one for dw do, 60 %. No account is taken of the N V
exponentials, which are not free either: 0.16 ms at N = 2^20 there.
"""

from __future__ import annotations

from typing import Any

import torch

from bench.loss_devices import D, Device, V

TRIES = 10


def floor(n: int, device: Device) -> dict[str, Any]:
    """floor_ms, and the rates that it follows from: tflops, tb_per_s."""
    a = torch.randn(device.side, device.side, device=device.place, dtype=device.dtype)
    source = torch.ones(device.copied, dtype=torch.int8, device=device.place)
    product_ms = min(device.ms(lambda: a @ a) for _ in range(TRIES))
    copy_ms = min(device.ms(source.clone) for _ in range(TRIES))
    flops_per_ms, bytes_per_ms = 2 * device.side**3 / product_ms, 2 * device.copied / copy_ms
    products_ms = 6 * n * V * D / flops_per_ms
    traffic_ms = 2 * n * D * device.dtype.itemsize / bytes_per_ms
    return {
        "tflops": flops_per_ms / 1e9,
        "tb_per_s": bytes_per_ms / 1e9,
        "products_ms": products_ms,
        "traffic_ms": traffic_ms,
        "floor_ms": max(products_ms, traffic_ms),
    }
