// A CUDA thread is a fiber. A fiber runs until it waits or ends, then the next one that can run does.
// The fibers of a block are used again for the next.
#pragma once

struct Fiber {
    Context context;
    bool alive;
};
static Fiber fibers[MOST_THREADS];
static Context scheduler;
static int current;

static constexpr size_t STACK_BYTES = 256 * 1024;  // of which only what is used is ever memory
// Stacks that begin at the same cache line of their page would drive each other out of the cache.
static constexpr size_t STEP_BYTES = STACK_BYTES + 4096, STAGGER_BYTES = 64, STAGGERS = 32;
static char* stacks;

static Thread* self() { return &threads[current]; }

static char* stack_of(int index) { return stacks + index * STEP_BYTES + 4096; }

static void become(int index) {
    current = index;
    onelayer_thread_index = threads[index].place;
}

// The next thread that can run, or -1.
static int next_ready(int after) {
    for (int i = after + 1; i < block.size; i++)
        if (states[i] == READY) return i;
    for (int i = 0; i <= after; i++)
        if (states[i] == READY) return i;
    return -1;
}

static void fiber_body();

static void leave_for(int next) {
    Context& mine = fibers[current].context;
    if (next < 0) {
        switch_context(mine, scheduler);
        return;
    }
    if (next == current) return;
    become(next);
    switch_context(mine, fibers[next].context);
}

static void suspend() {
    int me = current;
    int next = next_ready(me);
    if (next < 0 && block.done < block.size) {
        resolve();
        next = next_ready(me);
    }
    leave_for(next);
}

static void let_others_run() { leave_for(next_ready(current)); }

[[noreturn]] static void stop_launch() {
    block.dead = true;
    leave_for(-1);
    __builtin_unreachable();
}

static void fiber_body() {
    for (;;) {
        enter_kernel(bound_arguments);
        states[current] = DONE;
        thread_is_done(current);
        suspend();
    }
}

static void make_fiber(int index) {
    if (!stacks) {
        stacks = (char*)mmap(nullptr, STEP_BYTES * MOST_THREADS, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) abort();
    }
    mprotect(stack_of(index) - 4096, 4096, PROT_NONE);  // an overflow ends here
    size_t stagger = index % STAGGERS * STAGGER_BYTES;
    prepare(fibers[index].context, stack_of(index), STACK_BYTES - stagger, fiber_body);
    fibers[index].alive = true;
}

static bool run_threads() {
    for (int i = 0; i < block.size; i++)
        if (!fibers[i].alive) make_fiber(i);
    become(0);
    in_kernel = true;
    switch_context(scheduler, fibers[0].context);
    in_kernel = false;
    if (block.dead)
        for (Fiber& fiber : fibers) fiber.alive = false;  // left in the middle: begin afresh
    return !block.dead;
}
static void close_pool() {}
#define LOCKED
#define ORDERED_BY_BARRIER
#define ORDERED_BY_SYNCWARP(kind)
