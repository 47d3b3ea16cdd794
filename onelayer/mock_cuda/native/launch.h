// A kernel's launch, whoever asks for it: the runtime, the driver, cuBLAS.
#pragma once
#include "cost.h"
#include "memory.h"

namespace mock {

struct Launch {
    const char* name;
    dim3 grid{1, 1, 1}, block{1, 1, 1};
    size_t shared = 0;
    double bytes = 0, flops = 0;
    Precision precision = FP32;
};

cudaError_t launch(Api& api, const Launch& what, cudaStream_t stream);

// A name that lives as long as the process, for kernels that no binary of torch's names.
const char* kept_name(const std::string& name);

}  // namespace mock
