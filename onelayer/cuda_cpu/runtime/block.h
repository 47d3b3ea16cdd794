// The block that runs now: its threads, what each waits for, and how it ends.
#pragma once
static constexpr int MOST_THREADS = 1024, WARP = 32, MOST_SHARED = 64 * 1024;

extern "C" {
ONELAYER_PER_THREAD uint3 onelayer_thread_index;
uint3 onelayer_block_index;
dim3 onelayer_block_size, onelayer_grid_size;
__attribute__((aligned(1024))) char onelayer_dynamic_shared[MOST_SHARED];
}

enum State : uint8_t { READY, AT_BARRIER, AT_WARP, DONE };

struct Thread {
    int index, line;                       // line: where it waits
    uint3 place;                           // threadIdx; divided out once, not at each switch
    int warp_kind, source;                 // the warp operation for which it waits
    unsigned mask;
    uint64_t value, result;
    unsigned steps;                        // loads and stores since the last barrier
    unsigned waits;                        // how often it asked in vain, since the last barrier
    int depth;                             // how many functions it is in, and whence they were called
    uint32_t calls[32];
};

struct Block {
    int size, done, arrived, first_line;   // first_line: of the barrier at which threads wait
    int barrier_kind, predicates, barrier_result;
    unsigned serial, epoch;                // serial: counts blocks of all launches; epoch: barriers
    uint16_t warp_epoch[MOST_THREADS / WARP];
    bool dead;                             // a fault has stopped the launch
};

static void enter_call(Thread& t, uint32_t from) {
    if (t.depth < 32) t.calls[t.depth] = from;
    t.depth++;
}

static Thread threads[MOST_THREADS];
static State states[MOST_THREADS];
static Block block;
static bool in_kernel;
static int launch_number;

static void (*enter_kernel)(void*);
static void* bound_arguments;

static void index_of(int thread, uint32_t* to) {
    unsigned x = onelayer_block_size.x, y = onelayer_block_size.y;
    to[0] = thread % x, to[1] = thread / x % y, to[2] = thread / (x * y);
}

static void serial_to_index(unsigned linear, uint32_t* to) {
    unsigned x = onelayer_grid_size.x, y = onelayer_grid_size.y;
    to[0] = linear % x, to[1] = linear / x % y, to[2] = linear / x / y;
}

static void make_ready_all() { memset(states, READY, block.size); }

// In the runtime that was chosen (fibers.h, threads.h):
static Thread* self();
static void suspend();                     // until some other thread makes this one READY
static void let_others_run();              // stays READY
[[noreturn]] static void stop_launch();    // after a fault: no thread of the block runs again
static bool run_threads();                 // all threads of a block; false if it was stopped

// In barrier.h: called when no thread is READY and not all are DONE.
static void resolve();
static void thread_is_done(int index);     // its state is DONE

static Report report_here(Kind kind, int line) {
    Report r;
    memset(&r, 0, sizeof r);
    r.kind = kind, r.line = line, r.launch = launch_number - 1;
    r.block[0] = onelayer_block_index.x, r.block[1] = onelayer_block_index.y;
    r.block[2] = onelayer_block_index.z;
    if (in_kernel) index_of(self()->index, r.thread);
    return r;
}
