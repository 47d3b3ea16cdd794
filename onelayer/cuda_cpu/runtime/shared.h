// Static shared memory: each array that a kernel declares has its place, with nobody's memory around.
#pragma once
static constexpr size_t ARENA_BYTES = 32u << 20, USUAL_SHARED = 48 * 1024;
static constexpr size_t AROUND = 4096;  // an index that is somewhat too large stays in nobody's memory
static char* arena;
static size_t arena_used;

#ifdef ONELAYER_ADDRESS_SANITIZER
extern "C" void __asan_poison_memory_region(const void*, size_t);
extern "C" void __asan_unpoison_memory_region(const void*, size_t);
#else
static void __asan_poison_memory_region(const void*, size_t) {}
static void __asan_unpoison_memory_region(const void*, size_t) {}
#endif

// What the header keeps of one declaration in one instance of a template; `launch` counts from 1.
using SharedSlot = onelayer_cuda::Slot;
static SharedSlot* slots[256];
static int slot_count;
static size_t static_bytes;  // of this launch

static void make_place(SharedSlot& slot, size_t bytes, int number) {
    if (!arena) {
        arena = (char*)mmap(nullptr, ARENA_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) abort();
        __asan_poison_memory_region(arena, ARENA_BYTES);
    }
    size_t room = (bytes + AROUND + 255) & ~(size_t)255;
    if (arena_used + AROUND + room > ARENA_BYTES || slot_count == 256) abort();
    slot.at = arena + AROUND + arena_used, slot.bytes = bytes;
    arena_used += room;
    __asan_unpoison_memory_region(slot.at, bytes);
    slots[slot_count++] = &slot;
    add_region((uintptr_t)slot.at, bytes, SHARED, number, 0);
}

static void too_much_shared(int line) {
    Report r = report_here(IMPOSSIBLE_LAUNCH, line);
    r.a = 7, r.b = (int64_t)static_bytes;
    add_report(r);
    stop_launch();
}

// What a block finds in shared memory: NaN in every type, so that nobody takes it for a zero.
static void poison(SharedSlot& slot) {
#ifdef ONELAYER_THREADS  // not by memset, which a race detector would take for a kernel's own store
    for (volatile char* at = slot.at; at < slot.at + slot.bytes; at++) *at = (char)0xff;
#else
    memset(slot.at, 0xff, slot.bytes);
#endif
}

static bool is_in_use(const SharedSlot& slot) {
    return __atomic_load_n(&slot.launch, __ATOMIC_ACQUIRE) == launch_number;
}

// The slot of this instance, or the last of the chain, after which a new one belongs.
static SharedSlot* slot_of(SharedSlot* slot, const char* function) {
    while (slot->function != function) {
        SharedSlot* next = __atomic_load_n(&slot->next, __ATOMIC_ACQUIRE);
        if (!next) break;
        slot = next;
    }
    return slot;
}

static SharedSlot* own_slot(SharedSlot* slot, const char* function) {
    slot = slot_of(slot, function);
    if (slot->function && slot->function != function) {
        SharedSlot* fresh = (SharedSlot*)calloc(1, sizeof(SharedSlot));
        fresh->function = function;
        __atomic_store_n(&slot->next, fresh, __ATOMIC_RELEASE);
        return fresh;
    }
    slot->function = function;
    return slot;
}

extern "C" void* onelayer_shared(void* given, size_t bytes, int number, int line,
                                 const char* function) {
    SharedSlot* slot = slot_of((SharedSlot*)given, function);
    if (slot->function == function && is_in_use(*slot)) return slot->at;
    LOCKED
    slot = own_slot((SharedSlot*)given, function);
    if (is_in_use(*slot)) return slot->at;
    if (!slot->at) make_place(*slot, bytes, number);
    static_bytes += bytes;
    if (static_bytes > USUAL_SHARED) too_much_shared(line);
    poison(*slot);
    __atomic_store_n(&slot->launch, launch_number, __ATOMIC_RELEASE);
    return slot->at;
}

static void poison_shared(size_t dynamic_bytes) {
    for (int i = 0; i < slot_count; i++)
        if (slots[i]->launch == launch_number) poison(*slots[i]);
    memset(onelayer_dynamic_shared, 0xff, dynamic_bytes);
}

static void set_dynamic_shared(size_t bytes) {
    Region* r = dynamic_region();
    if (r) r->high = r->low + bytes;
    __asan_unpoison_memory_region(onelayer_dynamic_shared, MOST_SHARED);
    __asan_poison_memory_region(onelayer_dynamic_shared + bytes, MOST_SHARED - bytes);
}
