// __syncthreads and its kin, and what it means when nobody can go on.
#pragma once

static int combined_predicate() {
    if (block.barrier_kind == 2) return block.predicates == block.size;
    return block.barrier_kind == 3 ? block.predicates != 0 : block.predicates;
}

[[noreturn]] static void barrier_diverges(int line, int other_line, int other_thread) {
    Report r = report_here(DIVERGENT_BARRIER, line);
    r.other_line = other_line;
    for (int i = 0; i < block.size; i++)
        if (states[i] == AT_BARRIER && threads[i].line == line) {
            index_of(i, r.thread);
            break;
        }
    index_of(other_thread, r.other_thread);
    r.a = block.arrived, r.b = block.done, r.c = block.size;
    add_report(r);
    stop_launch();
}

// The barrier of one line, to which two threads came by two ways: it is in a function that both
// branches call, or the two branches stand in one line. Known where calls are watched.
[[noreturn]] static void ways_diverge(int other, int at) {
    Report r = report_here(DIVERGENT_BARRIER, threads[0].line);
    r.pc = threads[0].calls[at], r.other_pc = threads[other].calls[at];
    index_of(0, r.thread), index_of(other, r.other_thread);
    r.a = -1;
    add_report(r);
    stop_launch();
}
static int calls_of(const Thread& t) { return t.depth < 32 ? t.depth : 32; }

static void compare_barriers(int other) {
    const Thread &t = threads[other], &first = threads[0];
    if (t.line != first.line) barrier_diverges(first.line, t.line, other);
    for (int i = 0; i < calls_of(t) && i < calls_of(first); i++)
        if (t.calls[i] != first.calls[i]) ways_diverge(other, i);
}

static void release_barrier() {
    for (int i = 1; i < block.size; i++) compare_barriers(i);
    block.barrier_result = combined_predicate();
    block.arrived = block.predicates = 0;
    block.epoch++;
    make_ready_all();
}

extern "C" int onelayer_barrier(int kind, int predicate, int line) {
    settle_write();
    ORDERED_BY_BARRIER
    LOCKED
    Thread* me = self();
    me->line = line, me->waits = me->steps = 0;
    states[me->index] = AT_BARRIER;
    block.barrier_kind = kind;
    block.predicates += predicate != 0;
    if (++block.arrived < block.size) {
        suspend();
    } else {
        release_barrier();
#ifdef ONELAYER_THREADS
        pthread_cond_broadcast(&changed);
#endif
    }
    return block.barrier_result;
}

static int first_in(State state) {
    for (int i = 0; i < block.size; i++)
        if (states[i] == state) return i;
    return -1;
}

// A lane of the mask that has not come to the operation for which this one waits.
static int missing_lane(int index) {
    int first = index / WARP * WARP;
    unsigned lanes = live_lanes(first, threads[index].mask);
    for (int lane = 0; lane < WARP; lane++)
        if ((lanes >> lane & 1) && !lane_waits(first + lane)) return first + lane;
    return index;
}

static void resolve() {
    if (finish_active()) return;
    int waiting = first_in(AT_WARP);
    if (waiting >= 0) disagree(waiting, missing_lane(waiting));
    waiting = first_in(AT_BARRIER);
    barrier_diverges(threads[waiting].line, 0, first_in(DONE));
}

static void thread_is_done(int index) {
    settle_write();
    block.done++;
    int first = index / WARP * WARP;
    for (int i = first; i < first + WARP && i < block.size; i++)
        if (lane_waits(i) && finish_warp(i)) return;
}

static unsigned fences;
extern "C" void onelayer_fence() { fences++; }
extern "C" long long onelayer_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
