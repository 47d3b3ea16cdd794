// One planted fault per host function. `// here NAME` marks the line that must be reported for the
// function NAME, `// there NAME` the line with which it collides.
#include <cassert>
#include <cuda_runtime.h>

__global__ void unmasked_load(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];  // here reads_past
    if (i < n) y[i] = v;
}
extern "C" void reads_past(const float* x, float* y, int n) { unmasked_load<<<2, 32>>>(x, y, n); }

__global__ void unmasked_store(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    y[i] = v;  // here writes_past
}
extern "C" int writes_past(const float* x, float* y, int n) {
    unmasked_store<<<2, 32>>>(x, y, n);
    cudaError_t error = cudaGetLastError();
    unmasked_store<<<1, 32>>>(x, y, n);  // refused: the device is lost
    return error;
}

__global__ void row_before(const float* x, float* y) {
    y[threadIdx.x] = x[(int)threadIdx.x - 1];  // here reads_before
}
extern "C" void reads_before(const float* x, float* y, int n) { row_before<<<1, 4>>>(x, y); }

__global__ void through_nothing(float* y) {
    *y = 1.0f;  // here null
}
extern "C" void null(const float* x, float* y, int n) { through_nothing<<<1, 1>>>(nullptr); }

__global__ void past_shared(const float* x, float* y, int n) {
    __shared__ float a[8];
    __shared__ float b[8];
    float* p = a;
    a[threadIdx.x] = b[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = b[threadIdx.x] + p[threadIdx.x + n];  // here past_shared_array
}
extern "C" void past_shared_array(const float* x, float* y, int n) { past_shared<<<1, 8>>>(x, y, 1); }

__global__ void past_dynamic(const float* x, float* y) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];  // here past_dynamic_shared
    y[threadIdx.x] = s[threadIdx.x];
}
extern "C" void past_dynamic_shared(const float* x, float* y, int n) {
    past_dynamic<<<1, 32, 31 * sizeof(float)>>>(x, y);
}

__global__ void past_column(const float* x, float* y, int n) {
    __shared__ float tile[4][8];
    tile[threadIdx.x][n] = x[0];  // here past_column_of_a_tile
    y[0] = tile[0][0];
}
extern "C" void past_column_of_a_tile(const float* x, float* y, int n) { past_column<<<1, 3>>>(x, y, 8); }

__global__ void past_local(const float* x, float* y, int n) {
    float own[4] = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) own[i] += x[i];  // here past_local_array
    y[0] = own[0] + own[3];
}
extern "C" void past_local_array(const float* x, float* y, int n) { past_local<<<1, 1>>>(x, y, 5); }

__device__ float table[4] = {1, 2, 3, 4};
__global__ void past_table(float* y, int n) {
    float* p = table;
    y[threadIdx.x] = p[threadIdx.x + n];  // here past_device_table
}
extern "C" void past_device_table(const float* x, float* y, int n) { past_table<<<1, 4>>>(y, 1); }

__global__ void copies(const float* x, float* y, int n) {
    memcpy(y, x, n * sizeof(float));  // here memcpy_past
}
extern "C" void memcpy_past(const float* x, float* y, int n) { copies<<<1, 1>>>(x, y, n + 1); }

__global__ void small(float* y) { y[threadIdx.x] = 1.0f; }  // here past_allocation
extern "C" void past_allocation(const float* x, float* y, int n) {
    float* p;
    cudaMalloc(&p, 7 * sizeof(float));
    small<<<1, 8>>>(p);
    cudaFree(p);
}

__global__ void late(float* y) { y[0] = 1.0f; }  // here after_free
extern "C" void after_free(const float* x, float* y, int n) {
    float* p;
    cudaMalloc(&p, 4 * sizeof(float));
    cudaFree(p);
    late<<<1, 1>>>(p);
}

extern "C" int host_copy_past(const float* x, float* y, int n) {
    return cudaMemcpy(y, x, (n + 1) * sizeof(float), cudaMemcpyDeviceToDevice);  // here host_copy_past
}

