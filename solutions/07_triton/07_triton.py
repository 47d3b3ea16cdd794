# %% [markdown] id="title"
# # Lab 07: kernels in Triton
#
# You write the kernels of the head: softmax, linear, and the loss without its logits, forward and
# backward. Then you count what they move, predict what they cost, repair five of them, and read
# what a compiler made of one.
#
# Work from top to bottom, in about two hours, after [chapter 07](../../notebooks/07_triton.ipynb).
# No GPU is needed. Each question but the last has a stub, a check that answers at once, and three
# hints. Only the cells with answers are graded, all of them together: keep helper functions in
# them. Sizes: N tokens, D features, V words; `x (N, D)`, `w (V, D)`, `b (V,)`, `z (N, V)`.

# %% id="setup" tags=["setup"]
import inspect
import math
import re
from collections import Counter

import torch

try:
    from triton import language as tl

    from onelayer.kernels.triton_jit import kernel as jit
except ImportError:  # not here: kernels are checked, and not launched

    class tl:
        constexpr = int

    jit = None

# %% id="instruments"
from autograder import answered, check, hint, progress

# %% [markdown] id="the-decorator"
# `@kernel` is `triton.jit` where there is a GPU, and Triton's interpreter where there is none. It
# also keeps the text of your kernel: the text is what a check asks for. A check does not run it as
# Python. It reads the words of `tl` one by one, for each program of a grid, and knows of every
# element who loaded and who stored it. So it sees what Triton's interpreter lets pass: a lane
# outside of a tensor, and two programs in one element.

# %% id="decorator" tags=["setup"]
SOURCES = {}


def kernel(function):
    """A kernel, to be launched as function[grid](...)."""
    SOURCES[function.__name__] = inspect.getsource(function)
    return function if jit is None else jit(function)


def written(name):
    """The text of your kernel `name`. A stub in it is no answer yet."""
    if name not in SOURCES:
        raise NameError(f"there is no kernel {name}: its cell begins with @kernel", name=name)
    if stub := re.search(r'NotImplementedError\("(Lab [^"]*)"', SOURCES[name]):
        raise NotImplementedError(stub[1])
    return SOURCES[name]


# %% [markdown] id="worked-example"
# ## Worked example: a kernel is one program of many
#
# Scale the features of x: `y[n, d] = x[n, d] * s[d]`. Every kernel of this lab takes the same four
# steps: **which part is mine**, **where is it** (pointer, index times stride), **compute**,
# **store**. Blocks have shapes that are powers of two, known when the kernel is compiled. A mask
# switches off the lanes that hang over.


# %% id="worked-example-code" tags=["worked-example"]
@kernel
def scaled(x_ptr, s_ptr, y_ptr, D, x_n, x_d, BLOCK: tl.constexpr):
    n = tl.program_id(0)  # which part is mine: row n, all of its features
    d = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n * x_n + d * x_d, mask=d < D)  # where is it
    y = x * tl.load(s_ptr + d, mask=d < D)  # compute
    tl.store(y_ptr + n * D + d, y, mask=d < D)  # store


if jit is None:
    print("Triton is not here (on Linux: pip install triton). The checks read your kernels anyway.")
else:
    on = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(6.0, device=on).view(2, 3).T  # (3, 2), strides (1, 3)
    s, y = torch.tensor([1.0, 10.0], device=on), torch.empty(3, 2, device=on)
    scaled[(3,)](x, s, y, 2, *x.stride(), BLOCK=4)
    print(y)

# %% [markdown] id="a-row"
# ## A program for each row
#
# Add the bias to the logits and take the softmax over the words: `y = softmax(x + b)`. x is (N, V),
# b is (V,), the grid is `(N,)`, and BLOCK is the power of two from V on. All of them come with any
# strides: `x_n` is how far it is from `x[n, v]` to `x[n + 1, v]`, in elements. Logits may be large,
# and all of a row may be below 0. Stuck? `hint("softmax_kernel")`


# %% id="softmax_kernel" role="solution"
@kernel
def softmax_kernel(x_ptr, b_ptr, y_ptr, V, x_n, x_v, b_v, y_n, y_v, BLOCK: tl.constexpr):
    """y (N, V) = softmax(x + b) over the words; program n has row n."""
    ### BEGIN SOLUTION
    n = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    z = tl.load(x_ptr + n * x_n + v * x_v, mask=v < V, other=float("-inf"))
    z += tl.load(b_ptr + v * b_v, mask=v < V, other=0.0)
    e = tl.exp(z - tl.max(z, 0))
    tl.store(y_ptr + n * y_n + v * y_v, e / tl.sum(e, 0), mask=v < V)
    ### END SOLUTION


# %% id="softmax_kernel_check" role="check"
check("softmax_kernel")


# %% id="softmax_kernel_alternative" role="alternative"
@kernel
def softmax_kernel(x_ptr, b_ptr, y_ptr, V, x_n, x_v, b_v, y_n, y_v, BLOCK: tl.constexpr):
    """In units of log 2, with the lanes taken out behind the load."""
    row = tl.program_id(axis=0)
    word = tl.arange(0, BLOCK)
    inside = word < V
    x = tl.load(x_ptr + (row * x_n + word * x_v), mask=inside, other=0.0)
    b = tl.load(b_ptr + word * b_v, mask=inside, other=0.0)
    z = tl.where(inside, (x + b) * 1.4426950408889634, -1e30)
    e = tl.where(inside, tl.exp2(z - tl.max(z, axis=0)), 0.0)
    total = tl.sum(e, axis=0)
    tl.store(y_ptr + row * y_n + word * y_v, e / total, inside)


# %% id="softmax_kernel_alternative_in_blocks" role="alternative"
@kernel
def softmax_kernel(x_ptr, b_ptr, y_ptr, V, x_n, x_v, b_v, y_n, y_v, BLOCK: tl.constexpr):
    """A row as a block (1, BLOCK), and the softmax as exp(z - lse)."""
    n = tl.program_id(0) + tl.arange(0, 1)[:, None]
    v = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + n * x_n + v * x_v, mask=v < V, other=float("-inf"))
    z = x + tl.load(b_ptr + v * b_v, mask=v < V, other=float("-inf"))
    top = tl.max(z, 1)
    lse = top + tl.log(tl.sum(tl.exp(z - top[:, None]), 1))
    tl.store(y_ptr + n * y_n + v * y_v, tl.exp(z - lse[:, None]), mask=v < V)


