// The part of CUDA's runtime that host code of a lab calls. Everything runs at once, in order:
// a stream is accepted and has nothing to wait for.
#pragma once

#define ONELAYER_ERRORS(one)                                                    \
    one(cudaSuccess, 0, "no error")                                             \
    one(cudaErrorInvalidValue, 1, "invalid argument")                           \
    one(cudaErrorMemoryAllocation, 2, "out of memory")                          \
    one(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")     \
    one(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")               \
    one(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")            \
    one(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")           \
    one(cudaErrorInvalidDevice, 101, "invalid device ordinal")                  \
    one(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    one(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    one(cudaErrorAssert, 710, "device-side assert triggered")                   \
    one(cudaErrorMisalignedAddress, 716, "misaligned address")                  \
    one(cudaErrorLaunchFailure, 719, "unspecified launch failure")              \
    one(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define ONELAYER_ONE(name, code, text) name = code,
    ONELAYER_ERRORS(ONELAYER_ONE)
#undef ONELAYER_ONE
};
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct onelayer_stream;
struct onelayer_event;
typedef onelayer_stream* cudaStream_t;
typedef onelayer_event* cudaEvent_t;
static constexpr unsigned int cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
static constexpr unsigned int cudaEventDefault = 0, cudaEventDisableTiming = 2;

// What host code asks of a GPU, under CUDA's names. host.h fills it in and says whose numbers they are.
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, totalConstMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    size_t sharedMemPerMultiprocessor, reservedSharedMemPerBlock, memPitch, textureAlignment;
    int regsPerBlock, regsPerMultiprocessor, l2CacheSize, memoryBusWidth;
    int warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount;
    int maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int integrated, canMapHostMemory, concurrentKernels, cooperativeLaunch, ECCEnabled;
    int asyncEngineCount, unifiedAddressing, managedMemory, pciBusID, pciDeviceID, pciDomainID;
};
enum cudaDeviceAttr {  // of which `onelayer_attribute` knows what a launch is chosen by
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t onelayer_malloc(void** pointer, size_t bytes, int line);
cudaError_t onelayer_free(void* pointer, int line);
cudaError_t cudaFree(void* pointer);
cudaError_t onelayer_memcpy(void* to, const void* from, size_t bytes, int kind, int line);
cudaError_t onelayer_memcpy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                 size_t row_bytes, size_t rows, int kind, int line);
cudaError_t onelayer_memset(void* to, int value, size_t bytes, int line);
cudaError_t onelayer_allow_shared(const char* kernel, int attribute, int value);
}

static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int = 0) {
    return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMalloc(T** pointer, size_t bytes, int line = __builtin_LINE()) {
    return onelayer_malloc((void**)pointer, bytes, line);
}
template <class T>
static inline cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t,
                                          int line = __builtin_LINE()) {
    return onelayer_malloc((void**)pointer, bytes, line);
}
#ifndef ONELAYER_RUNTIME  // a call knows its line; `&cudaFree` is still the function of CUDA's type
#define cudaFree(...) onelayer_free(__VA_ARGS__, __LINE__)
#endif
static inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t, int line = __builtin_LINE()) {
    return onelayer_free(pointer, line);
}
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind, int line = __builtin_LINE()) {
    return onelayer_memcpy(to, from, bytes, kind, line);
}
static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                          cudaMemcpyKind kind, cudaStream_t = nullptr,
                                          int line = __builtin_LINE()) {
    return onelayer_memcpy(to, from, bytes, kind, line);
}
// `rows` rows of `row_bytes`; a pitch is the bytes from one row's beginning to the next one's.
static inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from,
                                       size_t from_pitch, size_t row_bytes, size_t rows,
                                       cudaMemcpyKind kind, int line = __builtin_LINE()) {
    return onelayer_memcpy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, line);
}
static inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                            size_t from_pitch, size_t row_bytes, size_t rows,
                                            cudaMemcpyKind kind, cudaStream_t = nullptr,
                                            int line = __builtin_LINE()) {
    return onelayer_memcpy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, line);
}
static inline cudaError_t cudaMemset(void* to, int value, size_t bytes,
                                     int line = __builtin_LINE()) {
    return onelayer_memset(to, value, bytes, line);
}
static inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                                          cudaStream_t = nullptr, int line = __builtin_LINE()) {
    return onelayer_memset(to, value, bytes, line);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes,
                                             size_t offset = 0) {
    if (offset + bytes > sizeof(T)) return cudaErrorInvalidValue;
    return onelayer_memcpy((char*)&symbol + offset, from, bytes, cudaMemcpyDefault, 0);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes,
                                               size_t offset = 0) {
    if (offset + bytes > sizeof(T)) return cudaErrorInvalidValue;
    return onelayer_memcpy(to, (const char*)&symbol + offset, bytes, cudaMemcpyDefault, 0);
}
// A kernel is known by its name, as it stands before `<<<`.
#define cudaFuncSetAttribute(...) onelayer_cuda::set_attribute(#__VA_ARGS__, __VA_ARGS__)
namespace onelayer_cuda {
template <class Kernel>
cudaError_t set_attribute(const char* kernel, Kernel*, cudaFuncAttribute what, int value) {
    return onelayer_allow_shared(kernel, what, value);
}
}  // namespace onelayer_cuda
