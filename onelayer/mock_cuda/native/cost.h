// How long work takes on the modelled device. A roofline: a kernel takes the longer of its bytes
// over the memory's bandwidth and its FLOPs over the peak, and never less than the least kernel.
// Bytes and FLOPs of a matrix product are exact. Of other kernels they are read off the launch, and
// the name says how (docs/mock_cuda.md): a model, good for order and proportion, not for speed.
#pragma once
#include <cuda_runtime_api.h>

#include "clock.h"

namespace mock {

enum Precision { FP64, FP32, TF32, HALF };

Ns roofline(double bytes, double flops, Precision precision);
// Bytes that a kernel of torch moves, from its demangled name, its grid and its first argument.
double bytes_of_launch(const char* mangled, dim3 grid, dim3 block, void** arguments);
Ns copy_time(cudaMemcpyKind kind, size_t bytes, bool pinned);

}  // namespace mock
