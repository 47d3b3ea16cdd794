// Memory of the devices and pinned memory of the host. Both are the host's own, mapped so that a
// page which nobody touches costs nothing.
#pragma once
#include "api.h"
#include "ranges.h"

namespace mock {

inline Ranges<int> device_memory;   // address -> device
inline Ranges<int> pinned_memory;   // address -> whether we allocated it, or the caller registered it

// Takes `bytes` off what the device has left; false where there is less.
inline bool take(int device, size_t bytes) {
    if (devices[device].used + bytes > model().memory_bytes) return false;
    devices[device].used += bytes;
    return true;
}

inline void give_back(int device, size_t bytes) { devices[device].used -= bytes; }

// The device that owns the address, or -1.
inline int device_of(const void* p) {
    auto* r = device_memory.find(p);
    return r ? r->value : -1;
}

inline bool is_pinned(const void* p) { return pinned_memory.find(p) != nullptr; }

void deliver();  // writes what copies brought to the host since somebody last waited

inline void wait_for_device(Ns when) {
    deliver();
    wait_until(when);
}

cudaError_t ready();
char* map_pages(size_t bytes);
void unmap_pages(const void* at, size_t bytes);

}  // namespace mock
