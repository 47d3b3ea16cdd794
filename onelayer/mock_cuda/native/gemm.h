// A matrix product: its shape is all that the model needs, and more exact than any kernel's name.
#pragma once
#include <library_types.h>

#include "launch.h"

namespace mock {

// C (m, n) = A (m, k) B (k, n), `batch` times; `a` and `b` are 0 where the matrix is not transposed.
struct Gemm {
    long m, n, k, batch;
    cudaDataType type;
    int a = 0, b = 0;
    bool tf32 = false;
};

double itemsize_of(cudaDataType type);
cudaError_t launch_gemm(const char* library_call, const Gemm& gemm, cudaStream_t stream);

}  // namespace mock
