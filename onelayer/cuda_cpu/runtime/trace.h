// The compiler puts a call before each load and store (its -fsanitize=thread); these are the
// functions that it calls. The access has not happened yet: a bad one never does.
#pragma once
#include "library.h"
#include "fresh.h"

enum Counted { GLOBAL_LOADS, GLOBAL_STORES, SHARED_LOADS, SHARED_STORES, ATOMICS, COUNTED };
static uint64_t counts[COUNTED];

[[noreturn]] static void bad_access(Kind kind, uintptr_t address, int size, Access access, void* pc,
                                    int a = 0) {
    Report r = report_here(kind, 0);
    r.pc = offset_of(pc), r.address = address, r.size = size, r.access = access, r.a = a;
    add_report(r);
    stop_launch();
}

static bool on_a_stack(uintptr_t address) {
    return address - (uintptr_t)stacks < STEP_BYTES * MOST_THREADS;
}
static bool on_own_stack(uintptr_t address) {
    return address - (uintptr_t)stack_of(current) < STACK_BYTES;
}

// A place in the code tends to touch one region again and again.
static Region* recent[256];

static inline Region* find_region(uintptr_t address, int size, void* pc) {
    unsigned slot = ((uintptr_t)pc >> 1) & 255;
    Region* r = recent[slot];
    if (r && address >= r->low && address + size <= r->high) return r;
    r = region_at(address, size);
    if (r) recent[slot] = r;
    return r;
}

static void forget_recent() { memset(recent, 0, sizeof recent); }

static void host_touches(uintptr_t address, int size, Access access, void* pc) {
    Region* r = region_at(address, 1);
    if (!r || is_shared(*r)) return;
    Report report = report_here(HOST_ACCESS, 0);
    report.pc = offset_of(pc), report.address = address, report.size = size, report.access = access;
    add_report(report);
}

// A volatile access to global memory says that other threads are meant: it counts as an atomic.
static bool is_volatile;

static inline Mark mark_now(void* pc, bool atomic) {
    Mark m;
    m.serial = block.serial, m.thread = (uint32_t)current, m.epoch = block.epoch;
    m.pc = offset_of(pc), m.atomic = atomic;
    m.warp_epoch = block.warp_epoch[current / WARP], m.fence = (uint16_t)fences;
    return m;
}

static inline void count(const Region& r, Access access) {
    if (r.space == CONSTANT) return;
    if (access == UPDATES) counts[ATOMICS]++;
    else counts[(is_shared(r) ? SHARED_LOADS : GLOBAL_LOADS) + (access == WRITES)]++;
}

static inline void watch(Region& r, uintptr_t address, int size, Access access, void* pc) {
    if (!r.granules) return;
    if (r.shift > r.finest && ((address | size) & 3)) refine(r);
    Mark now = mark_now(pc, access == UPDATES || (is_volatile && !is_shared(r)));
    size_t first = (address - r.low) >> r.shift, last = (address + size - 1 - r.low) >> r.shift;
    int spread = r.shift - r.finest;
    first <<= spread, last <<= spread;
    size_t step = (size_t)1 << spread;
    bool shared = is_shared(r), clean = true;
    for (size_t i = first; i <= last && clean; i += step) {
        Granule& g = r.granules[i];
        if (r.fresh && access != WRITES && !g.written.serial) clean = see_unwritten(now, address, size);
        if (access == UPDATES && shared && g.written.serial != now.serial)
            clean = see_read(g, now, address, size, true);
        clean = (access == READS ? see_read(g, now, address, size, shared)
                                 : see_write(g, now, address, size, shared)) && clean;
    }
    if (!clean && access != READS)
        for (size_t i = first; i <= last; i += step) r.granules[i].written = now;
}

static constexpr unsigned ENDLESS = 1u << 25;  // loads and stores without a barrier: about a second
[[noreturn]] static void never_ends(void* pc) {
    Report r = report_here(STUCK, 0);
    r.pc = offset_of(pc), r.a = ENDLESS;
    add_report(r);
    stop_launch();
}

static __attribute__((noinline)) void see(void* at, int size, Access access, bool aligned, void* pc) {
    uintptr_t address = (uintptr_t)at;
    if (waiting.is) settle_write();
    if (!in_kernel) return host_touches(address, size, access, pc);
    Region* r = find_region(address, size, pc);
    if (!r) {
        if (on_own_stack(address)) return;
        if (access == READS && is_constant(address)) return;
        bool beyond_shared = address - (uintptr_t)onelayer_dynamic_shared < MOST_SHARED;
        int whose = on_a_stack(address) ? 1 : in_library(address) && !beyond_shared ? 4 : 0;
        bad_access(OUT_OF_BOUNDS, address, size, access, pc, whose);
    }
    if (aligned && (address & (size - 1))) bad_access(MISALIGNED, address, size, access, pc);
    if (++threads[current].steps > ENDLESS) never_ends(pc);
    count(*r, access);
    watch(*r, address, size, access, pc);
}

#define TRACE extern "C" __attribute__((visibility("hidden")))
#define PC __builtin_return_address(0)
#define PLAIN(size)                                                                             \
    TRACE void __tsan_read##size(void* at) { see(at, size, READS, true, PC); }                  \
    TRACE void __tsan_write##size(void* at) { see(at, size, WRITES, true, PC); }                \
    TRACE void __tsan_unaligned_read##size(void* at) { see(at, size, READS, false, PC); }       \
    TRACE void __tsan_unaligned_write##size(void* at) { see(at, size, WRITES, false, PC); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)