__global__ void vectors(const float* x, float* y, int n) {
    float4 v = *reinterpret_cast<const float4*>(x + n);  // here misaligned_vector
    y[0] = v.x + v.w;
}
extern "C" void misaligned_vector(const float* x, float* y, int n) { vectors<<<1, 1>>>(x, y, 3); }

extern "C" float host_reads(const float* x, float* y, int n) {
    return x[n - 1];  // here host_reads
}
extern "C" void host_writes(const float* x, float* y, int n) {
    y[0] = 1;  // here host_writes
}

__global__ void partly_written(const float* x, float* y) {
    __shared__ float s[32];
    if (threadIdx.x < 31) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];  // here unwritten_static
}
extern "C" void unwritten_static(const float* x, float* y, int n) { partly_written<<<1, 32>>>(x, y); }

__global__ void never_zeroed(const float* x, int* bins) {
    extern __shared__ int counts[];
    atomicAdd(&counts[x[threadIdx.x] > 0], 1);  // here unwritten_histogram
    __syncthreads();
    if (threadIdx.x < 2) bins[threadIdx.x] = counts[threadIdx.x];
}
extern "C" void unwritten_histogram(const float* x, float* y, int n) {
    never_zeroed<<<1, 32, 8>>>(x, reinterpret_cast<int*>(y));
}

__global__ void written_by_the_block_before(const float* x, float* y) {
    __shared__ float s;
    if (blockIdx.x == 0) s = x[0];
    y[blockIdx.x] = s;  // here unwritten_in_the_second_block
}
extern "C" void unwritten_in_the_second_block(const float* x, float* y, int n) {
    written_by_the_block_before<<<2, 1>>>(x, y);
}

__global__ void reversed(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x % 32];  // here missing_barrier
    y[threadIdx.x] = s[63 - threadIdx.x];  // there missing_barrier
}
extern "C" void missing_barrier(const float* x, float* y, int n) { reversed<<<1, 64>>>(x, y); }

__global__ void overwritten(const float* x, float* y, int rounds) {
    __shared__ float s[32];
    float sum = 0;
    for (int k = 0; k < rounds; k++) {
        s[threadIdx.x] = x[threadIdx.x] + k;  // there missing_second_barrier
        __syncthreads();
        sum += s[31 - threadIdx.x];  // here missing_second_barrier
    }
    y[threadIdx.x] = sum;
}
extern "C" void missing_second_barrier(const float* x, float* y, int n) { overwritten<<<1, 32>>>(x, y, 2); }

__global__ void warp_only(const float* x, float* y) {  // right on no GPU since Volta
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];                    // here missing_syncwarp
    if (t < 16) s[t] += s[t + 16];  // there missing_syncwarp
    __syncwarp();
    y[t] = s[t % 16];
}
extern "C" void missing_syncwarp(const float* x, float* y, int n) { warp_only<<<1, 32>>>(x, y); }

__global__ void bare_sum(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *y += x[i];  // here lost_update
}
extern "C" void lost_update(const float* x, float* y, int n) { bare_sum<<<3, 1>>>(x, y, n); }

__global__ void histogram_read_too_early(const float* x, float* y) {
    __shared__ int bins[2];
    if (threadIdx.x < 2) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[threadIdx.x] > 0], 1);  // there early_histogram
    if (threadIdx.x < 2) y[threadIdx.x] = bins[threadIdx.x];  // here early_histogram
}
extern "C" void early_histogram(const float* x, float* y, int n) { histogram_read_too_early<<<1, 32>>>(x, y); }

__global__ void early_return(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();  // here early_exit
    y[threadIdx.x] = s[n - 1 - threadIdx.x];
}
extern "C" void early_exit(const float* x, float* y, int n) { early_return<<<1, 64>>>(x, y, n); }

