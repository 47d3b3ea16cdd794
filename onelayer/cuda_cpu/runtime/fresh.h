// Memory of a GPU that nobody has written: what cudaMalloc gave, and tensors that the call says are
// fresh from torch.empty. A granule's mark tells it, and the host's own writes leave a mark as well.
#pragma once

static constexpr uint32_t HOST_SERIAL = 1;  // of no block, and earlier than every launch

// Granules of four bytes do, until somebody touches less.
static void refine(Region& r) {
    size_t step = (size_t)1 << (r.shift - r.finest), count = ((r.high - r.low) >> r.finest) + 1;
    for (size_t i = 0; i < count; i++) r.granules[i] = r.granules[i & ~(step - 1)];
    r.shift = r.finest;
}

static void mark_as_written(Region& r, uintptr_t low, uintptr_t high) {
    if (!r.granules || low >= high) return;
    if (r.shift > r.finest && ((low - r.low) & 3 || ((high - r.low) & 3 && high != r.high))) refine(r);
    size_t step = (size_t)1 << (r.shift - r.finest);
    size_t first = ((low - r.low) >> r.shift) * step, last = ((high - 1 - r.low) >> r.shift) * step;
    for (size_t i = first; i <= last; i += step)
        if (!r.granules[i].written.serial) r.granules[i].written.serial = HOST_SERIAL;
}

// A copy or a cudaMemset from the host. What is written whole needs no marks any more.
static void host_fills(const void* to, size_t bytes) {
    Region* r = bytes ? region_at((uintptr_t)to, bytes) : nullptr;
    if (!r || !r->fresh) return;
    if (bytes == r->high - r->low) r->fresh = false;
    else mark_as_written(*r, (uintptr_t)to, (uintptr_t)to + bytes);
}

EXPORT void onelayer_unwritten(void* low, size_t bytes) {
    Region* r = bytes ? region_at((uintptr_t)low, bytes) : nullptr;
    if (!r) return;
    if (!r->fresh) {  // what lies around it in a tensor that it is a view of
        mark_as_written(*r, r->low, (uintptr_t)low);
        mark_as_written(*r, (uintptr_t)low + bytes, r->high);
    }
    r->fresh = true;
}

static bool see_unwritten(const Mark& now, uintptr_t address, int size) {
    Report r = report_here(UNWRITTEN_GLOBAL, 0);
    r.pc = now.pc, r.address = address, r.size = size;
    add_report(r);
    return false;
}
