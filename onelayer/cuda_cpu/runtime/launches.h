// A launch: is it possible, then block after block. What it cost is kept for the call's report.
#pragma once

struct LaunchRecord {
    char name[64];
    int32_t line;
    uint32_t grid[3], block[3];
    uint64_t shared_bytes, threads;
    uint64_t counts[5];
};
static constexpr int MOST_LAUNCHES = 256;
static LaunchRecord launches[MOST_LAUNCHES];
static cudaError_t last_error;
static bool sticky;  // after a fault the device refuses everything, until the call ends

struct Allowed {
    char kernel[64];
    size_t bytes;
};
static Allowed allowed[64];
static int allowed_count;

static size_t shared_limit(const char* kernel) {
    for (int i = 0; i < allowed_count; i++)
        if (!strcmp(allowed[i].kernel, kernel)) return allowed[i].bytes;
    return USUAL_SHARED;
}

// 0 if possible, or which rule it breaks, for faults.py.
static int broken_rule(const char* kernel, dim3 grid, dim3 size, size_t shared_bytes) {
    if (!grid.x || !grid.y || !grid.z) return 1;
    if (!size.x || !size.y || !size.z) return 2;
    if (size.x > 1024 || size.y > 1024 || size.z > 64) return 3;
    if (size.x * size.y * size.z > MOST_THREADS) return 4;
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return 5;
    return shared_bytes > shared_limit(kernel) ? 6 : 0;
}

static LaunchRecord& new_record(int line, const char* name, dim3 grid, dim3 size, size_t bytes) {
    LaunchRecord& l = launches[launch_number < MOST_LAUNCHES ? launch_number : MOST_LAUNCHES - 1];
    launch_number++;
    memset(&l, 0, sizeof l);
    snprintf(l.name, sizeof l.name, "%s", name);
    l.line = line, l.shared_bytes = bytes;
    l.grid[0] = grid.x, l.grid[1] = grid.y, l.grid[2] = grid.z;
    l.block[0] = size.x, l.block[1] = size.y, l.block[2] = size.z;
    return l;
}

static void refuse(int line, int rule, int64_t limit) {
    Report r = report_here(IMPOSSIBLE_LAUNCH, line);
    memset(r.block, 0, sizeof r.block), memset(r.thread, 0, sizeof r.thread);
    r.a = rule, r.b = limit;
    add_report(r);
    last_error = rule == 6 || rule == 9 ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
}

static void number_threads() {
    for (int i = 0; i < block.size; i++) {
        uint32_t at[3];
        index_of(i, at);
        threads[i].index = i, threads[i].place = {at[0], at[1], at[2]};
    }
}

static bool run_block(uint64_t linear, size_t shared_bytes) {
    uint32_t at[3];
    serial_to_index(linear, at);
    onelayer_block_index = {at[0], at[1], at[2]};
    block.serial++;
    block.done = block.arrived = block.predicates = 0;
    block.epoch = 0;
    memset(block.warp_epoch, 0, sizeof block.warp_epoch);
    make_ready_all();
    for (int i = 0; i < block.size; i++) threads[i].waits = threads[i].steps = threads[i].depth = 0;
    poison_shared(shared_bytes);
    return run_threads();
}

// The first thread of a kernel with __launch_bounds__ finds that its block is too large: the launch
// has done nothing yet, and is refused as a GPU refuses it.
static bool refused;
extern "C" void onelayer_launch_bounds(unsigned most) {
    if ((unsigned)block.size <= most) return;
    LOCKED
    if (!refused) refuse(launches[launch_number - 1].line, 9, most);
    refused = true;
    stop_launch();
}

extern "C" void onelayer_launch(int line, const char* name, dim3 grid, dim3 size,
                                size_t shared_bytes, void (*enter)(void*), void* bound) {
    if (sticky) return;
    if (in_kernel) {
        Report r = report_here(IMPOSSIBLE_LAUNCH, line);
        r.a = 8;
        add_report(r);
        stop_launch();
    }
    LaunchRecord& record = new_record(line, name, grid, size, shared_bytes);
    if (int rule = broken_rule(name, grid, size, shared_bytes)) return refuse(line, rule, (int64_t)shared_limit(name));
    onelayer_grid_size = grid, onelayer_block_size = size;
    enter_kernel = enter, bound_arguments = bound;
    block.size = size.x * size.y * size.z;
    block.dead = refused = false;
    number_threads();
    static_bytes = shared_bytes > USUAL_SHARED ? 0 : shared_bytes;
    set_dynamic_shared(shared_bytes);
    record.threads = (uint64_t)grid.x * grid.y * grid.z * block.size;
#ifdef ONELAYER_CHECK
    first_serial = block.serial + 1;
    forget_recent();
    memset(counts, 0, sizeof counts);
#endif
    for (uint64_t i = 0, n = (uint64_t)grid.x * grid.y * grid.z; i < n && !sticky; i++)
        if (!run_block(i, shared_bytes)) {
            if (refused) break;
            sticky = true, last_error = cudaErrorLaunchFailure;
        }
#ifdef ONELAYER_CHECK
    settle_write();
    settle_doubts();
    memcpy(record.counts, counts, sizeof counts);
#endif
    record.shared_bytes = (shared_bytes > USUAL_SHARED ? shared_bytes : 0) + static_bytes;
}

EXPORT int onelayer_launch_count() { return launch_number < MOST_LAUNCHES ? launch_number : MOST_LAUNCHES; }
EXPORT const LaunchRecord* onelayer_launches() { return launches; }
