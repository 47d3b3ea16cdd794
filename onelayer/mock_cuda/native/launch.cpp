// Kernel launches: torch registers each kernel by name when its libraries are loaded, and launches
// it by the address of a stub of the host. Nothing runs; what was asked for is told and timed.
#include "launch.h"

#include <cstring>
#include <unordered_set>

namespace mock {

static std::unordered_map<const void*, const char*>& kernels() {
    static std::unordered_map<const void*, const char*> by_stub;  // first used before main()
    return by_stub;
}

static const char* name_of(const void* stub) {
    auto it = kernels().find(stub);
    return it == kernels().end() ? "a kernel that no library registered" : it->second;
}

const char* kept_name(const std::string& name) {
    static std::unordered_set<std::string> kept;
    Guard guard(lock);
    return kept.insert(name).first->c_str();
}

// Bytes and FLOPs of an operator, said by who computes its values (onelayer_mock_operator).
struct Hint {
    double bytes = 0, flops = 0;
};
static thread_local Hint hint;

static bool fills_device(const Launch& what) {
    return size_t(what.grid.x) * what.grid.y * what.grid.z >= size_t(model().sms);
}

static Work kernel_work(const Launch& what) {
    Work work;
    Call& call = work.told.call;
    call.kind = 'k', call.api = "", call.kernel = what.name, call.grid = what.grid, call.block = what.block;
    call.shared = what.shared, call.bytes = size_t(what.bytes);
    work.duration = roofline(what.bytes, what.flops, what.precision);
    work.engine = COMPUTE, work.fills = fills_device(what);
    return work;
}

static bool blocking() {
    static const bool on = setting("CUDA_LAUNCH_BLOCKING", "0") == "1";
    return on;
}

static bool too_large(const Launch& what) {
    size_t threads = size_t(what.block.x) * what.block.y * what.block.z;
    return threads == 0 || threads > 1024 || !what.grid.x || !what.grid.y || !what.grid.z ||
           what.grid.y > 65535 || what.grid.z > 65535 || what.shared > model().shared_optin;
}

cudaError_t launch(Api& api, const Launch& what, cudaStream_t handle) {
    if (cudaError_t code = ready()) return code;
    if (too_large(what)) return fail(cudaErrorInvalidConfiguration);
    Ns go_on = 0;
    {
        Guard guard(lock);
        Stream* s = find_stream(handle);
        if (!s) return fail(cudaErrorInvalidResourceHandle);
        Launch said = what;
        last_kernel = what.name;
        if (hint.bytes) said.bytes = hint.bytes, hint.bytes = 0;
        api.submit(*s, kernel_work(said), model().launch_ns);
        if (!s->capture) go_on = blocking() ? s->free_at : room_in_queue(*s);
    }
    wait_until(go_on);
    return cudaSuccess;
}

static cudaError_t launch_stub(Api& api, const void* stub, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
    Launch what{name_of(stub), grid, block, shared};
    what.bytes = bytes_of_launch(what.name, grid, block, arguments);
    return launch(api, what, stream);
}

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
static thread_local Configuration pushed;  // between <<<...>>> and the stub that it calls

}  // namespace mock

using namespace mock;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* handle[2];
    return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, void*, void*, void*, void*,
                            int*) {
    Guard guard(lock);
    kernels()[stub] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    return pushed = {grid, block, shared, stream}, 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared;
    memcpy(stream, &pushed.stream, sizeof pushed.stream);
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
    RUNTIME('k', cudaLaunchKernel, v7000);
    return launch_stub(api, stub, grid, block, arguments, shared, stream);
}

// What a stub compiled by CUDA 13 calls; a profiler shows it as the launch that it is.
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
    RUNTIME('k', cudaLaunchKernel, v7000);
    return launch_stub(api, kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t stream) {
    RUNTIME('k', cudaLaunchCooperativeKernel, v9000);
    return launch_stub(api, stub, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* stub, void** arguments) {
    RUNTIME('k', cudaLaunchKernelExC, v11060);
    return launch_stub(api, stub, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    return *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub)), cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
    *a = cudaFuncAttributes{};
    a->maxThreadsPerBlock = 1024, a->numRegs = 32, a->maxDynamicSharedSizeBytes = int(model().shared_optin);
    a->binaryVersion = a->ptxVersion = model().major * 10 + model().minor;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                   size_t shared, unsigned) {
    int by_threads = model().threads_per_sm / std::max(threads, 1);
    int by_shared = shared ? int(model().shared_per_sm / (shared + 1024)) : by_threads;
    return *blocks = std::max(0, std::min({by_threads, by_shared, 32})), cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* f, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}

// The next launch of this thread is the operator's that moves `bytes`.
void onelayer_mock_operator(double bytes) { hint.bytes = bytes; }
}
