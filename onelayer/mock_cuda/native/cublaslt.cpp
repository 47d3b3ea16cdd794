// cuBLASLt: descriptors that keep what they are told, one algorithm, and the product itself.
#include <cublasLt.h>

#include <cstring>

#include "gemm.h"

namespace mock {

struct MatmulDescription {
    int a = 0, b = 0, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    cublasComputeType_t compute;
};

struct Layout {
    cudaDataType type;
    uint64_t rows, cols;
    int batch = 1;
};

// The public structs are opaque arrays with more room than this.
template <class T, class Opaque>
static T& inside(Opaque* opaque) {
    static_assert(sizeof(T) <= sizeof(*opaque), "the opaque struct is too small");
    return *reinterpret_cast<T*>(opaque);
}

static const Layout& layout(cublasLtMatrixLayout_t of) { return inside<Layout>(of); }

static cublasStatus_t multiply(MatmulDescription& d, const Layout& a, const Layout& c, cudaStream_t stream) {
    long k = long(d.a ? a.rows : a.cols);
    Gemm gemm{long(c.rows), long(c.cols), k, c.batch, a.type, d.a, d.b};
    gemm.tf32 = d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    return launch_gemm("cublasLtMatmul", gemm, stream) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace mock

using namespace mock;

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    return *handle = reinterpret_cast<cublasLtHandle_t>(new char), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return delete reinterpret_cast<char*>(handle), CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute, cudaDataType_t) {
    *d = new std::remove_pointer_t<cublasLtMatmulDesc_t>{};
    return inside<MatmulDescription>(*d).compute = compute, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t) {
    auto& mine = inside<MatmulDescription>(d);
    int said;
    memcpy(&said, value, sizeof said);
    if (which == CUBLASLT_MATMUL_DESC_TRANSA) mine.a = said;
    if (which == CUBLASLT_MATMUL_DESC_TRANSB) mine.b = said;
    if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) mine.epilogue = said;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t) {
    *made = new std::remove_pointer_t<cublasLtMatrixLayout_t>{};
    return inside<Layout>(*made) = {type, rows, cols}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return delete l, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t) {
    if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) memcpy(&inside<Layout>(l).batch, value, sizeof(int));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    *made = new std::remove_pointer_t<cublasLtMatmulPreference_t>{};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    return delete p, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}

// One algorithm that needs no workspace and always fits.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int room,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
    if (room) results[0] = cublasLtMatmulHeuristicResult_t{};
    return *found = std::min(room, 1), CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void*, const void*,
                              cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t, const void*,
                              const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t out,
                              const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
    return multiply(inside<MatmulDescription>(d), layout(a), layout(out), stream);
}
}
