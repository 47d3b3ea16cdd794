// How a call fails: with CUDA's own code, and CUDA's own text where CUDA has one.
#pragma once
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "device.h"

namespace mock {

inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local std::string own_text;  // for a code whose text in CUDA would not say enough

inline cudaError_t fail(cudaError_t code, std::string text = "") {
    own_text = std::move(text);
    return last_error = code;
}

inline cudaError_t sticky_error() {
    cudaError_t code = devices[current_device].sticky;
    return code == cudaSuccess ? code : fail(code);
}

// A function of NVIDIA's own library, which torch brought along and this one hides. Only tables are
// asked for: names and texts, that need no device.
template <class F>
F real(const char* library, const char* function) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return handle ? F(dlsym(handle, function)) : nullptr;
}

}  // namespace mock

extern "C" {

cudaError_t cudaGetLastError() {
    cudaError_t code = mock::last_error;
    mock::last_error = mock::devices[mock::current_device].sticky;
    return code;
}

cudaError_t cudaPeekAtLastError() { return mock::last_error; }

const char* cudaGetErrorString(cudaError_t code) {
    if (code == cudaErrorNotSupported && !mock::own_text.empty()) return mock::own_text.c_str();
    static auto table = mock::real<const char* (*)(cudaError_t)>(ONELAYER_CUDART, "cudaGetErrorString");
    return table ? table(code) : "unknown error";
}

const char* cudaGetErrorName(cudaError_t code) {
    static auto table = mock::real<const char* (*)(cudaError_t)>(ONELAYER_CUDART, "cudaGetErrorName");
    return table ? table(code) : "cudaErrorUnknown";
}
}
