// The driver's API, as far as torch, Triton's launcher and Inductor ask it: contexts, modules whose
// kernels are known by name, and launches.
#include <cuda.h>

#include <cstring>
#include <dlfcn.h>

#include "launch.h"

namespace mock {

long device_attribute(int attribute);

static char context_of[MAX_DEVICES];  // a context is known by the address of its device's entry

static CUcontext context(int device) { return reinterpret_cast<CUcontext>(&context_of[device]); }

static int device_in(CUcontext c) { return int(reinterpret_cast<char*>(c) - context_of); }

static cudaStream_t runtime_stream(CUstream s) { return reinterpret_cast<cudaStream_t>(s); }

static CUresult launch_function(int cbid, const char* api_name, CUfunction f, dim3 grid, dim3 block, size_t shared,
                                CUstream stream) {
    Api api('k', api_name, cbid, true);
    Launch what{reinterpret_cast<const char*>(f), grid, block, shared};
    what.bytes = bytes_of_launch(what.name, grid, block, nullptr);
    return CUresult(launch(api, what, runtime_stream(stream)));
}

// Our own definition of a name, or of its newest version, as the headers rename them.
static void* own_symbol(const std::string& name) {
    for (const char* version : {"_v4", "_v3", "_v2", ""})
        if (void* found = dlsym(RTLD_DEFAULT, (name + version).c_str())) return found;
    return nullptr;
}

}  // namespace mock

using namespace mock;

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* n) { return *n = device_count(), CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int i) { return *device = i, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* text, int room, CUdevice) {
    return snprintf(text, size_t(room), "%s", model().name.c_str()), CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = model().memory_bytes, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    return *value = int(device_attribute(attribute)), CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    memset(uuid->bytes, 0, sizeof uuid->bytes);
    return uuid->bytes[0] = char(device + 1), CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* c) { return *c = context(current_device), CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) {
    if (c) current_device = device_in(c);
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext c) { return cuCtxSetCurrent(c); }
CUresult cuCtxPopCurrent(CUcontext* c) { return cuCtxGetCurrent(c); }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = current_device, CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return CUresult(cudaDeviceSynchronize()); }
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice device) { return *c = context(device), CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
    return *flags = 0, *active = 1, CUDA_SUCCESS;
}

// The mocked driver keeps no log of its own to call back about.
CUresult cuLogsRegisterCallback(CUlogsCallback, void*, CUlogsCallbackHandle* handle) {
    return *handle = nullptr, CUDA_SUCCESS;
}
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle) { return CUDA_SUCCESS; }

// What NVIDIA's own libraries tell each other behind the API; they do without.
CUresult cuGetExportTable(const void**, const CUuuid*) { return CUDA_ERROR_NOT_FOUND; }

CUresult cuGetErrorString(CUresult code, const char** text) {
    return *text = cudaGetErrorString(cudaError_t(code)), CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult code, const char** text) {
    return *text = cudaGetErrorName(cudaError_t(code)), CUDA_SUCCESS;
}

// A module is not read; a function of it is its name, which lives on when the module is unloaded.
CUresult cuModuleLoadData(CUmodule* module, const void*) {
    return *module = reinterpret_cast<CUmodule>(new char), CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* m, const void* image, unsigned, CUjit_option*, void**) {
    return cuModuleLoadData(m, image);
}
CUresult cuModuleLoad(CUmodule* m, const char*) { return cuModuleLoadData(m, nullptr); }
CUresult cuModuleUnload(CUmodule m) { return delete reinterpret_cast<char*>(m), CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* name) {
    return *f = reinterpret_cast<CUfunction>(const_cast<char*>(kept_name(name))), CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
    *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void**, void**) {
    return launch_function(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", f, dim3(gx, gy, gz),
                           dim3(bx, by, bz), shared, stream);
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void**) {
    return launch_function(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", f,
                           dim3(gx, gy, gz), dim3(bx, by, bz), shared, stream);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void**, void**) {
    return launch_function(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, "cuLaunchKernelEx", f,
                           dim3(c->gridDimX, c->gridDimY, c->gridDimZ),
                           dim3(c->blockDimX, c->blockDimY, c->blockDimZ), c->sharedMemBytes, c->hStream);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t shared) {
    return CUresult(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, nullptr, threads, shared, 0));
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
    return *clusters = model().sms / 2, CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream s) { return CUresult(cudaStreamSynchronize(runtime_stream(s))); }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
    return CUresult(cudaStreamIsCapturing(runtime_stream(s), reinterpret_cast<cudaStreamCaptureStatus*>(status)));
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream s) {
    return CUresult(cudaMemsetAsync(reinterpret_cast<void*>(at), int(value & 0xFF), count * 4, runtime_stream(s)));
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr p) {
    Guard guard(lock);
    int device = device_of(reinterpret_cast<void*>(p));
    bool pinned = is_pinned(reinterpret_cast<void*>(p));
    if (device < 0 && !pinned) return CUDA_ERROR_INVALID_VALUE;
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) memcpy(value, &device, sizeof device);
    else if (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) memcpy(value, &p, sizeof p);
    else if (which == CU_POINTER_ATTRIBUTE_CONTEXT) cuCtxGetCurrent(static_cast<CUcontext*>(value));
    else return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* r) {
    *function = own_symbol(name);
    if (r) *r = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
    *function = own_symbol(name);
    if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function ? cudaSuccess : fail(cudaErrorSymbolNotFound);
}
}
