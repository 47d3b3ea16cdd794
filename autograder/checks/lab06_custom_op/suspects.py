"""The three suspects of the detective case, as the page shows them; and what edits make of one."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EDITS, MAX_EDIT = 4, 100

HOST = """
extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(16, 16), grid((V + 15) / 16, (N + 15) / 16);
    if (N > 0)
        suspect<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
HEADING = """
__global__ void suspect(const float* x, const float* w, const float* b, float* y,
                        int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int v0 = blockIdx.x * 16, v = v0 + tx, n = blockIdx.y * 16 + ty;
"""
SUSPECTS = {
    "Ada": HEADING
    + """\
    if (n > N || v > V) return;
    float acc = 0;
    for (int d = 0; d < D; ++d)
        acc = acc + x[x_n * n + x_d * d] * w[w_v * v + w_d * d];
    y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
    "Bo": HEADING
    + """\
    __shared__ float left[16][16], right[16][17];
    float acc = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
        bool inside = d0 + tx < D;
        left[ty][tx] = inside && n < N ? x[x_n * n + x_d * (d0 + tx)] : 0.f;
        right[ty][tx] = inside && v0 + ty < V ? w[w_v * (v0 + ty) + w_d * (d0 + tx)] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc = acc + left[ty][k] * right[tx][k];
    }
    if (n < N && v < V) y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
    "Cy": HEADING
    + """\
    __shared__ float left[16][16], right[16][17];
    float acc = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
        if (v >= V || n >= N) return;
        bool inside = d0 + tx < D;
        left[ty][tx] = inside ? x[x_n * n + x_d * (d0 + tx)] : 0.f;
        right[ty][tx] = inside && v0 + ty < V ? w[w_v * (v0 + ty) + w_d * (d0 + tx)] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc = acc + left[ty][k] * right[tx][k];
        __syncthreads();
    }
    y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
}


def edited(suspect: str, edits: Sequence[tuple[str, str]]) -> str:
    """The text of `suspect` with these (line as it stands, instead). Raises ValueError for what is
    no small edit, KeyError for a suspect that is none."""
    text = SUSPECTS[suspect]
    if len(edits) > MAX_EDITS:
        raise ValueError(f"{len(edits)} edits: this is another kernel")
    for line, instead in edits:
        if "\n" in line.strip() or len(instead) > MAX_EDIT:
            more = line if "\n" in line.strip() else instead
            raise ValueError(f"{more[:40]!r}...: this edit is more than a line")
        if text.count(line) != 1 or len(line.strip()) < 5:
            raise ValueError(f"{suspect} has not one place that says {line!r}")
        text = text.replace(line, instead)
    return text
