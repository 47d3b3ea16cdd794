// CUDA's runtime for host code, and the two ends of a call from Python.
#pragma once

extern "C" void onelayer_assertion_failed(const char* condition, int line) {
    if (!in_kernel) {
        fprintf(stderr, "line %d: assertion failed: %s\n", line, condition);
        abort();
    }
    LOCKED
    Report r = report_here(ASSERTION, line);
    snprintf(r.text, sizeof r.text, "%s", condition);
    add_report(r);
    stop_launch();
}

EXPORT cudaError_t cudaPeekAtLastError() { return last_error; }
EXPORT cudaError_t cudaGetLastError() {
    cudaError_t error = last_error;
    if (!sticky) last_error = cudaSuccess;
    return error;
}
EXPORT const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define ONELAYER_ONE(name, code, text) case name: return text;
        ONELAYER_ERRORS(ONELAYER_ONE)
#undef ONELAYER_ONE
    }
    return "unrecognized error code";
}
EXPORT const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define ONELAYER_ONE(name, code, text) case name: return #name;
        ONELAYER_ERRORS(ONELAYER_ONE)
#undef ONELAYER_ONE
    }
    return "cudaErrorUnknown";
}
static cudaError_t failed(cudaError_t error) { return last_error = error; }
static cudaError_t now() { return sticky ? last_error : cudaSuccess; }

EXPORT cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
EXPORT cudaError_t cudaSetDevice(int device) {
    return device ? failed(cudaErrorInvalidDevice) : cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
// A GPU of compute capability 7.5, the oldest that nvcc is asked for here (nvcc.py). Its limits are
// those of the table "Technical Specifications per Compute Capability" in NVIDIA's programming guide
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#features-and-technical-specifications
// What a model of GPU chooses for itself is this machine's: one multiprocessor, since blocks run one
// after another, 1 GiB, and a cache of 4 MiB, which is that of a T4.
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    if (device) return failed(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "CUDA on the CPU");
    p->major = 7, p->minor = 5, p->warpSize = WARP, p->multiProcessorCount = 1;
    p->maxThreadsPerBlock = p->maxThreadsPerMultiProcessor = MOST_THREADS;
    p->maxBlocksPerMultiProcessor = 16;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->regsPerBlock = p->regsPerMultiprocessor = 64 * 1024;
    p->sharedMemPerBlock = USUAL_SHARED, p->totalConstMem = 64 * 1024;
    p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = MOST_SHARED;
    p->memPitch = 0x7fffffff, p->textureAlignment = 512;
    p->totalGlobalMem = (size_t)1 << 30, p->l2CacheSize = 4 << 20, p->memoryBusWidth = 256;
    p->concurrentKernels = p->unifiedAddressing = 1, p->asyncEngineCount = 1;
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = (int)p.sharedMemPerMultiprocessor;
            break;
        case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
        default: return failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceSynchronize() { return now(); }
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
    return *stream = (cudaStream_t)malloc(1), now();
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) { return free(stream), now(); }
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t) { return now(); }

struct onelayer_event {
    long long ns;
};
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
    return *event = (cudaEvent_t)calloc(1, sizeof(onelayer_event)), now();
}
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) { return free(event), now(); }
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    return event->ns = onelayer_clock(), now();
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t) { return now(); }
EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
    return *ms = (float)((double)(end->ns - start->ns) / 1e6), now();
}

static constexpr size_t BETWEEN = 4096;  // a small step over the end does not meet the next
EXPORT cudaError_t onelayer_malloc(void** pointer, size_t bytes, int line) {
    *pointer = nullptr;
    if (!bytes) return now();
#ifdef ONELAYER_CHECK
    char* memory = (char*)aligned_alloc(256, (bytes + 2 * BETWEEN + 255) & ~(size_t)255);
    if (memory) memory += BETWEEN;
#else
    char* memory = (char*)malloc(bytes);
#endif
    if (!memory) return failed(cudaErrorMemoryAllocation);
    memset(memory, 0xff, bytes);
    Region* region = add_region((uintptr_t)memory, bytes, ALLOCATED, allocations++, 0);
    if (!region) return failed(cudaErrorMemoryAllocation);
    region->line = line, region->fresh = true;
    *pointer = memory;
    return now();
}
static void give_back(Region& r) {
#ifdef ONELAYER_CHECK
    free((char*)r.low - BETWEEN);
#else
    free((char*)r.low);
#endif
    forget_region(r);
}
static Region* held_by(uintptr_t address, bool freed) {
    for (int i = 0; i < region_count; i++)
        if (address - regions[i].low < regions[i].high - regions[i].low &&
            (regions[i].space == FREED) == freed)
            return &regions[i];
    return nullptr;
}
static cudaError_t invalid_free(uintptr_t address, int line) {
    Region *freed = held_by(address, true), *held = held_by(address, false);
    Report r = report_here(INVALID_FREE, line);
    r.address = address;
    if (freed && freed->low == address) r.a = 1, r.other_line = freed->freed;
    else if (held) r.a = held->space == ALLOCATED ? 2 : 3;
    add_report(r);
    return failed(cudaErrorInvalidValue);
}
EXPORT cudaError_t onelayer_free(void* pointer, int line) {
    if (!pointer) return now();
    Region* r = held_by((uintptr_t)pointer, false);
    if (!r || r->space != ALLOCATED || r->low != (uintptr_t)pointer)
        return invalid_free((uintptr_t)pointer, line);
    r->space = FREED, r->freed = line;  // the memory stays, and nobody may touch it
    return now();
}
EXPORT cudaError_t cudaFree(void* pointer) { return onelayer_free(pointer, 0); }