# %% [markdown] id="a-tile"
# ## A program for each tile
#
# The head itself, `y = x w^T + b`, in tiles of ROWS tokens and WORDS words. A program walks over
# the features in steps of FEATURES. N, V and D are no multiples of anything. The grid is
# `(ceil(N / ROWS), ceil(V / WORDS))`. Products are those of float32: newer GPUs round the factors
# of `tl.dot` to ten bits unless it is told `input_precision="ieee"`, and the check rounds as they
# do. Stuck? `hint("linear_kernel")`


# %% id="linear_kernel" role="solution"
@kernel
def linear_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, N, V, D, x_n, x_d, w_v, w_d, b_v, y_n, y_v,
    ROWS: tl.constexpr, WORDS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """y (N, V) = x w^T + b; program (i, j) has tile (i, j) of y."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    z = tl.zeros((ROWS, WORDS), tl.float32)
    for first in range(0, D, FEATURES):
        d = first + tl.arange(0, FEATURES)
        x_mask = (rows < N)[:, None] & (d < D)[None, :]
        w_mask = (words < V)[:, None] & (d < D)[None, :]
        x = tl.load(x_ptr + rows[:, None] * x_n + d[None, :] * x_d, mask=x_mask, other=0.0)
        w = tl.load(w_ptr + words[:, None] * w_v + d[None, :] * w_d, mask=w_mask, other=0.0)
        z += tl.dot(x, tl.trans(w), input_precision="ieee")
    z += tl.load(b_ptr + words * b_v, mask=words < V, other=0.0)[None, :]
    y_mask = (rows < N)[:, None] & (words < V)[None, :]
    tl.store(y_ptr + rows[:, None] * y_n + words[None, :] * y_v, z, mask=y_mask)
    ### END SOLUTION


# %% id="linear_kernel_check" role="check"
check("linear_kernel")


# %% id="linear_kernel_alternative" role="alternative"
@kernel
def linear_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, N, V, D, x_n, x_d, w_v, w_d, b_v, y_n, y_v,
    ROWS: tl.constexpr, WORDS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Pointers that move on, w loaded as its transpose, the bias as what the sum begins with."""
    n = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    v = (tl.program_id(1) * WORDS + tl.arange(0, WORDS))[None, :]
    b = tl.load(b_ptr + v * b_v, mask=v < V, other=0.0)
    z = tl.zeros((ROWS, WORDS), dtype=tl.float32) + b
    k = tl.arange(0, FEATURES)
    x_at = x_ptr + n * x_n + k[None, :] * x_d
    w_at = w_ptr + v * w_v + k[:, None] * w_d
    for turn in range(tl.cdiv(D, FEATURES)):
        left = D - turn * FEATURES
        x = tl.load(x_at, mask=(n < N) & (k[None, :] < left), other=0.0)
        w = tl.load(w_at, mask=(v < V) & (k[:, None] < left), other=0.0)
        z = tl.dot(x, w, z, input_precision="ieee")
        x_at += FEATURES * x_d
        w_at += FEATURES * w_d
    tl.store(y_ptr + n * y_n + v * y_v, z, mask=(n < N) & (v < V))


# %% id="linear_kernel_alternative_by_features" role="alternative"
@kernel
def linear_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, N, V, D, x_n, x_d, w_v, w_d, b_v, y_n, y_v,
    ROWS: tl.constexpr, WORDS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """One feature after the other, as an outer product: no tile of features, so no edge of D."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    v = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    z = tl.zeros((ROWS, WORDS), tl.float32)
    for d in range(D):
        x = tl.load(x_ptr + n * x_n + d * x_d, mask=n < N, other=0.0)
        w = tl.load(w_ptr + v * w_v + d * w_d, mask=v < V, other=0.0)
        z += x[:, None] * w[None, :]
    b = tl.load(b_ptr + v * b_v, mask=v < V, other=0.0)
    at = y_ptr + n[:, None] * y_n + v[None, :] * y_v
    tl.store(at, z + b[None, :], mask=(n < N)[:, None] & (v < V)[None, :])


# %% [markdown] id="merge"
# ## Two tiles of a row, merged
#
# The loss needs the log-sum-exp of a row, and a row need not be in one place for it. Of a tile two
# numbers are enough: `top`, its largest logit, and `total`, the sum of `exp(z - top)`. Write how
# two such pairs become that of both tiles together, with ordinary torch. A tile whose logits are
# all -inf, or that has none, is `(-inf, 0)`. Stuck? `hint("running_lse")`


# %% id="running_lse" role="solution"
def running_lse(a, b):
    """a, b: (top (N,), total (N,)) float32 -> (top, total) of both tiles together."""
    ### BEGIN SOLUTION
    top = torch.maximum(a[0], b[0])
    safe = torch.where(top == -math.inf, 0.0, top)
    return top, a[1] * (a[0] - safe).exp() + b[1] * (b[0] - safe).exp()
    ### END SOLUTION


# %% id="running_lse_check" role="check"
check("running_lse")


# %% id="running_lse_alternative" role="alternative"
def running_lse(a, b):
    """The larger one keeps its total; the other's is scaled by the distance of the tops."""
    (top_a, total_a), (top_b, total_b) = a, b
    near = torch.where(top_a >= top_b, total_a, total_b)
    far = torch.where(top_a >= top_b, total_b, total_a)
    distance = torch.nan_to_num((top_a - top_b).abs(), nan=0.0)
    return torch.where(top_a >= top_b, top_a, top_b), near + far * torch.exp(-distance)


# %% id="running_lse_alternative_by_logs" role="alternative"
def running_lse(a, b):
    """Through the log-sum-exp of each, by torch's own logaddexp."""
    top = torch.maximum(a[0], b[0]).double()
    lse = torch.logaddexp(a[0] + a[1].double().log(), b[0] + b[1].double().log())
    total = torch.where(top == -math.inf, 0.0, lse - top).exp()
    return top.float(), torch.where(top == -math.inf, 0.0, total).float()


# %% [markdown] id="fused-forward"
# ## The loss without its logits
#
# Linear and cross-entropy in one kernel. A program has ROWS tokens and walks over all words in
# tiles of WORDS; no logit reaches memory. It stores two numbers a token: `lse`, and the loss
# `lse - z[target]`. D is a power of two, so x fits into one block; w (V, D), b and t lie
# contiguous, x has any strides. The grid is `(ceil(N / ROWS),)`. Stuck? `hint("fused_loss_kernel")`


