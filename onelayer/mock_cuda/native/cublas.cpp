// cuBLAS: a handle, and matrix products that are told, timed by their shape, and not computed.
#include <cublas_v2.h>

#include "gemm.h"

namespace mock {

struct Blas {
    cudaStream_t stream = nullptr;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

static Blas& of(cublasHandle_t handle) { return *reinterpret_cast<Blas*>(handle); }

static cublasStatus_t product(const char* name, cublasHandle_t handle, Gemm gemm) {
    gemm.tf32 = gemm.type == CUDA_R_32F && of(handle).math == CUBLAS_TF32_TENSOR_OP_MATH;
    return launch_gemm(name, gemm, of(handle).stream) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

// A vector's work: n elements in and out, no reuse.
static cublasStatus_t stream_through(const char* name, cublasHandle_t handle, double elements, double itemsize) {
    RUNTIME('k', cudaLaunchKernel, v7000);
    Launch what{name, dim3(unsigned(std::max(1.0, elements / 1024))), dim3(128)};
    what.bytes = elements * itemsize, what.flops = 2 * elements;
    return launch(api, what, of(handle).stream) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace mock

using namespace mock;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    return *handle = reinterpret_cast<cublasHandle_t>(new Blas), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return delete &of(handle), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    return of(handle).stream = stream, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
    return *stream = of(handle).stream, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
    return of(handle).math = math, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* math) {
    return *math = of(handle).math, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    return of(handle).pointers = mode, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
    return *mode = of(handle).pointers, CUBLAS_STATUS_SUCCESS;
}

// One family of matrix products per type of element: single, strided batches, batches of pointers.
#define GEMM(letter, T, type)                                                                             \
    cublasStatus_t cublas##letter##gemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,  \
                                           int m, int n, int k, const T*, const T*, int, const T*, int,   \
                                           const T*, T*, int) {                                           \
        return product("cublas" #letter "gemm", h, {m, n, k, 1, type, ta, tb});                           \
    }                                                                                                     \
    cublasStatus_t cublas##letter##gemmStridedBatched(                                                    \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T*,      \
        const T*, int, long long, const T*, int, long long, const T*, T*, int, long long, int batch) {    \
        return product("cublas" #letter "gemmStridedBatched", h, {m, n, k, batch, type, ta, tb});         \
    }                                                                                                     \
    cublasStatus_t cublas##letter##gemmBatched(                                                           \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T*,      \
        const T* const[], int, const T* const[], int, const T*, T* const[], int, int batch) {             \
        return product("cublas" #letter "gemmBatched", h, {m, n, k, batch, type, ta, tb});                \
    }
GEMM(S, float, CUDA_R_32F)
GEMM(D, double, CUDA_R_64F)
GEMM(C, cuComplex, CUDA_C_32F)
GEMM(Z, cuDoubleComplex, CUDA_C_64F)

cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                             const float*, const void*, cudaDataType type, int, const void*, cudaDataType, int,
                             const float*, void*, cudaDataType, int) {
    return product("cublasSgemmEx", h, {m, n, k, 1, type, ta, tb});
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void*, const void*, cudaDataType type, int, const void*, cudaDataType, int,
                            const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t) {
    return product("cublasGemmEx", h, {m, n, k, 1, type, ta, tb});
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                          int n, int k, const void*, const void*, cudaDataType type, int,
                                          long long, const void*, cudaDataType, int, long long, const void*,
                                          void*, cudaDataType, int, long long, int batch, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
    return product("cublasGemmStridedBatchedEx", h, {m, n, k, batch, type, ta, tb});
}

#define GEMV_AND_DOT(letter, T, dot)                                                                      \
    cublasStatus_t cublas##letter##gemv_v2(cublasHandle_t h, cublasOperation_t, int m, int n, const T*,   \
                                           const T*, int, const T*, int, const T*, T*, int) {             \
        return stream_through("cublas" #letter "gemv", h, double(m) * n + m + n, sizeof(T));              \
    }                                                                                                     \
    cublasStatus_t cublas##letter##dot##_v2(cublasHandle_t h, int n, const T*, int, const T*, int, T*) {  \
        return stream_through("cublas" #letter #dot, h, 2.0 * n, sizeof(T));                              \
    }
GEMV_AND_DOT(S, float, dot)
GEMV_AND_DOT(D, double, dot)
GEMV_AND_DOT(C, cuComplex, dotu)
GEMV_AND_DOT(Z, cuDoubleComplex, dotu)

cublasStatus_t cublasDotEx(cublasHandle_t h, int n, const void*, cudaDataType type, int, const void*, cudaDataType,
                           int, void*, cudaDataType, cudaDataType) {
    return stream_through("cublasDotEx", h, 2.0 * n, itemsize_of(type));
}
}
