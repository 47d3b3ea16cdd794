"""The five kernels of the detective case, as the lab's page shows them."""

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
"""By whoever wrote it; line 1 is the `def`."""