__global__ void either(float* y, int n) {
    if (threadIdx.x < n) {
        __syncthreads();  // here two_barriers
        y[threadIdx.x] = 1;
    } else {
        __syncthreads();  // there two_barriers
    }
}
extern "C" void two_barriers(const float* x, float* y, int n) { either<<<1, 64>>>(y, n); }

__global__ void some_lanes(float* y, int n) {
    float v = threadIdx.x;
    if (threadIdx.x < n) v += __shfl_down_sync(0xffffffff, v, 1);  // here absent_lanes
    __syncthreads();                                               // there absent_lanes
    y[threadIdx.x] = v;
}
extern "C" void absent_lanes(const float* x, float* y, int n) { some_lanes<<<1, 32>>>(y, 20); }

__global__ void not_in_mask(float* y) {
    y[threadIdx.x] = __shfl_sync(0x0000ffff, 1.0f, 0);  // here outside_the_mask
}
extern "C" void outside_the_mask(const float* x, float* y, int n) { not_in_mask<<<1, 32>>>(y); }

__global__ void half_a_warp(float* y) {
    float v = threadIdx.x;
    v += __shfl_down_sync(0xffffffff, v, 8);  // here nobody_there
    y[threadIdx.x] = v;
}
extern "C" void nobody_there(const float* x, float* y, int n) { half_a_warp<<<1, 16>>>(y); }

__global__ void nothing(float* y) {}
extern "C" int no_blocks(const float* x, float* y, int n) {
    nothing<<<n - n, 32>>>(y);  // here no_blocks
    return cudaGetLastError();
}
extern "C" int no_threads(const float* x, float* y, int n) {
    nothing<<<1, n - n>>>(y);  // here no_threads
    return cudaGetLastError();
}
extern "C" int too_many_threads(const float* x, float* y, int n) {
    nothing<<<1, dim3(32, 33)>>>(y);  // here too_many_threads
    return cudaGetLastError();
}
extern "C" int block_too_deep(const float* x, float* y, int n) {
    nothing<<<1, dim3(1, 1, 65)>>>(y);  // here block_too_deep
    return cudaGetLastError();
}
extern "C" int grid_too_high(const float* x, float* y, int n) {
    nothing<<<dim3(1, 65536), 1>>>(y);  // here grid_too_high
    return cudaGetLastError();
}
extern "C" int too_much_dynamic(const float* x, float* y, int n) {
    nothing<<<1, 1, 48 * 1024 + 1>>>(y);  // here too_much_dynamic
    return cudaGetLastError();
}
__global__ void eats_shared(float* y) {
    __shared__ float a[8192];
    extern __shared__ float b[];
    __shared__ float c[4096];  // here too_much_together
    a[0] = b[0] = c[0] = 0;
    *y = a[0] + c[0];
}
extern "C" void too_much_together(const float* x, float* y, int n) { eats_shared<<<1, 1, 4>>>(y); }

__global__ void parent(float* y) {
    if (threadIdx.x == 0) nothing<<<1, 1>>>(y);  // here launch_in_a_kernel
}
extern "C" void launch_in_a_kernel(const float* x, float* y, int n) { parent<<<1, 2>>>(y); }

__global__ void divides(int* y, int n) {
    y[0] = 600 / n;  // here by_zero
}
extern "C" void by_zero(const float* x, float* y, int n) { divides<<<1, 1>>>((int*)y, n - n); }

__global__ void claims(float* y, int n) {
    assert(n % 16 == 0);  // here false_claim
    *y = 1;
}
extern "C" void false_claim(const float* x, float* y, int n) { claims<<<1, 1>>>(y, n); }

__global__ void backwards(const float* x, float* y, int n) {
    for (unsigned i = n; i >= 0; i--)
        y[0] += x[i % 4];  // here never_ends
}
extern "C" void never_ends(const float* x, float* y, int n) { backwards<<<1, 1>>>(x, y, n); }

__global__ void spins(int* y) {
    while (atomicCAS(y, 12345, 1) != 12345) {  // here waits_forever
    }
}
extern "C" void waits_forever(const float* x, float* y, int n) { spins<<<1, 2>>>((int*)y); }

