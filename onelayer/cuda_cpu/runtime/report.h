// What went wrong, as plain numbers: Python makes the sentences (faults.py).
#pragma once
#define EXPORT extern "C" __attribute__((visibility("default")))

enum Kind {
    OUT_OF_BOUNDS, MISALIGNED, HOST_ACCESS, UNWRITTEN_SHARED, RACE, DIVERGENT_BARRIER,
    DIVERGENT_WARP, UNDEFINED_SHUFFLE, IMPOSSIBLE_LAUNCH, DIVISION_BY_ZERO, ASSERTION, STUCK,
    UNWRITTEN_GLOBAL, INVALID_FREE, MISSING_RETURN, SAME_VALUE_RACE, LEAK,
};
enum Access { READS, WRITES, UPDATES };  // an update is an atomic

// Of an access there is a program counter, from which a line is found later; of a call the line.
struct Report {
    int32_t kind, launch;
    int32_t line, other_line;
    uint64_t pc, other_pc;
    uint64_t address;
    int32_t size, access, other_access;
    uint32_t block[3], thread[3], other_block[3], other_thread[3];
    int64_t a, b, c;
    char text[160];
};
static constexpr int MOST_REPORTS = 32;
static Report reports[MOST_REPORTS];
static int report_count;

static bool same_place(const Report& r, const Report& s) {
    return r.kind == s.kind && r.pc == s.pc && r.other_pc == s.other_pc && r.line == s.line &&
           r.other_line == s.other_line;
}

static void add_report(const Report& fresh) {
    for (int i = 0; i < report_count; i++)
        if (same_place(reports[i], fresh)) return;
    int most = fresh.kind >= SAME_VALUE_RACE ? MOST_REPORTS / 2 : MOST_REPORTS;  // a warning
    if (report_count < most) reports[report_count++] = fresh;
}

EXPORT int onelayer_report_count() { return report_count; }
EXPORT const Report* onelayer_reports() { return reports; }
