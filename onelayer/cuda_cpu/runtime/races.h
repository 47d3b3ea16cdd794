// Two threads, one place, at least one of them writes, and nothing between them: who, and where.
#pragma once

struct Mark {
    uint32_t serial;             // of the block; 0: nobody
    uint32_t thread : 10, epoch : 22;
    uint32_t pc : 31, atomic : 1;
    uint16_t warp_epoch, fence;
};
struct Granule {
    Mark written, read, read_too;  // two different readers: one of them is not the next writer
};
static size_t granule_bytes() { return sizeof(Granule); }

#ifdef ONELAYER_CHECK
static unsigned first_serial;  // of this launch

struct Waiting {               // a store that another thread's came before: it may store the same value
    bool is;
    void* at;
    int size;
    unsigned char old[16];
    Report report;
};
static Waiting waiting;

static void settle_write() {
    if (!waiting.is) return;
    waiting.is = false;
    bool same = !memcmp(waiting.at, waiting.old, waiting.size);
    if (same) waiting.report.kind = SAME_VALUE_RACE;  // no harm was seen, and no order promises that
    add_report(waiting.report);
}

static bool of_same_thread(const Mark& m, const Mark& n) {
    return m.serial == n.serial && m.thread == n.thread;
}

// An ordinary read of what others update by atomics is a race, unless it is how a loop around a
// compare-and-swap begins: then an atomic of the same thread on the same place follows.
struct Doubt {
    uintptr_t address;
    uint32_t serial, thread;
    Report report;
};
static constexpr int MOST_DOUBTS = 64;
static Doubt doubts[MOST_DOUBTS];
static int doubt_count;

static void settle_doubts() {
    for (int i = 0; i < doubt_count; i++) add_report(doubts[i].report);
    doubt_count = 0;
}
static void doubt(uintptr_t address, const Mark& now, const Report& report) {
    if (doubt_count == MOST_DOUBTS) add_report(doubts[0].report), doubts[0] = doubts[--doubt_count];
    doubts[doubt_count++] = {address, now.serial, now.thread, report};
}
static void forget_doubt(Granule& g, uintptr_t address, const Mark& now) {
    for (int i = 0; i < doubt_count; i++)
        if (doubts[i].address == address && doubts[i].serial == now.serial &&
            doubts[i].thread == now.thread)
            doubts[i] = doubts[--doubt_count];
    if (of_same_thread(g.read, now)) g.read.serial = 0;
    if (of_same_thread(g.read_too, now)) g.read_too.serial = 0;
}

static bool ordered(const Mark& before, const Mark& now, bool shared) {
    if (before.serial < first_serial) return true;  // an earlier launch, or nobody
    if (before.atomic && now.atomic) return true;
    if (before.serial != now.serial) return shared || before.fence != now.fence;
    if (before.thread == now.thread || before.epoch != now.epoch) return true;
    return before.thread / WARP == now.thread / WARP && before.warp_epoch != now.warp_epoch;
}

static Report race_report(const Mark& before, const Mark& now, Access first, Access second,
                          uintptr_t address, int size) {
    Report r = report_here(RACE, 0);
    r.pc = now.pc, r.other_pc = before.pc;
    r.access = second, r.other_access = first;
    r.address = address, r.size = size;
    index_of(before.thread, r.other_thread);
    serial_to_index(before.serial - first_serial, r.other_block);
    return r;
}

static void remember_read(Granule& g, const Mark& now) {
    if (g.read.serial < first_serial || of_same_thread(g.read, now) ||
        (g.read.serial == now.serial && g.read.epoch != now.epoch))
        g.read = now;
    else
        g.read_too = now;
}

static bool see_read(Granule& g, const Mark& now, uintptr_t address, int size, bool shared) {
    bool clean = true;
    if (shared && g.written.serial != now.serial) {
        Report r = report_here(UNWRITTEN_SHARED, 0);
        r.pc = now.pc, r.address = address, r.size = size;
        add_report(r);
        clean = false;
    } else if (!ordered(g.written, now, shared) && g.written.atomic) {
        doubt(address, now, race_report(g.written, now, UPDATES, READS, address, size));
    } else if (!ordered(g.written, now, shared)) {
        add_report(race_report(g.written, now, WRITES, READS, address, size));
        clean = false;
    }
    remember_read(g, now);
    return clean;
}

static bool see_write(Granule& g, const Mark& now, uintptr_t address, int size, bool shared) {
    Access kind = now.atomic ? UPDATES : WRITES;
    if (now.atomic && doubt_count + (g.read.serial == now.serial || g.read_too.serial == now.serial)) forget_doubt(g, address, now);
    const Mark* before = nullptr;
    Access first = READS;
    if (!ordered(g.read, now, shared)) before = &g.read;
    else if (!ordered(g.read_too, now, shared)) before = &g.read_too;
    else if (!ordered(g.written, now, shared)) before = &g.written, first = g.written.atomic ? UPDATES : WRITES;
    if (before && !waiting.is) {
        waiting.is = true, waiting.at = (void*)address, waiting.size = size;
        memcpy(waiting.old, (void*)address, size);
        waiting.report = race_report(*before, now, first, kind, address, size);
    }
    g.written = now;
    return !before;
}
#else
static void settle_write() {}
#endif