__global__ void sum_of_workspace(const float* from, float* y, int n) {
    float v = 0;
    for (int i = 0; i < n; i++) v += from[i];  // here unwritten_workspace
    *y = v;
}
extern "C" void unwritten_workspace(const float* x, float* y, int n) {
    float* workspace;
    cudaMalloc(&workspace, n * sizeof(float));
    cudaMemcpy(workspace, x, (n - 1) * sizeof(float), cudaMemcpyDeviceToDevice);
    sum_of_workspace<<<1, 1>>>(workspace, y, n);
    cudaFree(workspace);
}

__global__ void add_to(float* sum, const float* x) {
    atomicAdd(sum, x[threadIdx.x]);  // here sum_without_zero
}
extern "C" void sum_without_zero(const float* x, float* y, int n) {
    float* sum;
    cudaMalloc(&sum, sizeof(float));
    add_to<<<1, 32>>>(sum, x);
    cudaMemcpy(y, sum, sizeof(float), cudaMemcpyDeviceToDevice);
    cudaFree(sum);
}

extern "C" void freed_twice(const float* x, float* y, int n) {
    float* workspace;
    cudaMalloc(&workspace, n * sizeof(float));
    cudaFree(workspace);  // there freed_twice
    cudaFree(workspace);  // here freed_twice
}

extern "C" int freed_in_the_middle(const float* x, float* y, int n) {
    static float* workspace;
    cudaMalloc(&workspace, n * sizeof(float));
    return cudaFree(workspace + 4);  // here freed_in_the_middle
}

extern "C" void freed_for_the_caller(const float* x, float* y, int n) {
    cudaFree(y);  // here freed_for_the_caller
}

extern "C" void freed_on_the_host(const float* x, float* y, int n) {
    float* mine = new float[n];
    cudaFree(mine);  // here freed_on_the_host
    delete[] mine;
}

__device__ float sign(float v) {  // here no_return
    if (v > 0) return 1.0f;
    if (v < 0) return -1.0f;
}
__global__ void signs(const float* x, float* y, int n) { y[threadIdx.x] = sign(n * x[threadIdx.x]); }
extern "C" void no_return(const float* x, float* y, int n) { signs<<<1, 32>>>(x, y, 0); }

template <int threads> __global__ void __launch_bounds__(2 * threads, 1) bounded(float* y) {
    y[threadIdx.x] = 1.0f;
}
extern "C" int beyond_its_bounds(const float* x, float* y, int n) {
    bounded<16><<<1, 64>>>(y);  // here beyond_its_bounds
    return cudaGetLastError();
}

__global__ void either_in_one_line(float* y, int n) {
    if (threadIdx.x < n) __syncthreads(); else __syncthreads();  // here two_in_one_line
    y[threadIdx.x] = 1;
}
extern "C" void two_in_one_line(const float* x, float* y, int n) { either_in_one_line<<<1, 64>>>(y, n); }

__device__ void meet() {
    __syncthreads();  // here two_callers
}
__global__ void either_way(float* y, int n) {
    if (threadIdx.x < n) {
        meet();
    } else {
        y[threadIdx.x] = 1;
        meet();  // there two_callers
    }
}
extern "C" void two_callers(const float* x, float* y, int n) { either_way<<<1, 64>>>(y, n); }

__global__ void everybody_says_so(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] == x[i]) y[0] = 1.0f;  // here same_value
}
extern "C" void same_value(const float* x, float* y, int n) { everybody_says_so<<<2, 32>>>(x, y, n); }

extern "C" void never_freed(const float* x, float* y, int n) {
    float* workspace;
    cudaMalloc(&workspace, n * sizeof(float));  // here never_freed
    cudaMemcpy(workspace, x, n * sizeof(float), cudaMemcpyDeviceToDevice);
    sum_of_workspace<<<1, 1>>>(workspace, y, n);
}
