// The memory that a kernel may touch: the tensors of the call, what cudaMalloc gave, shared memory.
#pragma once

enum Space { ARGUMENT, ALLOCATED, DEVICE, CONSTANT, SHARED, DYNAMIC_SHARED, FREED };  // as in places.py

struct Mark;  // who touched a granule last (races.h)
struct Granule;

struct Region {
    uintptr_t low, high;
    int32_t space, id;      // id: of the argument, of the shared section, running for cudaMalloc
    int32_t shift, finest;  // a granule is for 1 << shift bytes; there is room for 1 << finest
    int32_t line, freed;    // where cudaMalloc and cudaFree stand; 0: nowhere
    int32_t call, fresh;    // call: the first to hold it; fresh: some of it may be unwritten
    Granule* granules;
};
static constexpr int MOST_REGIONS = 512;
static Region regions[MOST_REGIONS];
static int region_count;
static int allocations, call_number;

static constexpr size_t MOST_GRANULE_BYTES = (size_t)1 << 29;

static bool is_shared(const Region& r) { return r.space == SHARED || r.space == DYNAMIC_SHARED; }

static Granule* room_for_granules(size_t bytes, int finest, size_t granule_bytes) {
#ifdef ONELAYER_CHECK
    size_t count = (bytes >> finest) + 1;
    if (count * granule_bytes > MOST_GRANULE_BYTES) return nullptr;  // too large to watch for races
    void* room = mmap(nullptr, count * granule_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? nullptr : (Granule*)room;
#else
    (void)bytes, (void)finest, (void)granule_bytes;
    return nullptr;
#endif
}

static size_t granule_bytes();

static Region* add_region(uintptr_t low, size_t bytes, int space, int id, int finest) {
    if (region_count == MOST_REGIONS) return nullptr;
    Region& r = regions[region_count++];
    int shift = low % 4 ? finest : 2;
    r = {low, low + bytes, space, id, shift, finest, 0, 0, call_number, 0, nullptr};
    r.granules = room_for_granules(bytes, finest, granule_bytes());
    return &r;
}

static void forget_region(Region& r) {
#ifdef ONELAYER_CHECK
    size_t count = ((r.high - r.low) >> r.finest) + 1;
    if (r.granules) munmap((void*)r.granules, count * granule_bytes());
#endif
    r = regions[--region_count];
}

static Region* region_at(uintptr_t address, size_t bytes) {
    for (int i = 0; i < region_count; i++)
        if (address - regions[i].low < regions[i].high - regions[i].low &&
            address + bytes <= regions[i].high && regions[i].space != FREED)
            return &regions[i];
    return nullptr;
}

// Each variable of the device lies in a section of its own; the student's object has their table.
struct Place {
    char *begin, *end;
    int space, number;
};
extern "C" __attribute__((visibility("hidden"))) const Place onelayer_places[];
extern "C" __attribute__((visibility("hidden"))) const int onelayer_place_count;

static Region* dynamic_region() {
    for (int i = 0; i < region_count; i++)
        if (regions[i].space == DYNAMIC_SHARED) return &regions[i];
    return nullptr;
}

static void add_places() {
    if (dynamic_region()) return;
    for (int i = 0; i < onelayer_place_count; i++)
        if (const Place& p = onelayer_places[i]; p.begin < p.end)
            add_region((uintptr_t)p.begin, p.end - p.begin, p.space, p.number, 0);
    add_region((uintptr_t)onelayer_dynamic_shared, MOST_SHARED, DYNAMIC_SHARED, 0, 0);
}