# %% id="fused_loss_kernel" role="solution"
@kernel
def fused_loss_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, loss_ptr, lse_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """loss (N,) and lse (N,) of z = x w^T + b and the targets t (N,)."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + rows[:, None] * x_n + d[None, :] * x_d, mask=(rows < N)[:, None], other=0.0)
    target = tl.load(t_ptr + rows, mask=rows < N, other=0)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    at_target = tl.zeros((ROWS,), tl.float32)
    for first in range(0, V, WORDS):
        v = first + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[:, None] * D + d[None, :], mask=(v < V)[:, None], other=0.0)
        z = tl.dot(x, tl.trans(w), input_precision="ieee")
        z += tl.load(b_ptr + v, mask=v < V, other=float("-inf"))[None, :]
        higher = tl.maximum(top, tl.max(z, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher[:, None]), 1)
        at_target += tl.sum(tl.where(v[None, :] == target[:, None], z, 0.0), 1)
        top = higher
    lse = top + tl.log(total)
    tl.store(lse_ptr + rows, lse, mask=rows < N)
    tl.store(loss_ptr + rows, lse - at_target, mask=rows < N)
    ### END SOLUTION


# %% id="fused_loss_kernel_check" role="check"
check("fused_loss_kernel")


# %% id="fused_loss_kernel_alternative" role="alternative"
@kernel
def fused_loss_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, loss_ptr, lse_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """The target's logit by itself, from its own row of w; the walk keeps the log-sum-exp alone."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = n < N
    d = tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + n[:, None] * x_n + d * x_d, mask=inside[:, None], other=0.0)
    t = tl.load(t_ptr + n, mask=inside, other=0)
    hit = tl.load(w_ptr + t[:, None] * D + d, mask=inside[:, None], other=0.0)
    at_target = tl.sum(x * hit, 1) + tl.load(b_ptr + t, mask=inside, other=0.0)
    lse = tl.full((ROWS,), float("-inf"), tl.float32)
    for tile in range(tl.cdiv(V, WORDS)):
        v = tile * WORDS + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[:, None] * D + d, mask=(v < V)[:, None], other=0.0)
        b = tl.load(b_ptr + v, mask=v < V, other=0.0)
        z = tl.dot(x, w.T, input_precision="ieee") + b[None, :]
        z = tl.where((v < V)[None, :], z, float("-inf"))
        top = tl.maximum(lse, tl.max(z, 1))
        lse = top + tl.log(tl.exp(lse - top) + tl.sum(tl.exp(z - top[:, None]), 1))
    tl.store(lse_ptr + n, lse, inside)
    tl.store(loss_ptr + n, lse - at_target, inside)


# %% id="fused_loss_kernel_alternative_twice" role="alternative"
@kernel
def fused_loss_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, loss_ptr, lse_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Two walks over the words: the first finds the maximum, the second adds up."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + n[:, None] * x_n + d[None, :] * x_d, mask=(n < N)[:, None], other=0.0)
    t = tl.load(t_ptr + n, mask=n < N, other=0)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    for first in range(0, V, WORDS):
        v = first + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[None, :] * D + d[:, None], mask=(v < V)[None, :], other=0.0)
        b = tl.load(b_ptr + v, mask=v < V, other=float("-inf"))
        top = tl.maximum(top, tl.max(tl.dot(x, w, input_precision="ieee") + b[None, :], 1))
    total = tl.zeros((ROWS,), tl.float32)
    gain = tl.zeros((ROWS,), tl.float32)
    for first in range(0, V, WORDS):
        v = first + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[None, :] * D + d[:, None], mask=(v < V)[None, :], other=0.0)
        b = tl.load(b_ptr + v, mask=v < V, other=float("-inf"))
        z = tl.dot(x, w, input_precision="ieee") + b[None, :] - top[:, None]
        total += tl.sum(tl.exp(z), 1)
        gain += tl.sum(tl.where(v[None, :] == t[:, None], z, 0.0), 1)
    tl.store(lse_ptr + n, top + tl.log(total), mask=n < N)
    tl.store(loss_ptr + n, tl.log(total) - gain, mask=n < N)


# %% [markdown] id="fused-backward"
# ## And its backward
#
# No logit was kept, so the backward computes them again, tile by tile, from x, w and the `lse` that
# the forward stored. `dloss (N,)` is the cotangent of the losses. A program has ROWS tokens: it
# stores their dx, and adds what they contribute to dw and db. All programs add to the same dw and
# db, which are 0 before the launch: `tl.atomic_add(pointers, values, mask=...)`. Gradients are
# contiguous. Stuck? `hint("fused_backward_kernel")`


# %% id="fused_backward_kernel" role="solution"
@kernel
def fused_backward_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, dloss_ptr, dx_ptr, dw_ptr, db_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """dx (N, D), dw (V, D), db (V,) of the losses, given dloss (N,)."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + rows[:, None] * x_n + d[None, :] * x_d, mask=(rows < N)[:, None], other=0.0)
    target = tl.load(t_ptr + rows, mask=rows < N, other=0)
    lse = tl.load(lse_ptr + rows, mask=rows < N, other=float("inf"))
    dloss = tl.load(dloss_ptr + rows, mask=rows < N, other=0.0)
    dx = tl.zeros((ROWS, D), tl.float32)
    for first in range(0, V, WORDS):
        v = first + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[:, None] * D + d[None, :], mask=(v < V)[:, None], other=0.0)
        z = tl.dot(x, tl.trans(w), input_precision="ieee")
        z += tl.load(b_ptr + v, mask=v < V, other=float("-inf"))[None, :]
        hit = tl.where(v[None, :] == target[:, None], 1.0, 0.0)
        dz = (tl.exp(z - lse[:, None]) - hit) * dloss[:, None]
        dx += tl.dot(dz, w, input_precision="ieee")
        dw = tl.dot(tl.trans(dz), x, input_precision="ieee")
        tl.atomic_add(dw_ptr + v[:, None] * D + d[None, :], dw, mask=(v < V)[:, None])
        tl.atomic_add(db_ptr + v, tl.sum(dz, 0), mask=v < V)
    tl.store(dx_ptr + rows[:, None] * D + d[None, :], dx, mask=(rows < N)[:, None])
    ### END SOLUTION


# %% id="fused_backward_kernel_check" role="check"
check("fused_backward_kernel")


# %% id="fused_backward_kernel_alternative" role="alternative"
@kernel
def fused_backward_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, dloss_ptr, dx_ptr, dw_ptr, db_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """With dz as its transpose, and the target by itself behind the loop."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)[None, :]
    inside = n < N
    x = tl.load(x_ptr + n[:, None] * x_n + d * x_d, mask=inside[:, None], other=0.0)
    lse = tl.load(lse_ptr + n, mask=inside, other=float("inf"))
    g = tl.load(dloss_ptr + n, mask=inside, other=0.0)
    t = tl.load(t_ptr + n, mask=inside, other=0)
    own = tl.load(w_ptr + t[:, None] * D + d, mask=inside[:, None], other=0.0)
    dx = -own * g[:, None]
    tl.atomic_add(dw_ptr + t[:, None] * D + d, -x * g[:, None], mask=inside[:, None])
    tl.atomic_add(db_ptr + t, -g, mask=inside)
    for tile in range(tl.cdiv(V, WORDS)):
        v = tile * WORDS + tl.arange(0, WORDS)
        w = tl.load(w_ptr + v[:, None] * D + d, mask=(v < V)[:, None], other=0.0)
        b = tl.load(b_ptr + v, mask=v < V, other=0.0)
        z = tl.dot(w, tl.trans(x), input_precision="ieee") + b[:, None]
        dz = tl.where((v < V)[:, None], tl.exp(z - lse[None, :]) * g[None, :], 0.0)
        dx = tl.dot(tl.trans(dz), w, dx, input_precision="ieee")
        at = v[:, None] * D + d
        tl.atomic_add(dw_ptr + at, tl.dot(dz, x, input_precision="ieee"), mask=(v < V)[:, None])
        tl.atomic_add(db_ptr + v, tl.sum(dz, 1), mask=v < V)
    tl.store(dx_ptr + n[:, None] * D + d, dx, mask=inside[:, None])


