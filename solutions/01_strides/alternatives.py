"""Other right answers to lab 01: `QUESTION__how`. Never shipped to students.

Each must pass, so that the checks ask for the truth and not for one way to it.
"""

from __future__ import annotations

import itertools
import math

import torch


def contiguous_strides__cumulative(size):
    padded = [max(n, 1) for n in size]
    return [math.prod(padded[d + 1 :]) for d in range(len(padded))]


def address__by_number(index, size, stride, offset):
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return int(torch.arange(reach).as_strided(size, stride, offset)[index])


def is_contiguous__filtered(size, stride):
    if math.prod(size) == 0:
        return True
    used = [(n, s) for n, s in zip(size, stride, strict=True) if n != 1]
    return all(s == math.prod(n for n, _ in used[d + 1 :]) for d, (_, s) in enumerate(used))


def view_strides__by_addresses(size, stride, new_size):
    """Number the elements, lay them out anew, and see whether equal steps explain every address."""
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    addresses = torch.arange(reach).as_strided(size, stride).reshape(new_size)
    first = int(addresses.flatten()[0])
    steps = [
        int(addresses.select(d, 1).flatten()[0]) - first if n > 1 else 0
        for d, n in enumerate(new_size)
    ]
    grid = itertools.product(*map(range, new_size))
    explained = [first + sum(i * s for i, s in zip(index, steps, strict=True)) for index in grid]
    return steps if explained == addresses.flatten().tolist() else None


def sliding_windows__unfold(x, width, step):
    return x.unfold(0, width, step)


def broadcast_strides__from_the_right(size, stride, to):
    out = []
    for d in range(1, len(to) + 1):
        n, s = (size[-d], stride[-d]) if d <= len(size) else (1, 0)
        if n != to[-d] and n != 1:
            return None
        out.append(0 if n != to[-d] else s)
    return tuple(reversed(out))


def overlaps__sorted_addresses(size, stride):
    at = torch.zeros(size, dtype=torch.int64)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        at += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(size))])
    ordered = at.flatten().sort().values
    return bool((ordered.diff() == 0).any())


def copied_bytes__kept_alive(x, steps):
    bill, seen = [], x
    for name, arguments in steps:
        result = getattr(seen, name)(*arguments)
        shared = result.untyped_storage()._cdata == seen.untyped_storage()._cdata
        bill.append(0 if shared else result.untyped_storage().size())
        seen = result
    return bill


def gather_flat__as_strided(flat, stride, offset, index):
    """Rebuild x as the largest view that fits, then gather."""
    n = len(index)
    width = int(index.max()) + 1
    return flat.as_strided((n, width), tuple(stride), offset).gather(1, index)


def centre_windows__stacked(x, width):
    rows = [x[k : k + width] - x[k : k + width].mean() for k in range(len(x) - width + 1)]
    return torch.stack(rows)
