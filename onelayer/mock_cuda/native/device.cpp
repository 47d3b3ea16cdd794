// Devices: how many, what each says of itself, which one is current.
#include "stream.h"

namespace mock {

static bool forked = false;  // CUDA does not survive a fork of the process that initialised it
static bool initialised = false;

static void note_first_use() {
    if (initialised) return;
    initialised = true;
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

// What every call that needs the device asks first.
cudaError_t ready() {
    if (forked) return fail(cudaErrorInitializationError);
    note_first_use();
    return sticky_error();
}

static cudaError_t known(int device) {
    return device >= 0 && device < device_count() ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

// The attributes that torch, CUB, Triton and cuBLAS's callers read. One that answered 0 by mistake
// made CUB divide by zero.
static const std::map<int, long>& attributes() {
    const Model& m = model();
    static const std::map<int, long> known_ones = {
        {cudaDevAttrMaxThreadsPerBlock, 1024},
        {cudaDevAttrMaxBlockDimX, 1024},
        {cudaDevAttrMaxBlockDimY, 1024},
        {cudaDevAttrMaxBlockDimZ, 64},
        {cudaDevAttrMaxGridDimX, 2147483647},
        {cudaDevAttrMaxGridDimY, 65535},
        {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
        {cudaDevAttrTotalConstantMemory, 65536},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxPitch, 2147483647},
        {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrClockRate, m.clock_khz},
        {cudaDevAttrTextureAlignment, 512},
        {cudaDevAttrGpuOverlap, 1},
        {cudaDevAttrMultiProcessorCount, m.sms},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrMemoryClockRate, 2'619'000},
        {cudaDevAttrGlobalMemoryBusWidth, 5120},
        {cudaDevAttrL2CacheSize, long(m.l2_bytes)},
        {cudaDevAttrMaxThreadsPerMultiProcessor, m.threads_per_sm},
        {cudaDevAttrAsyncEngineCount, 3},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrComputeCapabilityMajor, m.major},
        {cudaDevAttrComputeCapabilityMinor, m.minor},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrGlobalL1CacheSupported, 1},
        {cudaDevAttrLocalL1CacheSupported, 1},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, long(m.shared_per_sm)},
        {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
        {cudaDevAttrManagedMemory, 1},
        {cudaDevAttrConcurrentManagedAccess, 1},
        {cudaDevAttrComputePreemptionSupported, 1},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, long(m.shared_optin)},
        {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
        {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {102, 1},  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: expandable segments
    };
    return known_ones;
}

long device_attribute(int attribute) {
    auto it = attributes().find(attribute);
    return it == attributes().end() ? 0 : it->second;
}

static void describe(cudaDeviceProp* p, int device) {
    const Model& m = model();
    *p = cudaDeviceProp{};
    snprintf(p->name, sizeof p->name, "%s", m.name.c_str());
    p->totalGlobalMem = m.memory_bytes, p->major = m.major, p->minor = m.minor;
    p->multiProcessorCount = m.sms, p->warpSize = 32, p->pciBusID = device;
    p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = m.threads_per_sm;
    p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = m.shared_optin;
    p->sharedMemPerMultiprocessor = m.shared_per_sm, p->reservedSharedMemPerBlock = 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->l2CacheSize = int(m.l2_bytes);
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->textureAlignment = 512, p->canMapHostMemory = 1, p->unifiedAddressing = 1;
    p->concurrentKernels = 1, p->asyncEngineCount = 3, p->totalConstMem = 65536;
    p->memoryBusWidth = 5120, p->cooperativeLaunch = 1, p->streamPrioritiesSupported = 1;
    p->memoryPoolsSupported = 1, p->uuid.bytes[0] = char(device + 1);
}

}  // namespace mock

using namespace mock;

extern "C" {

cudaError_t cudaGetDeviceCount(int* n) { return *n = device_count(), cudaSuccess; }

cudaError_t cudaGetDevice(int* device) { return *device = current_device, cudaSuccess; }

cudaError_t cudaSetDevice(int device) {
    if (cudaError_t code = ready()) return code;
    if (cudaError_t code = known(device)) return code;
    return current_device = device, cudaSuccess;
}

// The driver is as new as the headers: those of the torch that runs on it.
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (cudaError_t code = known(device)) return code;
    return describe(properties, device), cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (cudaError_t code = known(device)) return code;
    return *value = int(device_attribute(attribute)), cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
    return snprintf(text, size_t(room), "0000:%02x:00.0", device), cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return *can = device != peer, cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return *least = 0, *greatest = -5, cudaSuccess;
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}
