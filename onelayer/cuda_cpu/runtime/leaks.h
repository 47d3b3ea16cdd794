// What cudaMalloc gave in this call and nobody can give back any more: no variable of the library
// holds its address. A workspace that a static pointer keeps for the next call is none of these.
// A pointer that lies in memory of malloc is not seen: so a leak is a warning, not a fault.
#pragma once

// The runtime's own variables lie in the library as well, and these hold addresses.
static bool is_our_own(uintptr_t at) {
    const Range ours[] = {
        {(uintptr_t)regions, (uintptr_t)(regions + MOST_REGIONS)},
        {(uintptr_t)threads, (uintptr_t)(threads + MOST_THREADS)},
        {(uintptr_t)reports, (uintptr_t)(reports + MOST_REPORTS)},
        {(uintptr_t)doubts, (uintptr_t)(doubts + MOST_DOUBTS)},
        {(uintptr_t)&waiting, (uintptr_t)(&waiting + 1)},
    };
    for (const Range& r : ours)
        if (r.holds(at)) return true;
    return false;
}

static bool is_kept(const Region& r) {
    for (int i = 0; i < writable_count; i++)
        for (uintptr_t at = (writable[i].low + 7) & ~(uintptr_t)7; at + 8 <= writable[i].high; at += 8)
            if (uintptr_t value = *(uintptr_t*)at; value - r.low < r.high - r.low && !is_our_own(at))
                return true;
    return false;
}

// After a fault the host function may have left early: that it gave nothing back says nothing.
static void find_leaks() {
    if (report_count || sticky) return;
    know_segments();
    for (int i = 0; i < region_count; i++) {
        const Region& r = regions[i];
        if (r.space != ALLOCATED || r.call != call_number || is_kept(r)) continue;
        Report report = report_here(LEAK, r.line);
        report.address = r.low, report.a = (int64_t)(r.high - r.low);
        add_report(report);
    }
}
