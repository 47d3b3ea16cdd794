// The fused loss of the head, F.cross_entropy(F.linear(x, w, b), t), as three CUDA kernels.
//
//     nvcc -std=c++17 -O2 -arch=sm_90 -cubin head_loss.cu
//
//   forward     a block: 64 tokens, all words in tiles of 64             -> lse (N,), row_loss (N,)
//   backward_x  a block: 64 tokens, 64 columns of dx, all words          -> dx (N, D)
//   backward_w  a block: 64 words, 64 columns of dw, a slice of tokens   -> dw, db: its part
//
// No logit leaves the registers and shared memory of its block; backward computes each again.
// 256 threads share a tile of 64 x 64 logits. Thread (x, y) of 16 x 16 has the rows y, y + 16,
// y + 32, y + 48 and the columns x, x + 16, x + 32, x + 48: 16 logits, for which it reads 4 + 4
// numbers from shared memory. D comes in pieces of 32, so D, V and N may be any numbers; a backward
// with D > 64 computes its logits once for every 64 columns. All sums are float32, in one fixed
// order; no tensor cores, whose inputs would be rounded (tf32) or short.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int SIDE = 64;           // of a tile of logits
constexpr int DEPTH = 32;          // columns of x and w that are staged at a time
constexpr int ACROSS = 16;         // threads in each direction
constexpr int EACH = SIDE / ACROSS;  // rows, and columns, of one thread
constexpr int THREADS = ACROSS * ACROSS;
constexpr int NARROW = DEPTH + 4;  // pitch of a stage: float4s stay aligned, and a warp's 16 rows
constexpr int WIDE = SIDE + 4;     // begin in 8 different quarters of the banks
constexpr int STAGE = SIDE * NARROW;  // floats; DEPTH * WIDE, its other use, is less
constexpr long long IGNORED = -100;

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }
__device__ float infinity() { return __int_as_float(0x7f800000); }
__device__ float not_a_number() { return __int_as_float(0x7fffffff); }
__device__ float4 four(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

template <typename T> struct Matrix {  // of any strides, zero outside
    const T* at;
    int rows, columns, down, across;
    __device__ float get(int i, int j) const {
        if (i >= rows || j >= columns) return 0.0f;
        return wide(at[(long long)i * down + (long long)j * across]);
    }
};

// stage (HEIGHT, WIDTH) becomes the piece of m that begins at (row, column).
template <int HEIGHT, int WIDTH, typename T>
__device__ void copy_piece(float* stage, Matrix<T> m, int row, int column) {
    for (int at = threadIdx.y * ACROSS + threadIdx.x; at < HEIGHT * WIDTH; at += THREADS) {
        const int i = at / WIDTH, j = at % WIDTH;
        stage[i * (WIDTH + 4) + j] = m.get(row + i, column + j);
    }
}

// z[i][j] = a's row (row_a + y + 16 i) times b's row (row_b + x + 16 j).
template <typename T>
__device__ void multiply_rows(float (&z)[EACH][EACH], float* stage_a, float* stage_b, Matrix<T> a,
                              int row_a, Matrix<T> b, int row_b) {
    float sum[EACH][EACH] = {};
    for (int d = 0; d < a.columns; d += DEPTH) {
        __syncthreads();  // nobody reads what was staged before
        copy_piece<SIDE, DEPTH>(stage_a, a, row_a, d);
        copy_piece<SIDE, DEPTH>(stage_b, b, row_b, d);
        __syncthreads();
        for (int k = 0; k < DEPTH; k += 4) {
            float4 p[EACH], q[EACH];
            for (int i = 0; i < EACH; i++) {
                p[i] = four(&stage_a[(threadIdx.y + ACROSS * i) * NARROW + k]);
                q[i] = four(&stage_b[(threadIdx.x + ACROSS * i) * NARROW + k]);
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sum[i][j] += dot(p[i], q[j]);
        }
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) z[i][j] = sum[i][j];
}

// total[i][j] += dz's row (y + 16 i) (64) times m[row ..., column + 4 x + j] (64).
template <typename T>
__device__ void add_columns(float (&total)[EACH][EACH], const float* dz, float* stage, Matrix<T> m,
                            int row, int column) {
    float sum[EACH][EACH] = {};
    for (int first = 0; first < SIDE; first += DEPTH) {
        __syncthreads();  // dz is written; nobody reads what was staged before
        copy_piece<DEPTH, SIDE>(stage, m, row + first, column);
        __syncthreads();
        for (int k = 0; k < DEPTH; k += 4) {
            float4 p[EACH], q[EACH];
            for (int i = 0; i < EACH; i++) {
                p[i] = four(&dz[(threadIdx.y + ACROSS * i) * WIDE + first + k]);
                q[i] = four(&stage[(k + i) * WIDE + 4 * threadIdx.x]);
            }
            for (int i = 0; i < EACH; i++) {
                sum[i][0] += dot(p[i], {q[0].x, q[1].x, q[2].x, q[3].x});
                sum[i][1] += dot(p[i], {q[0].y, q[1].y, q[2].y, q[3].y});
                sum[i][2] += dot(p[i], {q[0].z, q[1].z, q[2].z, q[3].z});
                sum[i][3] += dot(p[i], {q[0].w, q[1].w, q[2].w, q[3].w});
            }
        }
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) total[i][j] += sum[i][j];
}

struct Running {  // the sum of exp(z - top) over what has been seen
    float top, sum;
};

__device__ float power(float z, float top) { return z == -infinity() ? 0.0f : expf(z - top); }

// Milakov and Gimelshein's step (https://arxiv.org/abs/1805.02867): what has been added so far is
// scaled down when the maximum grows.
__device__ Running joined(Running a, Running b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * power(a.top, top) + b.sum * power(b.top, top)};
}

__device__ Running joined(Running seen, const float (&z)[EACH]) {
    float top = z[0], sum = 0;
    for (int j = 1; j < EACH; j++) top = fmaxf(top, z[j]);
    top = fmaxf(top, seen.top);
    for (int j = 0; j < EACH; j++) sum += power(z[j], top);
    return {top, seen.sum * power(seen.top, top) + sum};
}

struct Token {  // a row of the logits, as backward sees it
    long long target;
    float lse, scale;
};

// Beyond the last token lse is infinite: exp(z - lse) is 0 there, whatever the bias.
__device__ Token token(int row, int N, const long long* t, const float* lse, const float* scale) {
    if (row >= N) return {IGNORED, infinity(), 0.0f};
    return {t[row], lse[row], t[row] == IGNORED ? 0.0f : *scale};
}

// The gradient of the loss by the logit of one word: (softmax - onehot) * dloss / count.
__device__ float slope(float z, int word, int V, Token row) {
    if (word >= V) return 0.0f;
    return (expf(z - row.lse) - (word == row.target)) * row.scale;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    forward(const T* x_at, const T* w_at, const T* b, const long long* t, float* lse, float* loss,
            int N, int D, int V, int x_down, int x_across, int w_down, int w_across) {
    __shared__ __align__(16) float stage_x[STAGE];
    __shared__ __align__(16) float stage_w[STAGE];
    const Matrix<T> x{x_at, N, D, x_down, x_across}, w{w_at, V, D, w_down, w_across};
    const int first = blockIdx.x * SIDE;
    Running seen[EACH];
    float at_target[EACH], z[EACH][EACH];
    for (int i = 0; i < EACH; i++) {
        seen[i] = {-infinity(), 0.0f};
        at_target[i] = 0;
    }
    for (int word = 0; word < V; word += SIDE) {
        multiply_rows(z, stage_x, stage_w, x, first, w, word);
        for (int i = 0; i < EACH; i++) {
            const int row = first + threadIdx.y + ACROSS * i;
            const long long target = row < N ? t[row] : IGNORED;
            for (int j = 0; j < EACH; j++) {
                const int v = word + threadIdx.x + ACROSS * j;
                z[i][j] = v < V ? z[i][j] + wide(b[v]) : -infinity();
                if (v == target) at_target[i] = z[i][j];
            }
            seen[i] = joined(seen[i], z[i]);
        }
    }
    for (int i = 0; i < EACH; i++) {
        for (int with = ACROSS / 2; with; with /= 2) {  // the 16 threads that have this row
            const Running other{__shfl_xor_sync(0xffffffffu, seen[i].top, with),
                                __shfl_xor_sync(0xffffffffu, seen[i].sum, with)};
            seen[i] = joined(seen[i], other);
            at_target[i] += __shfl_xor_sync(0xffffffffu, at_target[i], with);
        }
        const int row = first + threadIdx.y + ACROSS * i;
        if (threadIdx.x || row >= N) continue;
        const bool ignored = t[row] == IGNORED, exists = t[row] >= 0 && t[row] < V;
        lse[row] = exists || ignored ? seen[i].top + logf(seen[i].sum) : not_a_number();
        loss[row] = ignored ? 0.0f : lse[row] - at_target[i];
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_x(const T* x_at, const T* w_at, const T* b, const long long* t, const float* lse,
               const float* scale, T* dx, int N, int D, int V, int x_down, int x_across, int w_down,
               int w_across) {
    __shared__ __align__(16) float stage_x[STAGE];
    __shared__ __align__(16) float stage_w[STAGE];
    __shared__ __align__(16) float dz[SIDE * WIDE];  // (tokens, words)
    const Matrix<T> x{x_at, N, D, x_down, x_across}, w{w_at, V, D, w_down, w_across};
    const int first = blockIdx.x * SIDE, column = blockIdx.y * SIDE;
    Token tokens[EACH];
    float z[EACH][EACH], sum[EACH][EACH] = {};
    for (int i = 0; i < EACH; i++)
        tokens[i] = token(first + threadIdx.y + ACROSS * i, N, t, lse, scale);
    for (int word = 0; word < V; word += SIDE) {
        multiply_rows(z, stage_x, stage_w, x, first, w, word);
        for (int j = 0; j < EACH; j++) {
            const int at = threadIdx.x + ACROSS * j, v = word + at;
            const float bias = v < V ? wide(b[v]) : 0.0f;
            for (int i = 0; i < EACH; i++)
                dz[(threadIdx.y + ACROSS * i) * WIDE + at] = slope(z[i][j] + bias, v, V, tokens[i]);
        }
        add_columns(sum, dz, stage_w, w, word, column);
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int row = first + threadIdx.y + ACROSS * i, d = column + 4 * threadIdx.x + j;
            if (row < N && d < D) put(&dx[(long long)row * D + d], sum[i][j]);
        }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_w(const T* x_at, const T* w_at, const T* b, const long long* t, const float* lse,
               const float* scale, float* dw, float* db, int slice_rows, int N, int D, int V,
               int x_down, int x_across, int w_down, int w_across) {
    __shared__ __align__(16) float stage_x[STAGE];
    __shared__ __align__(16) float stage_w[STAGE];
    __shared__ __align__(16) float dz[SIDE * WIDE];  // (words, tokens)
    const Matrix<T> x{x_at, N, D, x_down, x_across}, w{w_at, V, D, w_down, w_across};
    const int word = blockIdx.x * SIDE, column = blockIdx.z * SIDE;
    const long long part = blockIdx.y, begin = part * slice_rows, past = begin + slice_rows;
    const int end = past < N ? past : N;
    float bias[EACH], z[EACH][EACH], sum[EACH][EACH] = {}, sum_b[EACH] = {};
    for (int i = 0; i < EACH; i++) {
        const int v = word + threadIdx.y + ACROSS * i;
        bias[i] = v < V ? wide(b[v]) : 0.0f;
    }
    for (int first = begin; first < end; first += SIDE) {
        multiply_rows(z, stage_w, stage_x, w, word, x, first);
        for (int j = 0; j < EACH; j++) {
            const int at = threadIdx.x + ACROSS * j;
            const Token row = token(first + at, N, t, lse, scale);
            for (int i = 0; i < EACH; i++) {
                const int y = threadIdx.y + ACROSS * i;
                const float slope_here = slope(z[i][j] + bias[i], word + y, V, row);
                dz[y * WIDE + at] = slope_here;
                sum_b[i] += slope_here;
            }
        }
        add_columns(sum, dz, stage_x, x, first, column);
    }
    for (int i = 0; i < EACH; i++) {
        for (int with = ACROSS / 2; with; with /= 2)
            sum_b[i] += __shfl_xor_sync(0xffffffffu, sum_b[i], with);
        const int v = word + threadIdx.y + ACROSS * i;
        if (v >= V) continue;
        if (threadIdx.x == 0 && blockIdx.z == 0) db[part * V + v] = sum_b[i];
        for (int j = 0; j < EACH; j++) {
            const int d = column + 4 * threadIdx.x + j;
            if (d < D) dw[(part * V + v) * D + d] = sum[i][j];
        }
    }
}

static int blocks(int n) { return (n + SIDE - 1) / SIDE; }

// Calls work with a zero of the type: 0 float, 1 half, 2 bfloat16. Returns CUDA's error code.
template <typename Work> static int of_type(int type, Work work) {
    if (type == 0) work(0.0f);
    if (type == 1) work(__float2half(0.0f));
    if (type == 2) work(__float2bfloat16(0.0f));
    return cudaGetLastError();
}

extern "C" int head_loss_forward(int type, const void* x, const void* w, const void* b,
                                 const long long* t, float* lse, float* loss, int N, int D, int V,
                                 int x_down, int x_across, int w_down, int w_across,
                                 cudaStream_t stream) {
    return of_type(type, [&](auto zero) {
        using T = decltype(zero);
        forward<T><<<blocks(N), dim3(ACROSS, ACROSS), 0, stream>>>(
            (const T*)x, (const T*)w, (const T*)b, t, lse, loss, N, D, V, x_down, x_across, w_down,
            w_across);
    });
}

extern "C" int head_loss_backward_x(int type, const void* x, const void* w, const void* b,
                                    const long long* t, const float* lse, const float* scale,
                                    void* dx, int N, int D, int V, int x_down, int x_across,
                                    int w_down, int w_across, cudaStream_t stream) {
    return of_type(type, [&](auto zero) {
        using T = decltype(zero);
        backward_x<T><<<dim3(blocks(N), blocks(D)), dim3(ACROSS, ACROSS), 0, stream>>>(
            (const T*)x, (const T*)w, (const T*)b, t, lse, scale, (T*)dx, N, D, V, x_down, x_across,
            w_down, w_across);
    });
}

extern "C" int head_loss_backward_w(int type, const void* x, const void* w, const void* b,
                                    const long long* t, const float* lse, const float* scale,
                                    float* dw, float* db, int slices, int slice_rows, int N, int D,
                                    int V, int x_down, int x_across, int w_down, int w_across,
                                    cudaStream_t stream) {
    return of_type(type, [&](auto zero) {
        using T = decltype(zero);
        backward_w<T><<<dim3(blocks(V), slices, blocks(D)), dim3(ACROSS, ACROSS), 0, stream>>>(
            (const T*)x, (const T*)w, (const T*)b, t, lse, scale, dw, db, slice_rows, N, D, V,
            x_down, x_across, w_down, w_across);
    });
}
