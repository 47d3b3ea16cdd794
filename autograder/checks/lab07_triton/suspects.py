"""The five kernels of the detective case, as the lab's page shows them."""

SUSPECTS = {
    "Ada": """\
def row_maximum(x_ptr, top_ptr, V, x_n, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n * x_n + v, mask=v < V, other=0.0)
    tl.store(top_ptr + n, tl.max(x, 0))
""",
    "Bo": """\
def product(x_ptr, u_ptr, y_ptr, N, D, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    y = tl.zeros((ROWS,), tl.float32)
    for first in range(0, D, FEATURES):
        d = first + tl.arange(0, FEATURES)
        u = tl.load(u_ptr + d, mask=d < D, other=0.0)
        inside = (rows < N)[:, None]
        x = tl.load(x_ptr + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
        y += tl.sum(x * u[None, :], 1)
    tl.store(y_ptr + rows, y, mask=rows < N)
""",
    "Cy": """\
def add_bias(z_ptr, b_ptr, y_ptr, N, V, ROWS: tl.constexpr, WORDS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    words = tl.program_id(1) * ROWS + tl.arange(0, WORDS)
    inside = (rows < N)[:, None] & (words < V)[None, :]
    at = rows[:, None] * V + words[None, :]
    b = tl.load(b_ptr + words, mask=words < V, other=0.0)
    tl.store(y_ptr + at, tl.load(z_ptr + at, mask=inside) + b[None, :], mask=inside)
""",
    "Di": """\
def log_sum_exp(z_ptr, lse_ptr, V, WORDS: tl.constexpr):
    n = tl.program_id(0)
    top = float("-inf")
    total = 0.0
    for first in range(0, V, WORDS):
        v = first + tl.arange(0, WORDS)
        z = tl.load(z_ptr + n * V + v, mask=v < V, other=float("-inf"))
        higher = tl.max(z, 0)
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), 0)
        top = higher
    tl.store(lse_ptr + n, top + tl.log(total))
""",
    "Ed": """\
def column_sums(z_ptr, sum_ptr, N, V, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    v = tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (v < V)[None, :]
    z = tl.load(z_ptr + rows[:, None] * V + v[None, :], mask=inside, other=0.0)
    part = tl.sum(z, 0)
    tl.store(sum_ptr + v, part, mask=v < V)
""",
}
"""By whoever wrote it; line 1 is the `def`."""
