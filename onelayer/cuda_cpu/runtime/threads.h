// A CUDA thread is a thread of the operating system: slow, and what a race detector understands.
#pragma once
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static __thread int current;
static constexpr size_t STACK_BYTES = 256 * 1024;

// TSan takes the house's own lock for an order between two CUDA threads: where one is done before
// the next wakes, as on a busy machine, it would see no race. So it looks away from the lock and is
// told of each order that CUDA promises, and of no other.
#ifdef ONELAYER_THREAD_SANITIZER
extern "C" void AnnotateIgnoreSyncBegin(const char*, int);
extern "C" void AnnotateIgnoreSyncEnd(const char*, int);
extern "C" void AnnotateHappensBefore(const char*, int, void*);
extern "C" void AnnotateHappensAfter(const char*, int, void*);
static void look_away() { AnnotateIgnoreSyncBegin(__FILE__, __LINE__); }
static void look_again() { AnnotateIgnoreSyncEnd(__FILE__, __LINE__); }
static void comes_before(void* what) { AnnotateHappensBefore(__FILE__, __LINE__, what); }
static void comes_after(void* what) { AnnotateHappensAfter(__FILE__, __LINE__, what); }
#else
static void look_away() {}
static void look_again() {}
static void comes_before(void*) {}
static void comes_after(void*) {}
#endif

static char block_begins, block_ends, at_barrier[2], at_syncwarp[MOST_THREADS / WARP];

static void take_lock() {
    look_away();
    pthread_mutex_lock(&lock);
}

static void give_lock() {
    pthread_mutex_unlock(&lock);
    look_again();
}

struct Locked {
    Locked() { take_lock(); }
    ~Locked() { give_lock(); }
};
#define LOCKED Locked locked;

// All that came here with the same `what` come before all that leave; a null orders nothing.
struct Ordered {
    char* what;
    explicit Ordered(char* what) : what(what) { if (what) comes_before(what); }
    ~Ordered() { if (what) comes_after(what); }
};
#define ORDERED_BY_BARRIER Ordered ordered(&at_barrier[block.epoch & 1]);
#define ORDERED_BY_SYNCWARP(kind) Ordered ordered(kind == OL_SYNCWARP ? &at_syncwarp[current / WARP] : nullptr);

static Thread* self() { return &threads[current]; }

[[noreturn]] static void stop_launch() {  // holds the lock
    block.dead = true;
    pthread_cond_broadcast(&changed);
    give_lock();
    pthread_exit(nullptr);
}

static bool somebody_runs() {
    for (int i = 0; i < block.size; i++)
        if (states[i] == READY) return true;
    return false;
}

static void suspend() {  // holds the lock
    if (!somebody_runs() && block.done < block.size) resolve();
    pthread_cond_broadcast(&changed);
    if (states[current] == DONE) return;
    while (states[current] != READY && !block.dead) pthread_cond_wait(&changed, &lock);
    if (block.dead) stop_launch();
}

static void let_others_run() {}

// The threads of a block are used again for the next; a launch that was stopped leaves none.
static pthread_t pool[MOST_THREADS];
static int pool_size;
static unsigned long generation;  // of blocks
static bool closing;

static void run_one() {  // holds the lock before and after
    onelayer_thread_index = threads[current].place;
    give_lock();
    comes_after(&block_begins);
    enter_kernel(bound_arguments);
    comes_before(&block_ends);
    take_lock();
    states[current] = DONE;
    thread_is_done(current);
    if (!somebody_runs() && block.done < block.size && !block.dead) resolve();
    pthread_cond_broadcast(&changed);
}

static void* thread_body(void* index) {
    current = (int)(intptr_t)index;
    take_lock();
    for (unsigned long seen = generation - 1;;) {
        while (seen == generation && !closing && !block.dead) pthread_cond_wait(&changed, &lock);
        if (closing || block.dead) break;
        seen = generation;
        if (current < block.size) run_one();
    }
    give_lock();
    return nullptr;
}

static void close_pool() {
    pthread_mutex_lock(&lock);
    closing = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    while (pool_size) pthread_join(pool[--pool_size], nullptr);
    closing = false;
}

static void fill_pool() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; pool_size < block.size; pool_size++)
        if (pthread_create(&pool[pool_size], &attributes, thread_body, (void*)(intptr_t)pool_size))
            abort();
    pthread_attr_destroy(&attributes);
}

static bool run_threads() {
    comes_before(&block_begins);
    take_lock();
    in_kernel = true;
    generation++;
    pthread_cond_broadcast(&changed);
    fill_pool();
    while (block.done < block.size && !block.dead) pthread_cond_wait(&changed, &lock);
    give_lock();
    comes_after(&block_ends);
    if (block.dead) close_pool();
    in_kernel = false;
    return !block.dead;
}
