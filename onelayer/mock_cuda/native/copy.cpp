// Copies and memsets. What is pinned is copied while the host goes on; what is pageable makes the
// host wait, except a small piece on its way in, which the driver takes along with the command.
#include <cstring>

#include "cost.h"
#include "marks.h"
#include "memory.h"

namespace mock {

constexpr size_t TAKEN_ALONG = 64 << 10;  // bytes; CUDA's documentation of synchronous behaviour

static cudaMemcpyKind kind_of(const void* to, const void* from, cudaMemcpyKind said) {
    if (said != cudaMemcpyDefault) return said;
    bool into = device_of(to) >= 0, out_of = device_of(from) >= 0;
    if (into && out_of) return cudaMemcpyDeviceToDevice;
    return into ? cudaMemcpyHostToDevice : out_of ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

static Engine engine_of(cudaMemcpyKind kind) {
    if (kind == cudaMemcpyHostToDevice) return COPY_IN;
    return kind == cudaMemcpyDeviceToHost ? COPY_OUT : COPY_WITHIN;
}

// Torch asks itself some numbers, such as whether a gradient overflowed: it gets the ordinary answer.
static bool asked_by_torch() {
    onelayer_place place;
    if (!onelayer_python_lines(&place, 1)) return false;
    char name[600];
    onelayer_python_name(place.code, name, sizeof name);
    for (const char* part : {"/torch/amp/", "/torch/optim/", "/torch/nn/"})
        if (strstr(name, part)) return true;
    return false;
}

struct Arrival {
    void* to;
    size_t bytes;
    int value;
};
static std::vector<Arrival> arrivals;

// Where no number is on the device, a float reads as NaN and an integer of several as -1. One lone
// integer is 0: a size that a program reads must not be absurd. It is written when somebody waits:
// to write it at once would hold up a host that a copy engine leaves alone.
static void read_nothing(void* to, size_t bytes) {
    bool lone_integer = bytes == 8 || bytes == 1;
    arrivals.push_back({to, bytes, lone_integer || asked_by_torch() ? 0 : 0xFF});
}

void deliver() {
    Guard guard(lock);
    for (Arrival& a : arrivals) memset(a.to, a.value, a.bytes);
    arrivals.clear();
}

static cudaError_t never_computed(const std::string& kernel) {
    std::string why = kernel + " was launched on a mocked device, and nothing computed it";
    if (kernel == UNWRITTEN) why = "nothing wrote this memory";
    return fail(cudaErrorNotSupported, "this number was never computed: " + why);
}

// Set while an operator runs whose numbers Python computes: what it reads meanwhile is not kept.
static thread_local bool trusted = false;

// Moves the bytes, and what is known of them.
static cudaError_t move(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    bool out = kind == cudaMemcpyDeviceToHost;
    if (!with_values()) {
        if (out) read_nothing(to, bytes);
        return cudaSuccess;
    }
    auto* mark = kind == cudaMemcpyHostToDevice ? nullptr : marks.touching(from, bytes);
    if (mark && out && !trusted) return never_computed(mark->value);
    std::string kernel = mark ? mark->value : "";
    if (!out) marks.cut(to, bytes);
    if (mark && !out) return marks.put(to, bytes, kernel), cudaSuccess;
    memmove(to, from, bytes);
    return cudaSuccess;
}

static const char* name_of(cudaMemcpyKind kind) {
    if (kind == cudaMemcpyHostToDevice) return "copy to the device";
    if (kind == cudaMemcpyDeviceToHost) return "copy to the host";
    return kind == cudaMemcpyDeviceToDevice ? "copy on devices" : "copy on the host";
}

static Work copy_work(size_t bytes, cudaMemcpyKind kind, bool pinned) {
    Work work;
    work.told.call.kind = 'c', work.told.call.bytes = bytes, work.told.call.api = "";
    work.told.call.kernel = name_of(kind);
    work.told.copy_kind = kind, work.told.pinned = pinned;
    work.duration = copy_time(kind, bytes, pinned);
    work.engine = engine_of(kind), work.fills = true;
    return work;
}

static bool host_waits(size_t bytes, cudaMemcpyKind kind, bool pinned) {
    if (kind == cudaMemcpyDeviceToDevice || pinned) return false;
    return kind == cudaMemcpyDeviceToHost || bytes > TAKEN_ALONG;
}

static cudaError_t copy(Api& api, void* to, const void* from, size_t bytes, cudaMemcpyKind said,
                        cudaStream_t handle, bool synchronous) {
    if (cudaError_t code = ready()) return code;
    api.call.bytes = bytes;
    Ns done = 0;
    bool waits;
    {
        Guard guard(lock);
        Stream* s = find_stream(handle);
        if (!s) return fail(cudaErrorInvalidResourceHandle);
        cudaMemcpyKind kind = kind_of(to, from, said);
        bool pinned = is_pinned(kind == cudaMemcpyHostToDevice ? from : to);
        waits = synchronous || host_waits(bytes, kind, pinned);
        if (waits && breaks_capture(*s)) return fail(cudaErrorStreamCaptureUnsupported);
        if (cudaError_t code = s->capture ? cudaSuccess : move(to, from, bytes, kind)) return code;
        api.submit(*s, copy_work(bytes, kind, pinned), model().launch_ns);
        if (waits) done = s->free_at;
    }
    if (waits) wait_for_device(done);
    return sticky_error();
}

static cudaError_t fill(Api& api, void* to, int value, size_t bytes, cudaStream_t handle) {
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    Stream* s = find_stream(handle);
    if (!s) return fail(cudaErrorInvalidResourceHandle);
    if (with_values() && !s->capture) memset(to, value, bytes), marks.cut(to, bytes);
    Work work;
    work.told.call.kind = 'm', work.told.call.bytes = bytes, work.told.call.api = "";
    work.duration = roofline(double(bytes), 0, FP32);
    work.engine = COMPUTE;
    return api.submit(*s, work, model().launch_ns), cudaSuccess;
}

}  // namespace mock

using namespace mock;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
    RUNTIME('c', cudaMemcpyAsync, v3020);
    return copy(api, to, from, bytes, kind, s, false);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    RUNTIME('c', cudaMemcpy, v3020);
    return copy(api, to, from, bytes, kind, nullptr, kind != cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t s) {
    RUNTIME('c', cudaMemcpyPeerAsync, v4000);
    return copy(api, to, from, bytes, cudaMemcpyDeviceToDevice, s, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t s) {
    RUNTIME('c', cudaMemcpy2DAsync, v3020);
    char* out = static_cast<char*>(to);
    const char* in = static_cast<const char*>(from);
    for (size_t row = 0; row < height; row++)
        if (cudaError_t code = copy(api, out + row * to_pitch, in + row * from_pitch, width, kind, s, false)) return code;
    return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    RUNTIME('m', cudaMemset, v3020);
    return fill(api, to, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t s) {
    RUNTIME('m', cudaMemsetAsync, v3020);
    return fill(api, to, value, bytes, s);
}

void onelayer_mock_trust(int on) { trusted = on; }

// Constants of a kernel live in its binary, which nobody runs here.
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }

cudaError_t cudaGetSymbolAddress(void** p, const void*) {
    static char* place = map_pages(1 << 20);
    return *p = place, cudaSuccess;
}
}
