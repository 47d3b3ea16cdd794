// What Python says about values (../values.py): which numbers are there, which nobody computed.
#include "marks.h"
#include "memory.h"

using namespace mock;

extern "C" {

// The numbers at [at, at + bytes) are not there: `kernel` should have written them.
void onelayer_mock_mark(const void* at, size_t bytes, const char* kernel) {
    Guard guard(lock);
    marks.cut(at, bytes);
    marks.put(at, bytes, kernel);
}

void onelayer_mock_computed(const void* at, size_t bytes) {
    Guard guard(lock);
    marks.cut(at, bytes);
}

// The kernel that should have written a number here and did not, or nullptr.
const char* onelayer_mock_missing(const void* at, size_t bytes) {
    Guard guard(lock);
    auto* mark = marks.touching(at, bytes);
    return mark ? mark->value.c_str() : nullptr;
}

// What this thread copies and sends is carried, also without values: the host laid it down itself.
void onelayer_mock_carry(int on) { carrying = on; }

// The name of the kernel that was launched last, by any thread.
const char* onelayer_mock_last_kernel() { return last_kernel; }

// A kernel's assert failed: as on a GPU, whoever synchronises next is told, and all after that.
void onelayer_mock_assert() {
    Guard guard(lock);
    devices[current_device].sticky = cudaErrorAssert;
}

// The assert is forgotten, so that the program's end can still be looked at.
void onelayer_mock_forgive() {
    Guard guard(lock);
    for (Device& d : devices) d.sticky = cudaSuccess;
    last_error = cudaSuccess;
}

// Calls that no person's line led to are, from here on, told with this line.
void onelayer_mock_here() {
    Guard guard(lock);
    call_log.note_line();
}

void onelayer_mock_flush() {
    Guard guard(lock);
    call_log.flush();
}
}
