// Where the built library lies in memory: the student's code and this runtime, their constants and
// their variables.
#pragma once
#define LINKER extern "C" __attribute__((visibility("hidden")))
LINKER const char __ehdr_start[];
LINKER const char _end[];

struct Range {
    uintptr_t low, high;
    bool holds(uintptr_t address) const { return address - low < high - low; }
};
static constexpr int MOST_SEGMENTS = 8;
static Range constants[MOST_SEGMENTS], writable[MOST_SEGMENTS];  // constants: tables, string literals
static int constant_count, writable_count;

static int find_segments(dl_phdr_info* info, size_t, void*) {
    if (info->dlpi_addr != (uintptr_t)__ehdr_start) return 0;
    for (int i = 0; i < info->dlpi_phnum && constant_count < MOST_SEGMENTS; i++) {
        const auto& p = info->dlpi_phdr[i];
        Range range{info->dlpi_addr + p.p_vaddr, info->dlpi_addr + p.p_vaddr + p.p_memsz};
        if (p.p_type == PT_GNU_RELRO || (p.p_type == PT_LOAD && !(p.p_flags & PF_W)))
            constants[constant_count++] = range;
        else if (p.p_type == PT_LOAD && writable_count < MOST_SEGMENTS)
            writable[writable_count++] = range;
    }
    return 1;
}
static void know_segments() {
    if (!constant_count) dl_iterate_phdr(find_segments, nullptr);
}

static bool is_constant(uintptr_t address) {
    know_segments();
    for (int i = 0; i < constant_count; i++)
        if (constants[i].holds(address)) return true;
    return false;
}

// Whether it is a variable of the library, of the student's host code or of the runtime.
static bool in_library(uintptr_t address) {
    return address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
}
static uint32_t offset_of(void* pc) { return (uint32_t)((uintptr_t)pc - (uintptr_t)__ehdr_start - 1); }
