// Warp operations: a lane leaves its value and waits; who comes last computes for all of them.
#pragma once

static bool lane_waits(int index) { return states[index] == AT_WARP && threads[index].warp_kind != OL_ACTIVE; }

// The lanes named in the mask that exist and have not returned.
static unsigned live_lanes(int first, unsigned mask) {
    unsigned live = 0;
    for (int lane = 0; lane < WARP && first + lane < block.size; lane++)
        if ((mask >> lane & 1) && states[first + lane] != DONE) live |= 1u << lane;
    return live;
}

static uint64_t combine(int kind, int first, unsigned lanes, const Thread& asks) {
    uint64_t votes = 0, same = 0;
    for (int lane = 0; lane < WARP; lane++)
        if (lanes >> lane & 1) {
            votes |= (uint64_t)(threads[first + lane].value != 0) << lane;
            same |= (uint64_t)(threads[first + lane].value == asks.value) << lane;
        }
    if (kind == OL_BALLOT) return votes;
    if (kind == OL_ANY) return votes != 0;
    if (kind == OL_ALL) return votes == lanes;
    return kind == OL_MATCH ? same : 0;
}

static uint64_t shuffled(int first, unsigned lanes, const Thread& asks) {
    int from = asks.source;
    if (lanes >> from & 1) return threads[first + from].value;
    Report r = report_here(UNDEFINED_SHUFFLE, asks.line);
    index_of(asks.index, r.thread);
    r.a = asks.index % WARP, r.b = from;
    r.c = first + from >= block.size ? 0 : states[first + from] == DONE ? 1 : 2;
    add_report(r);
    return ~(uint64_t)0;  // a NaN in every type
}

[[noreturn]] static void disagree(int here, int there) {
    Report r = report_here(DIVERGENT_WARP, threads[here].line);
    index_of(here, r.thread), index_of(there, r.other_thread);
    r.other_line = threads[there].line;
    r.a = states[there], r.b = threads[here].mask, r.c = threads[there].mask;
    add_report(r);
    stop_launch();
}

// Finishes the operation for which this lane waits, if every lane of its mask has come.
static bool finish_warp(int index) {
    int first = index / WARP * WARP;
    const Thread& mine = threads[index];
    unsigned lanes = live_lanes(first, mine.mask);
    for (int lane = 0; lane < WARP; lane++) {
        if (!(lanes >> lane & 1)) continue;
        if (!lane_waits(first + lane)) return false;
        const Thread& other = threads[first + lane];
        if (other.warp_kind != mine.warp_kind || other.mask != mine.mask || other.line != mine.line)
            disagree(index, first + lane);
    }
    if (mine.warp_kind == OL_SYNCWARP) block.warp_epoch[first / WARP]++;
    for (int lane = 0; lane < WARP; lane++)
        if (lanes >> lane & 1) {
            Thread& other = threads[first + lane];
            other.result = mine.warp_kind == OL_SHUFFLE ? shuffled(first, lanes, other)
                                                        : combine(mine.warp_kind, first, lanes, other);
        }
    for (int lane = 0; lane < WARP; lane++)
        if (lanes >> lane & 1) states[first + lane] = READY;
    return true;
}

// When nobody can go on, the lanes that wait in one line to hear who is with them hear it.
static bool finish_active() {
    bool some = false;
    for (int i = 0; i < block.size; i++) {
        if (states[i] != AT_WARP || threads[i].warp_kind != OL_ACTIVE) continue;
        int first = i / WARP * WARP, line = threads[i].line;
        unsigned together = 0;
        for (int j = first; j < first + WARP && j < block.size; j++)
            if (states[j] == AT_WARP && threads[j].warp_kind == OL_ACTIVE && threads[j].line == line)
                together |= 1u << (j - first);
        for (int j = first; j < first + WARP && j < block.size; j++)
            if (together >> (j - first) & 1) threads[j].result = together, states[j] = READY;
        some = true;
    }
    return some;
}

static void settle_write();

extern "C" uint64_t onelayer_warp(int kind, unsigned mask, uint64_t value, int source, int line) {
    settle_write();
    ORDERED_BY_SYNCWARP(kind)
    LOCKED
    Thread* me = self();
    me->warp_kind = kind, me->value = value, me->source = source, me->line = line;
    me->mask = kind == OL_ACTIVE ? 0 : mask;
    int here = me->index;
    if (kind != OL_ACTIVE && !(mask >> (here % WARP) & 1)) {
        Report r = report_here(DIVERGENT_WARP, line);
        r.a = -1, r.b = mask, r.c = here % WARP;
        add_report(r);
        stop_launch();
    }
    states[here] = AT_WARP;
    if (kind == OL_ACTIVE || !finish_warp(here)) suspend();
#ifdef ONELAYER_THREADS
    else pthread_cond_broadcast(&changed);
#endif
    return threads[here].result;
}