// Who asks again and again may wait for what another thread stores: let the others run, and give up
// in the end.
static constexpr unsigned PATIENCE = 1u << 22;
static void wait_a_little(void* pc) {
    if (!in_kernel || ++threads[current].waits % 64) return;
    if (threads[current].waits > PATIENCE) {
        Report r = report_here(STUCK, 0);
        r.pc = offset_of(pc);
        add_report(r);
        stop_launch();
    }
    let_others_run();
}
static void see_volatile(void* at, int size, Access access, void* pc) {
    is_volatile = true;
    see(at, size, access, true, pc);
    is_volatile = false;
    if (access == READS) wait_a_little(pc);
}
#define VOLATILE(size)                                                                          \
    TRACE void __tsan_volatile_read##size(void* at) { see_volatile(at, size, READS, PC); }      \
    TRACE void __tsan_volatile_write##size(void* at) { see_volatile(at, size, WRITES, PC); }    \
    TRACE void __tsan_unaligned_volatile_read##size(void* at) { see(at, size, READS, false, PC); } \
    TRACE void __tsan_unaligned_volatile_write##size(void* at) { see(at, size, WRITES, false, PC); }
VOLATILE(1) VOLATILE(2) VOLATILE(4) VOLATILE(8) VOLATILE(16)

static void see_range(void* at, long bytes, Access access, void* pc) {
    for (long i = 0; i < bytes;) {  // word by word where it can be
        int step = bytes - i >= 4 && !(((uintptr_t)at + i) & 3) ? 4 : 1;
        see((char*)at + i, step, access, false, pc);
        i += step;
    }
}
TRACE void __tsan_read_range(void* at, long bytes) { see_range(at, bytes, READS, PC); }
TRACE void __tsan_write_range(void* at, long bytes) { see_range(at, bytes, WRITES, PC); }
TRACE void __tsan_vptr_update(void**, void*) {}
TRACE void __tsan_vptr_read(void**) {}
TRACE void __tsan_init() {}
TRACE void __tsan_func_entry(void* from) {
    if (in_kernel) enter_call(threads[current], offset_of(from));
}
TRACE void __tsan_func_exit() {
    if (in_kernel) threads[current].depth--;
}
TRACE void __tsan_atomic_thread_fence(int) { fences++; }
TRACE void __tsan_atomic_signal_fence(int) {}

// The library's functions over memory: g++ leaves their names to the header (keywords.h), clang calls
// the second of each pair.
#define COPIES(name, function)                                          \
    TRACE void* name(void* to, const void* from, size_t bytes) {        \
        see_range((void*)from, bytes, READS, PC);                       \
        see_range(to, bytes, WRITES, PC);                               \
        return function(to, from, bytes);                               \
    }
#define FILLS(name)                                                     \
    TRACE void* name(void* to, int value, size_t bytes) {               \
        see_range(to, bytes, WRITES, PC);                               \
        return memset(to, value, bytes);                                \
    }
COPIES(onelayer_watched_memcpy, memcpy) COPIES(__tsan_memcpy, memcpy)
COPIES(onelayer_watched_memmove, memmove) COPIES(__tsan_memmove, memmove)
FILLS(onelayer_watched_memset) FILLS(__tsan_memset)

#define ATOMIC_ONE(bits, T, name, expression)                                                   \
    TRACE T __tsan_atomic##bits##_##name(volatile T* at, T v, int) {                            \
        see((void*)at, bits / 8, UPDATES, true, PC);                                            \
        T old = *at;                                                                            \
        *at = expression;                                                                       \
        if (old == *at) wait_a_little(PC);  /* nothing changed: a lock that is taken */         \
        return old;                                                                             \
    }
#define ATOMIC_SWAP(bits, T)                                                                    \
    static bool swap##bits(volatile T* at, T* expected, T v, void* pc) {                        \
        see((void*)at, bits / 8, UPDATES, true, pc);                                            \
        T old = *at;                                                                            \
        bool same = old == *expected;                                                           \
        if (same) *at = v;                                                                      \
        else *expected = old, wait_a_little(pc);                                                \
        return same;                                                                            \
    }                                                                                           \
    TRACE int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T v,   \
                                                            int, int) {                         \
        return swap##bits(at, expected, v, PC);                                                 \
    }                                                                                           \
    TRACE int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T v,     \
                                                          int, int) {                           \
        return swap##bits(at, expected, v, PC);                                                 \
    }                                                                                           \
    TRACE T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T v, int,    \
                                                       int) {                                   \
        swap##bits(at, &expected, v, PC);                                                       \
        return expected;                                                                        \
    }
#define ATOMIC(bits, T)                                                                         \
    TRACE T __tsan_atomic##bits##_load(const volatile T* at, int) {                             \
        see((void*)at, bits / 8, UPDATES, true, PC);                                            \
        counts[ATOMICS] -= in_kernel;  /* the exchange that follows is counted */               \
        return *at;                                                                             \
    }                                                                                           \
    TRACE void __tsan_atomic##bits##_store(volatile T* at, T v, int) {                          \
        see((void*)at, bits / 8, UPDATES, true, PC);                                            \
        *at = v;                                                                                \
    }                                                                                           \
    ATOMIC_ONE(bits, T, exchange, v)                                                            \
    ATOMIC_ONE(bits, T, fetch_add, (T)(old + v))                                                \
    ATOMIC_ONE(bits, T, fetch_sub, (T)(old - v))                                                \
    ATOMIC_ONE(bits, T, fetch_and, (T)(old & v))                                                \
    ATOMIC_ONE(bits, T, fetch_or, (T)(old | v))                                                 \
    ATOMIC_ONE(bits, T, fetch_xor, (T)(old ^ v))                                                \
    ATOMIC_ONE(bits, T, fetch_nand, (T)~(old & v))                                              \
    ATOMIC_SWAP(bits, T)
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)
