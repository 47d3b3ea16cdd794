// Streams and events, and the waits for them. Every wait is told: it is what makes a program slow.
#include "memory.h"

namespace mock {

static cudaError_t unsupported(const Stream& s) {
    return breaks_capture(s) ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

static cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    Stream* s = new_stream(!(flags & cudaStreamNonBlocking), priority);
    return *stream = reinterpret_cast<cudaStream_t>(s), cudaSuccess;
}

static Event& of(cudaEvent_t handle) { return *reinterpret_cast<Event*>(handle); }

// An event of a stream under capture stands for the graph so far, and is no moment in time.
static cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s || !event) return fail(cudaErrorInvalidResourceHandle);
    Event& e = of(event);
    e.capture = s->capture, e.recorded = true;
    if (!s->capture) e.at = std::max({s->free_at, now(), after_default_stream(*s)});
    return cudaSuccess;
}

// A stream that waits for an event under capture is captured too.
static cudaError_t follow(cudaStream_t stream, cudaEvent_t event) {
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s || !event) return fail(cudaErrorInvalidResourceHandle);
    Event& e = of(event);
    if (e.capture && s->capture && s->capture != e.capture) return fail(cudaErrorStreamCaptureMerge);
    if (e.capture) s->capture = e.capture;
    if (!s->capture) s->free_at = std::max(s->free_at, e.at);
    return cudaSuccess;
}

// Sets the moment at which the stream is done, or says why nobody may wait for it.
static cudaError_t moment_of(cudaStream_t stream, Ns* at) {
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s) return fail(cudaErrorInvalidResourceHandle);
    *at = std::max(s->free_at, s->id == LEGACY_ID ? after_default_stream(*s) : 0);
    return unsupported(*s);
}

static cudaError_t reached(Ns at) {
    if (at > now()) return fail(cudaErrorNotReady);
    return deliver(), cudaSuccess;
}

static cudaError_t elapsed(float* ms, const Event& from, const Event& to) {
    if (!from.recorded || !to.recorded || !from.timing || !to.timing) return fail(cudaErrorInvalidResourceHandle);
    if (std::max(from.at, to.at) > now()) return fail(cudaErrorNotReady);
    return *ms = float((double(to.at) - double(from.at)) / 1e6), cudaSuccess;
}

}  // namespace mock

using namespace mock;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* s) { return create(s, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) { return create(s, flags, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
    return create(s, flags, std::max(-5, std::min(priority, 0)));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Guard guard(lock);
    auto* s = reinterpret_cast<Stream*>(stream);
    if (!streams.erase(s)) return fail(cudaErrorInvalidResourceHandle);
    return delete s, cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s) return fail(cudaErrorInvalidResourceHandle);
    return *priority = s->priority, cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    RUNTIME('s', cudaStreamSynchronize, v3020);
    Ns at = 0;
    if (cudaError_t code = moment_of(stream, &at)) return code;
    wait_for_device(at);
    return sticky_error();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    Ns at = 0;
    if (cudaError_t code = moment_of(stream, &at)) return code;
    return reached(at);
}

cudaError_t cudaDeviceSynchronize() {
    RUNTIME('s', cudaDeviceSynchronize, v3020);
    if (cudaError_t code = ready()) return code;
    Ns at;
    {
        Guard guard(lock);
        if (any_capture(current_device)) return fail(cudaErrorStreamCaptureUnsupported);
        at = device_idle_at(current_device);
    }
    wait_for_device(at);
    return sticky_error();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    auto* e = new Event;
    e->timing = !(flags & cudaEventDisableTiming);
    return *event = reinterpret_cast<cudaEvent_t>(e), cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete &of(event), cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    RUNTIME('e', cudaEventRecord, v3020);
    return record(event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (cudaError_t code = ready()) return code;
    if (of(event).capture) return fail(cudaErrorCapturedEvent);
    return reached(of(event).at);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    RUNTIME('s', cudaEventSynchronize, v3020);
    if (cudaError_t code = ready()) return code;
    if (of(event).capture) return fail(cudaErrorCapturedEvent);
    wait_for_device(of(event).at);
    return sticky_error();
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
    if (cudaError_t code = ready()) return code;
    return elapsed(ms, of(from), of(to));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    RUNTIME('e', cudaStreamWaitEvent, v3020);
    return follow(stream, event);
}

// The host's function runs at once: nothing that it may look at is later on a device of ours.
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
    return function(data), cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t function, void* data, unsigned) {
    return function(s, cudaSuccess, data), cudaSuccess;
}
}