# %% id="fused_backward_kernel_alternative_outer" role="alternative"
@kernel
def fused_backward_kernel(
    x_ptr, w_ptr, b_ptr, t_ptr, lse_ptr, dloss_ptr, dx_ptr, dw_ptr, db_ptr, N, V, x_n, x_d,
    D: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Token after token, without a product of tiles."""
    d = tl.arange(0, D)
    first = tl.program_id(0) * ROWS
    for n in range(first, tl.minimum(first + ROWS, N)):
        x = tl.load(x_ptr + n * x_n + d * x_d)
        lse, g = tl.load(lse_ptr + n), tl.load(dloss_ptr + n)
        t = tl.load(t_ptr + n)
        dx = tl.zeros((D,), tl.float32)
        for begin in range(0, V, WORDS):
            v = begin + tl.arange(0, WORDS)
            w = tl.load(w_ptr + v[:, None] * D + d[None, :], mask=(v < V)[:, None], other=0.0)
            z = tl.sum(w * x[None, :], 1) + tl.load(b_ptr + v, mask=v < V, other=float("-inf"))
            dz = (tl.exp(z - lse) - (v == t).to(tl.float32)) * g
            dx += tl.sum(dz[:, None] * w, 0)
            dw = dz[:, None] * x[None, :]
            tl.atomic_add(dw_ptr + v[:, None] * D + d[None, :], dw, mask=(v < V)[:, None])
            tl.atomic_add(db_ptr + v, dz, mask=v < V)
        tl.store(dx_ptr + n * D + d, dx)


# %% [markdown] id="as-they-run"
# And as they run: your loss and its gradients beside torch's own, in Triton's interpreter or on
# your GPU. The interpreter is slow; 20 tokens are enough.


# %% id="as-they-run-code"
def run_head(x, w, b, t, dloss):
    """(loss, dx, dw, db) by your two kernels."""
    (N, D), V, ROWS = x.shape, len(w), 16
    loss, lse, dx = x.new_empty(N), x.new_empty(N), x.new_empty(N, D)
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    grid, tiles = (math.ceil(N / ROWS),), {"D": D, "ROWS": ROWS, "WORDS": 64}
    fused_loss_kernel[grid](x, w, b, t, loss, lse, N, V, *x.stride(), **tiles)
    fused_backward_kernel[grid](x, w, b, t, lse, dloss, dx, dw, db, N, V, *x.stride(), **tiles)
    return loss, dx, dw, db


with answered():
    written("fused_backward_kernel")
    if jit is not None:
        on = "cuda" if torch.cuda.is_available() else "cpu"
        x, w, b = (torch.randn(*size, device=on) for size in ((20, 64), (600, 64), (600,)))
        t, dloss = torch.randint(600, (20,), device=on), torch.rand(20, device=on)
        loss, *gradients = run_head(x, w, b, t, dloss)
        leaves = [leaf.double().requires_grad_() for leaf in (x, w, b)]
        wanted = torch.nn.functional.cross_entropy(
            torch.nn.functional.linear(*leaves), t, reduction="none"
        )
        of_torch = torch.autograd.grad(wanted, leaves, dloss.double())
        for name, mine, want in zip(("dx", "dw", "db"), gradients, of_torch, strict=True):
            print(f"{name}: furthest off by {(mine - want).abs().max():.1e} on the {on}")

# %% [markdown] id="what-moves"
# ## What moves
#
# Count before you believe: the bytes that all programs together load and store, in two versions of
# the loss of a contiguous head.
#
# - **Before**: `linear_kernel` stores z, (N, V) and of the same `itemsize` as x, w and b. A second
#   kernel has a program for each row of z: it loads the row once and the target, an int64, and
#   stores the loss, a float32.
# - **After**: `fused_loss_kernel` as you wrote it: a program loads its rows of x and its targets
#   once and walks over all of w and b. It stores a float32 loss and a float32 lse for each token.
#
# A masked lane moves nothing. Programs share nothing: what two of them load counts twice. Stuck?
# `hint("fused_bytes")`


# %% id="fused_bytes" role="solution"
def fused_bytes(N, V, D, itemsize, ROWS, WORDS):
    """-> ((bytes read, bytes written) before, (bytes read, bytes written) after)."""
    ### BEGIN SOLUTION
    row_tiles, word_tiles = math.ceil(N / ROWS), math.ceil(V / WORDS)
    x, weights, z = N * D * itemsize, (V * D + V) * itemsize, N * V * itemsize
    before = x * word_tiles + weights * row_tiles + z + 8 * N, z + 4 * N
    after = x + weights * row_tiles + 8 * N, 8 * N
    return before, after
    ### END SOLUTION


# %% id="fused_bytes_check" role="check"
check("fused_bytes")


# %% id="fused_bytes_alternative" role="alternative"
def fused_bytes(N, V, D, itemsize, ROWS, WORDS):
    """Program by program."""
    read = written = after = 0
    for n in range(0, N, ROWS):
        rows = min(ROWS, N - n)
        after += rows * (D * itemsize + 8) + V * (D + 1) * itemsize
        for v in range(0, V, WORDS):
            words = min(WORDS, V - v)
            read += (rows * D + words * (D + 1)) * itemsize
            written += rows * words * itemsize
    return [read + N * (V * itemsize + 8), written + 4 * N], [after, 2 * 4 * N]


# %% id="fused_bytes_alternative_by_element" role="alternative"
def fused_bytes(N, V, D, itemsize, ROWS, WORDS):
    """How often each element is loaded."""
    times_x, times_w = -(-V // WORDS), -(-N // ROWS)
    elements = N * D * times_x + V * (D + 1) * times_w + N * V
    fused = N * D + V * (D + 1) * times_w
    targets, losses = torch.int64.itemsize * N, torch.float32.itemsize * N
    read, after = elements * itemsize + targets, fused * itemsize + targets
    return (read, N * V * itemsize + losses), (after, losses + losses)


# %% [markdown] id="roofs"
# ## Which roof
#
# Three things take time on a GPU, each at its own rate: bytes of memory, floating-point operations
# (of the tensor cores), and exps (of the special function units). Within a kernel they go on at the
# same time; kernels run one after the other. What is the least time, and which roof has each
# kernel? Stuck? `hint("roofline_time")`


# %% id="roofline_time" role="solution"
def roofline_time(kernels, machine):
    """kernels: list of {"bytes", "flops", "exps"}; machine: each per second -> (s, roofs)."""
    ### BEGIN SOLUTION
    seconds, roofs = 0.0, []
    for work in kernels:
        times = {roof: work[roof] / machine[roof] for roof in machine}
        roofs.append(max(times, key=times.get))
        seconds += max(times.values())
    return seconds, roofs
    ### END SOLUTION


# %% id="roofline_time_check" role="check"
check("roofline_time")


# %% id="roofline_time_alternative" role="alternative"
def roofline_time(kernels, machine):
    """As pairs, of which the largest is taken."""
    found = [max((work[roof] / machine[roof], roof) for roof in work) for work in kernels]
    return math.fsum(time for time, _ in found), [roof for _, roof in found]


# %% id="roofline_time_alternative_in_torch" role="alternative"
def roofline_time(kernels, machine):
    """As a matrix, a row for each kernel."""
    roofs = ["bytes", "flops", "exps"]
    work = torch.tensor([[k[roof] for roof in roofs] for k in kernels], dtype=torch.float64)
    rates = torch.tensor([machine[roof] for roof in roofs], dtype=torch.float64)
    times, which = (work / rates).max(1)
    return times.sum().item(), [roofs[k] for k in which.tolist()]


# %% [markdown] id="a-warp"
# ## What a warp touches
#
# A warp is 32 lanes that make one access together. Global memory answers in sectors of 32 bytes;
# shared memory has 32 banks of 4 bytes, and bank k holds every word whose number is k modulo 32.
#
# The warp accesses a tile of 32 elements of `itemsize` bytes, `columns` to a row, a divisor of 32:
# lane 1 stands beside lane 0 in the row. `first` is the byte at which element (0, 0) begins, a
# multiple of `itemsize`; `stride` is (down a row, along a row) in elements. How many sectors does
# it touch in global memory? And if that were shared memory, how many ways would its bank conflict
# have, if the whole warp came at once: the most different words that lanes want of one bank? Stuck?
# `hint("sectors")`


# %% id="sectors" role="solution"
def sectors(first, stride, columns, itemsize):
    """-> (sectors, ways)."""
    ### BEGIN SOLUTION
    lanes = [divmod(lane, columns) for lane in range(32)]
    places = [first + itemsize * (row * stride[0] + column * stride[1]) for row, column in lanes]
    words = {place // 4 for place in places}
    banks = Counter(word % 32 for word in words)
    return len({place // 32 for place in places}), max(banks.values())
    ### END SOLUTION


# %% id="sectors_check" role="check"
check("sectors")


# %% id="sectors_alternative" role="alternative"
def sectors(first, stride, columns, itemsize):
    """With torch."""
    lane = torch.arange(32)
    at = lane // columns * stride[0] + lane % columns * stride[1]
    place = first + at * itemsize
    words = (place // 4).unique()
    return len((place // 32).unique()), (words % 32).bincount().max().item()


# %% id="sectors_alternative_by_bank" role="alternative"
def sectors(first, stride, columns, itemsize):
    """Row by row, with the words of each bank in a set."""
    touched, banks = set(), [set() for _ in range(32)]
    for row in range(32 // columns):
        for column in range(columns):
            byte = first + (row * stride[0] + column * stride[1]) * itemsize
            touched.add(byte >> 5)
            banks[byte // 4 % 32].add(byte // 128)
    return len(touched), max(map(len, banks))


# %% [markdown] id="an-sm"
# ## How many warps fit
#
# An SM hides the wait for memory behind other warps, if it has some. Its limits: warps, blocks,
# registers, shared memory. `block` says what one block takes: `"warps"`, `"registers"` of each
# thread, `"shared"` bytes. `machine` has the four limits of an SM under the names `"warps"`,
# `"blocks"`, `"registers"` and `"shared"`. Registers are given to a warp (32 threads) in whole
# multiples of `machine["register_unit"]`. Shared memory is given to a block in whole multiples of
# `machine["shared_unit"]`: its own together with `machine["reserved"]` bytes for the system. Return
# the warps that are resident, and the sorted list of limits that allow no block more. Stuck?
# `hint("occupancy")`


# %% id="occupancy" role="solution"
def occupancy(block, machine):
    """-> (warps, list of the limits that bind)."""

    ### BEGIN SOLUTION
    def rounded(n, unit):
        return math.ceil(n / unit) * unit

    of_a_warp = rounded(32 * block["registers"], machine["register_unit"])
    shared = rounded(block["shared"] + machine["reserved"], machine["shared_unit"])
    room = {
        "warps": machine["warps"] // block["warps"],
        "blocks": machine["blocks"],
        "registers": machine["registers"] // of_a_warp // block["warps"],
        "shared": machine["shared"] // shared if shared else math.inf,
    }
    blocks = min(room.values())
    return blocks * block["warps"], sorted(limit for limit in room if room[limit] == blocks)
    ### END SOLUTION


# %% id="occupancy_check" role="check"
check("occupancy")


# %% id="occupancy_alternative" role="alternative"
def occupancy(block, machine):
    """By what one block takes of each limit."""
    register_unit, shared_unit = machine["register_unit"], machine["shared_unit"]
    takes = {
        "blocks": 1,
        "registers": -(-32 * block["registers"] // register_unit) * register_unit * block["warps"],
        "shared": -(-(block["shared"] + machine["reserved"]) // shared_unit) * shared_unit,
        "warps": block["warps"],
    }
    blocks = 0
    while all((blocks + 1) * takes[limit] <= machine[limit] for limit in takes):
        blocks += 1
    full = [limit for limit in takes if (blocks + 1) * takes[limit] > machine[limit]]
    return blocks * block["warps"], full


# %% id="occupancy_alternative_by_room" role="alternative"
def occupancy(block, machine):
    """In units: how many an SM has, how many a block takes."""
    registers = math.ceil(32 * block["registers"] / machine["register_unit"]) * block["warps"]
    shared = math.ceil((block["shared"] + machine["reserved"]) / machine["shared_unit"])
    fits = {
        "blocks": machine["blocks"],
        "registers": machine["registers"] // machine["register_unit"] // registers,
        "warps": machine["warps"] // block["warps"],
    }
    if shared:
        fits["shared"] = machine["shared"] // machine["shared_unit"] // shared
    least = min(fits.values())
    return block["warps"] * least, [name for name in sorted(fits) if fits[name] <= least]


# %% [markdown] id="detective-case"
# ## Detective case: five kernels, five lines
#
# Ada wants the largest of each row, Bo the product of x and u, Cy z + b, Di the log-sum-exp of each
# row, Ed the sums of the columns (into zeros). Each has tried it on one small example, where it was
# right. In each kernel one line is wrong. Which, and how should it read? Line 1 is the `def`.

# %% id="suspects" tags=["setup"]
SUSPECTS = {
    "Ada": """\
def row_maximum(x_ptr, top_ptr, V, x_n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_n + j, mask=j < V, other=0.0)
    tl.store(top_ptr + row, tl.max(x, 0))
""",
    "Bo": """\
def product(x_ptr, u_ptr, y_ptr, N, D, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    y = tl.zeros((ROWS,), tl.float32)
    for start in range(0, D, FEATURES):
        k = start + tl.arange(0, FEATURES)
        u = tl.load(u_ptr + k, mask=k < D, other=0.0)
        inside = (i < N)[:, None]
        x = tl.load(x_ptr + i[:, None] * D + k[None, :], mask=inside, other=0.0)
        y += tl.sum(x * u[None, :], 1)
    tl.store(y_ptr + i, y, mask=i < N)
""",
    "Cy": """\
def add_bias(z_ptr, b_ptr, y_ptr, N, V, ROWS: tl.constexpr, WORDS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * ROWS + tl.arange(0, WORDS)
    inside = (i < N)[:, None] & (j < V)[None, :]
    at = i[:, None] * V + j[None, :]
    b = tl.load(b_ptr + j, mask=j < V, other=0.0)
    tl.store(y_ptr + at, tl.load(z_ptr + at, mask=inside) + b[None, :], mask=inside)
""",
    "Di": """\
def log_sum_exp(z_ptr, lse_ptr, V, WORDS: tl.constexpr):
    row = tl.program_id(0)
    top = float("-inf")
    total = 0.0
    for start in range(0, V, WORDS):
        j = start + tl.arange(0, WORDS)
        z = tl.load(z_ptr + row * V + j, mask=j < V, other=float("-inf"))
        higher = tl.max(z, 0)
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), 0)
        top = higher
    tl.store(lse_ptr + row, top + tl.log(total))
""",
    "Ed": """\
def column_sums(z_ptr, sum_ptr, N, V, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, BLOCK)
    inside = (i < N)[:, None] & (j < V)[None, :]
    z = tl.load(z_ptr + i[:, None] * V + j[None, :], mask=inside, other=0.0)
    part = tl.sum(z, 0)
    tl.store(sum_ptr + j, part, mask=j < V)
""",
}

# %% [markdown] id="detective-case-asked"
# The check has kernels like these five, and Ada's with a minimum, and draws their names: write the
# review that finds such lines. `broken_kernel(source)` gets the text of a kernel. It returns the
# number of the line that is wrong and the line as it should be, and `None` for a kernel that you
# leave for later. Any repair of one line that makes the kernel right is right. Some of the kernels
# are right as they are: there, `None` is the answer, or a line that stays as it is. A wrong line
# breaks one of five rules:
#
# - Masked lanes change nothing: they hold -inf in a maximum, and inf in a minimum.
# - Each index that may go beyond its size is in the mask.
# - Programs, and the turns of a loop, begin as far apart as a block is wide.
# - A loop keeps what the turns before have found.
# - Where programs meet in one element, they add atomically.
#
# The texts are laid out as these five are. A load and a store may share a mask by its name: if that
# lacks an index, the line that makes the mask is the wrong one. No other store lacks a mask that it
# needs. Some lines may change places, and a comment may stand between them. Stuck?
# `hint("broken_kernel")`


# %% id="broken_kernel" role="solution"
def broken_kernel(source):
    """source, the text of a kernel -> (number of the line, the line as it should be)."""
    ### BEGIN SOLUTION
    source = re.sub("#.*", "", source)  # what a comment says does not run
    size = dict(re.findall(r"(\w+) < (\w+)", source))  # of an index
    width = dict(re.findall(r"= (\w+) \+ tl\.arange\(0, (\w+)\)", source))  # by a loop's start
    made = dict(re.findall(r"(\w+) = (.*)", source))
    lost = 'float("inf")' if "tl.min(" in source else 'float("-inf")'

    def of_two_edges(_):
        i, k = re.search(r"(\w+)\[:, None\] \* \w+ \+ (\w+)\[None, :\]", source).groups()
        return f"= ({i} < {size[i]})[:, None] & ({k} < {size[k]})[None, :]"

    def so_far(top):
        old = re.search(r"tl\.exp\((\w+) - ", source)[1]
        return f"= tl.maximum({old}, {top[1]})"

    def stored(line):
        place = line[1] if "program_id" in made[line[1]] else made[line[1]]
        shared = [i for i in made if "program_id" in made[i] and not re.search(rf"\b{i}\b", place)]
        return line[0].replace("store", "atomic_add") if shared else line[0]

    rules = [
        (r"program_id\((\d)\) \* \w+ (.*\(0, (\w+)\))", r"program_id(\1) * \3 \2"),
        (r"for (\w+) in (.*), \w+\):", lambda m: f"for {m[1]} in {m[2]}, {width[m[1]]}):"),
        (r"= \(\w+ < \w+\)\[[^]]*\]$", of_two_edges),
        (r"^ {8}(\w+) = tl\.sum\(", r"        \1 += tl.sum("),
        (r"= (tl\.max\(\w+, 0\))$", so_far),
        (r"tl\.store\(\w+ \+ (\w+)", stored),
    ]
    if re.search(r"tl\.(max|min)\(", source):
        rules.append((r"other=.*", f"other={lost})"))
    for number, line in enumerate(source.splitlines(), 1):
        for pattern, instead in rules:
            if (right := re.sub(pattern, instead, line)) != line:
                return number, right
    return None
    ### END SOLUTION


# %% id="broken_kernel_check" role="check"
check("broken_kernel")


# %% id="broken_kernel_alternative" role="alternative"
def broken_kernel(source):
    """Rule by rule, with the repair in another line where there is one."""
    source = re.sub("#.*", "", source)

    def having(pattern):
        rows = enumerate(source.splitlines(), 1)
        found = ((n, line, re.search(pattern, line)) for n, line in rows)
        return next(((n, line, m) for n, line, m in found if m), (0, "", None))

    number, line, edge = having(r"= \((\w+) < \w+\)\[[^]]*\]$")
    if edge:
        pair = re.search(r"(\w+)(\[:, None\]) \* \w+ \+ (\w+)(\[None, :\])", source).groups()
        k, place = pair[2:] if pair[0] == edge[1] else pair[:2]
        size = re.search(rf"\b{k} < (.+?)[,)]", source)[1]
        return number, f"{line} & ({k} < {size}){place}"
    number, line, reduced = having(r"tl\.(max|min)\((\w+), 0\)\)$")
    if reduced and "maximum" not in line:
        j, V = re.search(r"mask=(\w+) < (\w+)", source).groups()
        inf = "-inf" if reduced[1] == "max" else "inf"
        if f'float("{inf}")' not in source:
            x = f'tl.where({j} < {V}, {reduced[2]}, float("{inf}"))'
            return number, line[: reduced.start(2)] + x + line[reduced.end(2) :]
    number, line, top = having(r"= tl\.max\((\w+), 0\)$")
    if top:
        old = re.search(r"tl\.exp\((\w+) - ", source)[1]
        return number, line.replace(top[0], f"= max({old}, tl.max({top[1]}, axis=0))")
    if "tl.log(" in source:
        number, line, masked = having("other=0.0")
        return (number, line.replace("other=0.0", "other=-1e30")) if masked else None
    number, line, lone = having(r"^ {8}(\w+) = (tl\.sum.*)")
    if lone:
        return number, f"{lone[1]} = {lone[1]} + {lone[2]}"
    number, line, step = having(r"(program_id\(\d\)) \* (\w+) \+ tl\.arange\(0, (?!\2\))(\w+)")
    if step:
        index = line.split("=")[0].strip()
        return number, f"{index} = tl.arange(0, {step[3]}) + {step[3]} * tl.{step[1]}"
    if "atomic" not in source and re.search(r"tl\.sum\(\w+, 0\)", source):
        number, line, _ = having(r"tl\.store\(")
        return number, line.replace("tl.store", "tl.atomic_add").replace("mask=", "")
    number, line, loop = having(r"for (\w+) in range\(0, (\w+), ")
    if not loop:
        return None
    width = re.search(rf"= {loop[1]} \+ tl\.arange\(0, (\w+)\)", source)[1]
    return number, f"for {loop[1]} in range(0, {loop[2]}, {width}):"


# %% id="broken_kernel_alternative_as_a_tree" role="alternative"
def broken_kernel(source):
    """As a tree of Python's: the first statement that a rule changes, said anew."""
    import ast

    tree = ast.parse(source)
    said, every = ast.unparse, list(ast.walk(tree))
    calls = [node for node in every if isinstance(node, ast.Call)]
    made = {node.targets[0].id: said(node.value) for node in every if isinstance(node, ast.Assign)}
    sizes = {said(n.left): said(n.comparators[0]) for n in every if isinstance(n, ast.Compare)}
    spread = [node for node in every if isinstance(node, ast.Subscript)]
    columns = {said(node.value): said(node.slice).strip("()") for node in spread}
    loops = [node for node in every if isinstance(node, ast.For)]
    in_loops = [node for loop in loops for node in loop.body]
    words = {said(call.func) for call in calls}

    def width(text):
        return next(
            (text.split("arange(0, ")[1].split(")")[0] for _ in [0] if "arange" in text), ""
        )

    for node in sorted((n for n in every if isinstance(n, ast.stmt)), key=lambda n: n.lineno):
        value = getattr(node, "value", None)
        if isinstance(node, ast.For):
            tile = next(width(t) for t in made.values() if f"{node.target.id} + tl.arange" in t)
            if said(node.iter.args[2]) != tile:
                node.iter.args[2] = ast.Name(tile)
                return node.lineno, said(node).splitlines()[0]
        begins = isinstance(value, ast.BinOp) and "program_id" in said(value.left)
        if begins and said(value.left.right) != width(said(value.right)):
            value.left.right = ast.Name(width(said(value.right)))
            return node.lineno, said(node)
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Compare):
            edges = [f"({i} < {sizes[i]})[{at}]" for i, at in columns.items() if i in sizes]
            return node.lineno, f"{node.targets[0].id} = {' & '.join(edges)}"
        if not isinstance(value, ast.Call):
            continue
        word = said(value.func)
        if word == "tl.load" and words & {"tl.max", "tl.min"}:
            lost = "float('inf')" if "tl.min" in words else "float('-inf')"
            other = next(k for k in value.keywords if k.arg == "other")
            if said(other.value) != lost:
                other.value = ast.parse(lost, mode="eval").body
                return node.lineno, said(node)
        if word == "tl.max" and node in in_loops:
            old = next(said(c.args[0].left) for c in calls if said(c.func) == "tl.exp")
            return node.lineno, f"{node.targets[0].id} = tl.maximum({old}, {said(value)})"
        if word == "tl.sum" and node in in_loops and isinstance(node, ast.Assign):
            return node.lineno, f"{node.targets[0].id} += {said(value)}"
        if word == "tl.store":
            place = said(value.args[0].right)
            place = place if "program_id" in made[place] else made[place]
            mine = {i for i, text in made.items() if "program_id" in text}
            if not mine <= {n.id for n in ast.walk(ast.parse(place)) if isinstance(n, ast.Name)}:
                return node.lineno, said(node).replace("tl.store", "tl.atomic_add")
    return None