// What a copy needs to be device memory must be: kind 1 writes to it, 2 reads it, 3 both.
static bool beyond(const void* pointer, size_t bytes, Access access, int line) {
    if (!bytes || region_at((uintptr_t)pointer, bytes)) return false;
    Report r = report_here(OUT_OF_BOUNDS, line);
    r.address = (uint64_t)(uintptr_t)pointer, r.size = (int)bytes, r.access = access, r.a = 3;
    add_report(r);
    failed(cudaErrorInvalidValue);
    return true;
}
EXPORT cudaError_t onelayer_memcpy(void* to, const void* from, size_t bytes, int kind, int line) {
    bool into = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool out_of = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (into && beyond(to, bytes, WRITES, line)) return cudaErrorInvalidValue;
    if (out_of && beyond(from, bytes, READS, line)) return cudaErrorInvalidValue;
    memmove(to, from, bytes);
    host_fills(to, bytes);
    return now();
}
EXPORT cudaError_t onelayer_memcpy_rows(void* to, size_t to_pitch, const void* from,
                                        size_t from_pitch, size_t row_bytes, size_t rows, int kind,
                                        int line) {
    if (row_bytes > to_pitch || row_bytes > from_pitch) return failed(cudaErrorInvalidPitchValue);
    for (size_t i = 0; i < rows; i++)
        if (cudaError_t error = onelayer_memcpy((char*)to + i * to_pitch,
                                                (const char*)from + i * from_pitch, row_bytes, kind,
                                                line))
            return error;
    return now();
}
EXPORT cudaError_t onelayer_memset(void* to, int value, size_t bytes, int line) {
    if (beyond(to, bytes, WRITES, line)) return cudaErrorInvalidValue;
    memset(to, value, bytes);
    host_fills(to, bytes);
    return now();
}
EXPORT cudaError_t onelayer_allow_shared(const char* text, int attribute, int value) {
    char kernel[64];  // the text up to its template arguments, without what stands around the name
    int length = 0;
    for (; *text && *text != '<' && *text != ',' && length < 63; text++)
        if (*text == ':') length = 0;
        else if (*text > ' ' && *text != '&' && *text != '(') kernel[length++] = *text;
    kernel[length] = 0;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return now();
    if (value < 0 || value > MOST_SHARED) return failed(cudaErrorInvalidValue);
    for (int i = 0; i < allowed_count; i++)
        if (!strcmp(allowed[i].kernel, kernel)) return allowed[i].bytes = value, now();
    if (allowed_count == 64) return failed(cudaErrorInvalidValue);
    strcpy(allowed[allowed_count].kernel, kernel);
    allowed[allowed_count++].bytes = value;
    return now();
}

// ---- from Python: begin, an argument each, the student's function, end ---------------------------
EXPORT void onelayer_begin() {
    call_number++;
    if (!block.serial) block.serial = HOST_SERIAL;
    if (Region* r = dynamic_region()) r->high = r->low + MOST_SHARED;
    for (int i = region_count; i-- > 0;)
        if (regions[i].space == ARGUMENT) forget_region(regions[i]);
        else if (regions[i].space == FREED) give_back(regions[i]);
    report_count = launch_number = 0;
    for (int i = 0; i < slot_count; i++) slots[i]->launch = 0;
    last_error = cudaSuccess;
    sticky = false;
    add_places();
}
EXPORT void onelayer_argument(void* low, size_t bytes, int id, int shift) {
    add_region((uintptr_t)low, bytes, ARGUMENT, id, shift);
}
EXPORT void onelayer_end() {
    settle_write();
    find_leaks();
    close_pool();
    fflush(stdout);
}
EXPORT int onelayer_regions(const Region** list) { return *list = regions, region_count; }
EXPORT uint64_t onelayer_base() {
#ifdef ONELAYER_CHECK
    return (uint64_t)(uintptr_t)__ehdr_start;
#else
    return 0;
#endif
}
