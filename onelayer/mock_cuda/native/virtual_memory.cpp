// The driver's virtual memory: addresses first, memory behind them later. The allocator's expandable
// segments live on it.
#include <cuda.h>
#include <sys/mman.h>

#include "marks.h"
#include "memory.h"

namespace mock {

constexpr size_t GRANULARITY = 2u << 20;

struct Physical {
    size_t bytes;
    int device;
};

static Physical* physical(CUmemGenericAllocationHandle handle) { return reinterpret_cast<Physical*>(handle); }

static void* address(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

}  // namespace mock

using namespace mock;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    return *bytes = GRANULARITY, CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* p, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    return *p = CUdeviceptr(map_pages(bytes)), *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) { return unmap_pages(address(p), bytes), CUDA_SUCCESS; }

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* where,
                     unsigned long long) {
    Guard guard(lock);
    if (!take(where->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    auto* made = new Physical{bytes, where->location.id};
    return *handle = reinterpret_cast<CUmemGenericAllocationHandle>(made), CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    Guard guard(lock);
    give_back(physical(handle)->device, physical(handle)->bytes);
    return delete physical(handle), CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
    Guard guard(lock);
    device_memory.put(address(p), bytes, physical(handle)->device);
    return marks.put(address(p), bytes, UNWRITTEN), CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
    Guard guard(lock);
    device_memory.cut(address(p), bytes);
    marks.cut(address(p), bytes);
    return madvise(address(p), bytes, MADV_DONTNEED), CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
}