# %% [markdown] id="a-compilers-text"
# ## What the compiler made of it
#
# PTX is what Triton hands to NVIDIA's assembler: one instruction in a line, for one thread. Lines
# of this kind are in it:
#
# ```text
# .reg .b32   %r<119>;
# @%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];
# @!%p2 ld.global.nc.L1::evict_last.b16 { %rs1 }, [ %rd2 + 0 ];
# ld.shared.v4.b32 { %r3, %r4, %r5, %r6 }, [ %r7 + 0 ];
# mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { ...
# // st.global.b32 [ %rd5 + 0 ], { %r28 };
# ```
#
# `@%p1` is a predicate: the mask of your kernel, or Triton's choice of who stores. `.v2.b32` are
# two values of 32 bits, as `.v2.f32`, `.v2.u32` and `.v2.s32` are; no vector here is longer than
# `.v4`. Tensor cores multiply in `mma.sync` (everywhere, small tiles too), `wgmma.mma_async`
# (sm_90) or `tcgen05.mma` (sm_100). Write a function that says of the text of one kernel how wide
# its accesses to global memory (`ld.global`, `st.global`) are and how many there are of each width,
# how many have a predicate, how many instructions multiply on tensor cores, and how many 32-bit
# registers (`%r`) its one `.reg .b32` line declares. Stuck? `hint("read_ptx")`


