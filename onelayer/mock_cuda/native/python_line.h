// The lines of Python that led to a call, without the GIL: most of torch's calls come without it,
// some under a lock of torch that a holder of the GIL may wait for.
#pragma once
#include <cstdint>

extern "C" {
// Fills `lines` with at most `room` places (innermost first) of this thread; 0 where it runs none.
struct onelayer_place {
    const void* code;  // the PyCodeObject
    int line;
};
int onelayer_python_lines(struct onelayer_place* places, int room);
// The text "file\tfunction" of a code object, cut to `room` bytes.
void onelayer_python_name(const void* code, char* text, int room);
}
