// cudaMalloc, cudaFree, pools of cudaMallocAsync, pinned memory, and whose a pointer is.
#include "memory.h"

#include <sys/mman.h>

#include <atomic>

#include "marks.h"

namespace mock {

constexpr size_t PAGE = 2u << 20;  // what a driver hands out at least

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// Aligned as a device's memory is: to 2 MiB, so that a block's offset means the same as there. Later
// memory lies higher, as long as the kernel finds room there: torch 2.11 takes the lowest of equally
// large blocks, newer ones the oldest.
char* map_pages(size_t bytes) {
    static std::atomic<size_t> higher{size_t(1) << 45};  // between a program's heap and its libraries
    size_t room = whole_pages(bytes) + PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* hint = reinterpret_cast<void*>(higher.fetch_add(room));
    char* raw = static_cast<char*>(mmap(hint, room, PROT_READ | PROT_WRITE, flags, -1, 0));
    if (raw == MAP_FAILED) return nullptr;
    char* at = reinterpret_cast<char*>((reinterpret_cast<size_t>(raw) + PAGE - 1) / PAGE * PAGE);
    if (at > raw) munmap(raw, size_t(at - raw));
    if (raw + PAGE > at) munmap(at + whole_pages(bytes), size_t(raw + PAGE - at));
    return at;
}

void unmap_pages(const void* at, size_t bytes) { munmap(const_cast<void*>(at), whole_pages(bytes)); }

// What is told of: the bytes asked for. What is taken: whole pages, as a driver does.
static cudaError_t allocate(Api& api, void** p, size_t bytes) {
    *p = nullptr;
    api.call.bytes = bytes;
    if (cudaError_t code = ready()) return code;
    if (!bytes) return cudaSuccess;
    Guard guard(lock);
    if (!take(current_device, whole_pages(bytes))) return fail(cudaErrorMemoryAllocation);
    char* at = map_pages(bytes);
    if (!at) return give_back(current_device, whole_pages(bytes)), fail(cudaErrorMemoryAllocation);
    device_memory.put(at, bytes, current_device);
    marks.put(at, bytes, UNWRITTEN);
    return *p = at, cudaSuccess;
}

static cudaError_t release(Api& api, void* p) {
    Guard guard(lock);
    const void* begin = nullptr;
    auto* range = device_memory.find(p, &begin);
    if (!range || begin != p) return fail(cudaErrorInvalidValue);
    api.call.bytes = range->bytes;
    give_back(range->value, whole_pages(range->bytes));
    marks.cut(p, range->bytes);
    unmap_pages(p, range->bytes);
    return device_memory.drop(p), cudaSuccess;
}

static cudaError_t pin(void** p, size_t bytes) {
    *p = map_pages(bytes);
    if (!*p) return fail(cudaErrorMemoryAllocation);
    Guard guard(lock);
    return pinned_memory.put(*p, bytes, 1), cudaSuccess;
}

static void describe_pointer(cudaPointerAttributes* a, const void* p) {
    *a = cudaPointerAttributes{};
    int device = device_of(p);
    bool pinned = is_pinned(p);
    a->type = device >= 0 ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    a->device = device >= 0 ? device : pinned ? current_device : -2;
    a->devicePointer = device >= 0 || pinned ? const_cast<void*>(p) : nullptr;
    a->hostPointer = device >= 0 ? nullptr : const_cast<void*>(p);
}

static int pool_of[MAX_DEVICES];  // a pool is known by the address of its device's entry

}  // namespace mock

using namespace mock;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
    RUNTIME('a', cudaMalloc, v3020);
    return allocate(api, p, bytes);
}

// Waits for the device first: what runs may still use the memory.
cudaError_t cudaFree(void* p) {
    if (!p) return ready();
    RUNTIME('a', cudaFree, v3020);
    Ns idle;
    {
        Guard guard(lock);
        idle = device_idle_at(current_device);
    }
    wait_for_device(idle);
    return release(api, p);
}

cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) {
    RUNTIME('a', cudaMallocAsync, v11020);
    return allocate(api, p, bytes);
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t) {
    RUNTIME('a', cudaFreeAsync, v11020);
    return release(api, p);
}

cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    *total = model().memory_bytes, *left = *total - devices[current_device].used;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
    RUNTIME('a', cudaHostAlloc, v3020);
    api.call.bytes = bytes;
    return pin(p, bytes);
}

cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }

cudaError_t cudaFreeHost(void* p) {
    RUNTIME('a', cudaFreeHost, v3020);
    deliver();
    Guard guard(lock);
    auto* range = pinned_memory.find(p);
    if (!range) return fail(cudaErrorInvalidValue);
    unmap_pages(p, range->bytes);
    return pinned_memory.drop(p), cudaSuccess;
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
    Guard guard(lock);
    if (is_pinned(p)) return fail(cudaErrorHostMemoryAlreadyRegistered);
    return pinned_memory.put(p, bytes, 0), cudaSuccess;
}

cudaError_t cudaHostUnregister(void* p) {
    deliver();
    Guard guard(lock);
    if (!is_pinned(p)) return fail(cudaErrorHostMemoryNotRegistered);
    return pinned_memory.drop(p), cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    return *device = host, cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
    Guard guard(lock);
    return describe_pointer(attributes, p), cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    return *pool = reinterpret_cast<cudaMemPool_t>(&pool_of[device]), cudaSuccess;
}

// A pool keeps nothing back here, so it reserves what is in use.
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    Guard guard(lock);
    size_t used = devices[reinterpret_cast<int*>(pool) - pool_of].used;
    bool threshold = attribute == cudaMemPoolAttrReleaseThreshold;
    return *static_cast<uint64_t*>(value) = threshold ? UINT64_MAX : used, cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
}
