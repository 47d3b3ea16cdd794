// Cooperative groups, hints to the caches, copies by rows, and what host code asks of the device.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void softmax_by_warp(const float* x, float* p, int rows, int columns) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    x += row * columns, p += row * columns;
    float most = -3e38f, sum = 0;
    for (int i = warp.thread_rank(); i < columns; i += warp.size()) most = fmaxf(most, __ldcs(x + i));
    most = cg::reduce(warp, most, cg::greater<float>{});
    for (int i = warp.thread_rank(); i < columns; i += warp.size()) sum += expf(__ldg(&x[i]) - most);
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    for (int i = warp.thread_rank(); i < columns; i += warp.size())
        __stcs(p + i, expf(__ldca(x + i) - most) / sum);
}
extern "C" void softmax_warps(const float* x, float* p, int rows, int columns) {
    softmax_by_warp<<<(rows + 3) / 4, 128>>>(x, p, rows, columns);
}

__global__ void sums_so_far(const float* x, float* with, float* before) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = cg::this_thread_block().thread_rank();
    with[i] = cg::inclusive_scan(tile, x[i]);
    before[i] = cg::exclusive_scan(tile, x[i], cg::plus<float>());
}
extern "C" void scans(const float* x, float* with, float* before, int n) {
    sums_so_far<<<1, n>>>(x, with, before);
}

struct __align__(16) Extremes { double least, most; };  // more than one shuffle moves
struct Widest {
    __device__ Extremes operator()(Extremes x, Extremes y) const {
        return {x.least < y.least ? x.least : y.least, x.most > y.most ? x.most : y.most};
    }
};
__global__ void extremes_of_tiles(const double* x, double* least, double* most) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = cg::this_grid().thread_rank();
    Extremes all = cg::reduce(tile, Extremes{x[i], x[i]}, Widest{});
    if (tile.thread_rank() == 0) least[i / 8] = all.least, most[i / 8] = all.most;
}
extern "C" void tiles_of_eight(const double* x, double* least, double* most, int n) {
    extremes_of_tiles<<<2, dim3(8, n / 16)>>>(x, least, most);
}

// What a group of 16 says, and what the odd lanes of a warp say among themselves.
__global__ void tell(int* told) {
    auto half = cg::tiled_partition<16>(cg::tiled_partition<32>(cg::this_thread_block()));
    int rank = half.thread_rank(), i = threadIdx.x;
    __shared__ int before[64];
    before[i] = half.shfl_up(i, 1) + half.shfl_down(i, 1) + half.shfl_xor(i, 3) + half.shfl(i, 5);
    half.sync();
    int near = half.ballot(rank < 3) + half.any(i == 40) + 2 * half.all(rank < 16);
    cg::sync(cg::this_thread_block());
    told[i] = before[i ^ 1] + near;
    if (i % 2 == 0) return;
    cg::coalesced_group odd = cg::coalesced_threads();
    odd.sync();
    told[i] += 1000 * cg::reduce(odd, (int)odd.thread_rank(), cg::plus<int>()) + odd.size();
}
extern "C" void groups_tell(int* told) { tell<<<1, 64>>>(told); }

__global__ void twice(const int4* x, int4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 a = __ldcg(x + i), b = __ldcv(x + i), c = __ldlu(x + i);
    __stcg(y + i, make_int4(a.x + b.x, a.y + b.y, a.z + c.z, b.w + c.w));
    __stwb(&y[i].x, __ldca(&y[i].x));
    __stwt(&y[i].y, __ldcs(&y[i].y));
}
// The inner columns of x, doubled: copied out by rows, and back.
extern "C" int twice_inside(const int* x, int* y, int rows, int columns, int inside) {
    int *packed, *done;
    size_t narrow = inside * sizeof(int), wide = columns * sizeof(int);
    if (cudaMalloc(&packed, rows * narrow) || cudaMalloc(&done, rows * narrow)) return -1;
    if (cudaMemcpy2D(packed, narrow, x + 2, wide, narrow, rows, cudaMemcpyDeviceToDevice)) return -2;
    int n = rows * inside / 4;
    twice<<<(n + 63) / 64, 64>>>((const int4*)packed, (int4*)done, n);
    if (cudaMemcpy2DAsync(y + 2, wide, done, narrow, narrow, rows, cudaMemcpyDeviceToDevice, 0)) return -3;
    int refused = cudaMemcpy2D(y, narrow - 1, done, narrow, narrow, rows, cudaMemcpyDeviceToDevice);
    cudaGetLastError();
    cudaFree(packed);
    cudaFree(done);
    return refused;
}

extern "C" int device_agrees_with_itself() {
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, 0)) return -1;
    int differs = 0, value = 0;
    auto same = [&](cudaDeviceAttr what, size_t want) {
        differs += cudaDeviceGetAttribute(&value, what, 0) != cudaSuccess || value != (int)want;
    };
    same(cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock);
    same(cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock);
    same(cudaDevAttrWarpSize, p.warpSize);
    same(cudaDevAttrMultiProcessorCount, p.multiProcessorCount);
    same(cudaDevAttrL2CacheSize, p.l2CacheSize);
    same(cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor);
    same(cudaDevAttrComputeCapabilityMajor, p.major);
    same(cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin);
    return differs;
}
