// What the language leaves undefined and the compiler is told to look for (-fsanitize=bounds,
// integer-divide-by-zero, return): the functions that it calls, each with its place in the source.
#pragma once
#define UNDEFINED extern "C" __attribute__((visibility("hidden")))

struct SourcePlace {
    const char* file;
    uint32_t line, column;
};
static void bad_index(const SourcePlace* place, int64_t index) {
    Report r = report_here(OUT_OF_BOUNDS, (int)place->line);
    r.a = 2, r.b = index;
    add_report(r);
    if (in_kernel) stop_launch();
}
UNDEFINED void __ubsan_handle_out_of_bounds(SourcePlace* place, uintptr_t index) {
    bad_index(place, (int64_t)index);
}
UNDEFINED void __ubsan_handle_out_of_bounds_abort(SourcePlace* place, uintptr_t index) {
    bad_index(place, (int64_t)index);
}
UNDEFINED void __ubsan_handle_divrem_overflow(SourcePlace* place, uintptr_t, uintptr_t) {
    add_report(report_here(DIVISION_BY_ZERO, (int)place->line));
    if (in_kernel) stop_launch();
}

// Nothing stands after the call: it must not come back. `place` is the function's own.
UNDEFINED void __ubsan_handle_missing_return(SourcePlace* place) {
    if (!in_kernel) {
        fprintf(stderr, "line %u: this function ends without a return\n", place->line);
        abort();
    }
    LOCKED
    add_report(report_here(MISSING_RETURN, (int)place->line));
    stop_launch();
}
