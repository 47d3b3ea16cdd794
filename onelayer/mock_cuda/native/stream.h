// Streams, the modelled time on them, and the call that puts work there.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "activity.h"
#include "errors.h"

namespace mock {

// Work for a stream: what is told of it, and what the model needs to say how long it takes.
struct Work {
    Done told;
    Ns duration = 0;
    Engine engine = NO_ENGINE;
    bool fills = false;  // nothing else runs on the engine beside it
};

struct Graph {
    std::vector<Work> nodes;
    int begun_by = 0;
    bool invalid = false;
};

struct Stream {
    int device = 0, id = 0, priority = 0;
    bool blocking = true;  // waits for the legacy default stream, which waits for it
    Ns free_at = 0;
    Graph* capture = nullptr;
    std::deque<Ns> queued;  // ends of launches that the device has not yet reached
};

struct Event {
    Ns at = 0;
    bool recorded = false, timing = true;
    Graph* capture = nullptr;
};

constexpr int LEGACY_ID = 7;        // as real traces number the default stream
constexpr size_t QUEUE_DEPTH = 1024;  // launches ahead of the device, after which the host waits

inline Stream legacy_streams[MAX_DEVICES];
inline std::set<Stream*> streams;

inline Stream& legacy_stream(int device) {
    Stream& s = legacy_streams[device];
    s.device = device, s.id = LEGACY_ID;
    return s;
}

inline Stream* new_stream(bool blocking, int priority) {
    static int next_id = 13;
    auto* s = new Stream;
    s->device = current_device, s->id = next_id++, s->blocking = blocking, s->priority = priority;
    streams.insert(s);
    return s;
}

inline Stream& per_thread_stream() {
    static thread_local Stream* of_device[MAX_DEVICES] = {};
    Stream*& s = of_device[current_device];
    if (!s) s = new_stream(true, 0);
    return *s;
}

// nullptr for a handle that is no stream.
inline Stream* find_stream(cudaStream_t handle) {
    if (handle == nullptr || handle == cudaStreamLegacy) return &legacy_stream(current_device);
    if (handle == cudaStreamPerThread) return &per_thread_stream();
    auto* s = reinterpret_cast<Stream*>(handle);
    return streams.count(s) ? s : nullptr;
}

inline Ns device_idle_at(int device) {
    Ns at = legacy_stream(device).free_at;
    for (Stream* s : streams)
        if (s->device == device) at = std::max(at, s->free_at);
    return at;
}

// The earliest start that the legacy default stream's rule allows.
inline Ns after_default_stream(const Stream& s) {
    Stream& legacy = legacy_stream(s.device);
    if (&s != &legacy) return s.blocking ? legacy.free_at : 0;
    Ns at = 0;
    for (Stream* other : streams)
        if (other->device == s.device && other->blocking) at = std::max(at, other->free_at);
    return at;
}

// Gives the work its place on the modelled clocks; `earliest` is when the device knows of it.
inline void schedule(Stream& s, Work& work, Ns earliest) {
    Ns at = std::max({s.free_at, earliest, after_default_stream(s)});
    Ns& engine = devices[s.device].engine_free_at[work.engine == NO_ENGINE ? 0 : work.engine];
    bool alone = work.engine != NO_ENGINE && work.fills;
    if (alone) at = std::max(at, engine);
    s.free_at = at + work.duration;
    if (alone) engine = s.free_at;
    work.told.call.device = s.device, work.told.call.stream = s.id;
    work.told.call.begin = at, work.told.call.finish = s.free_at;
}

// When the host may go on: a launch queue that is full makes it wait.
inline Ns room_in_queue(Stream& s) {
    s.queued.push_back(s.free_at);
    while (!s.queued.empty() && s.queued.front() <= now()) s.queued.pop_front();
    if (s.queued.size() <= QUEUE_DEPTH) return 0;
    Ns at = s.queued.front();
    s.queued.pop_front();
    return at;
}

}  // namespace mock