# %% id="read_ptx" role="solution"
def read_ptx(ptx):
    """-> {"loads": {bytes: count}, "stores": {bytes: count}, "masked", "mma", "registers"}."""
    ### BEGIN SOLUTION
    loads, stores, masked, mma, registers = Counter(), Counter(), 0, 0, 0
    for line in map(str.strip, ptx.splitlines()):
        if declared := re.match(r"\.reg\s+\.b32\s+%r<(\d+)>", line):
            registers = int(declared[1])
        predicate, word = re.match(r"(@\S+\s+)?(\S*)", line).groups()
        mma += word.startswith(("mma.sync", "wgmma.mma_async", "tcgen05.mma"))
        if word.startswith(("ld.global", "st.global")):
            masked += predicate is not None
            parts = word.split(".")
            many = 4 if "v4" in parts else 2 if "v2" in parts else 1
            widths = loads if parts[0] == "ld" else stores
            widths[many * int(parts[-1][1:]) // 8] += 1
    return {
        "loads": dict(loads),
        "stores": dict(stores),
        "masked": masked,
        "mma": mma,
        "registers": registers,
    }
    ### END SOLUTION


# %% id="read_ptx_check" role="check"
check("read_ptx")


# %% id="read_ptx_alternative" role="alternative"
def read_ptx(ptx):
    """By patterns over the whole text."""
    access = r"^[ \t]*(@\S+\s+)?%s\.global\S*?(?:\.v([24]))?\.[bfus](\d+)\s"
    found = {kind: re.findall(access % kind, ptx, re.M) for kind in ("ld", "st")}
    wide = {
        kind: Counter(int(many or 1) * int(bits) // 8 for _, many, bits in rows)
        for kind, rows in found.items()
    }
    tensor_cores = r"^[ \t]*(?:@\S+\s+)?(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b"
    return {
        "loads": dict(wide["ld"]),
        "stores": dict(wide["st"]),
        "masked": sum(bool(row[0]) for rows in found.values() for row in rows),
        "mma": len(re.findall(tensor_cores, ptx, re.M)),
        "registers": int(re.search(r"\.reg \.b32\s+%r<(\d+)>", ptx)[1]),
    }


# %% id="read_ptx_alternative_by_words" role="alternative"
def read_ptx(ptx):
    """Instruction by instruction, as lists of words."""
    code = [line.split("//")[0].split() for line in ptx.splitlines()]
    code = [words for words in code if words]
    found = {"loads": {}, "stores": {}, "masked": 0, "mma": 0, "registers": 0}
    for words in code:
        if words[:2] == [".reg", ".b32"] and words[2].startswith("%r<"):
            found["registers"] = int(words[2][3:].rstrip(">;"))
        masked = words[0].startswith("@")
        name, *modifiers = (words[1] if masked else words[0]).rstrip(";").split(".")
        kind = {"ld": "loads", "st": "stores"}.get(name)
        if kind and modifiers[0] == "global":
            many = {"v2": 2, "v4": 4}
            values = max(many.get(part, 1) for part in modifiers)
            width = values * int(modifiers[-1].lstrip("bfus")) // 8
            found[kind][width] = found[kind].get(width, 0) + 1
            found["masked"] += masked
        starts = {("mma", "sync"), ("wgmma", "mma_async"), ("tcgen05", "mma")}
        found["mma"] += (name, *modifiers[:1]) in starts
    return found


# %% [markdown] id="in-your-own-words"
# ## In your own words
#
# A colleague has fused the loss of the head, V = 600 and D = 64, on a GPU with 3 TB/s, 400 TFLOP/s
# in bfloat16 and 4 T exp/s. The fused kernels compute every logit twice, forward and backward,
# where the old ones computed it once. "It does more work, so it must be slower."
#
# In at most six sentences: what does fusion save here and what does it add, in bytes, flops and
# exps per token; which roof binds before and after; when would your colleague be right; and what
# have the checks of this lab, which ran on no GPU, not shown about your kernels?

# %% [markdown] id="more_work_and_faster" role="free_text" points=5 minutes=8 difficulty=4
# Fusion saves traffic: in bfloat16 a token's 600 logits are 1,200 bytes, written and read several
# times forward and backward, where the token's own x is 128 bytes. It adds 2 * 600 * 64 = 76,800
# flops a token for the logits that are computed again, and 600 exps. At these rates 76,800 flops
# take 0.19 ns, 600 exps 0.15 ns, and one round trip of the logits, 2,400 bytes, 0.8 ns: before, the
# roof is memory; after, the flops and exps are about equal and memory is far away. My colleague
# would be right where recomputing costs more than reading: with a large D (at D = 512 the extra
# product takes 1.5 ns), or on a machine with few flops for its bandwidth. The checks computed what
# each program stores; they have not shown the time, whether accesses are coalesced, register spills
# or occupancy, nor the rounding and the order of atomic adds on a real GPU.
#
# **Rubric** (1 point each): the saving as bytes of logits, with a number; the price as flops and
# exps, with a number; a roof before and a roof after that follow from numbers; a condition under
# which recomputing loses; something that only a GPU shows.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
