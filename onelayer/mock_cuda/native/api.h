// One call of an API that a reader wants to see: it is told when it ends, with the work it gave.
#pragma once
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>

#include "stream.h"

namespace mock {

class Api {
  public:
    Api(char kind, const char* name, int cbid, bool driver = false) : driver_(driver), cbid_(cbid) {
        call.kind = kind, call.api = name, call.start = now(), call.device = current_device;
    }
    ~Api() {
        call.end = now();
        Guard guard(lock);
        for (Done& d : done_) d.call.api = call.api, d.call.start = call.start, d.call.end = call.end;
        for (Done& d : done_) call_log.write(d.call);
        if (done_.empty()) call_log.write(call);
        if (call.kind == 's') call_log.flush();
        tell_cupti(cbid_, driver_, call.start, call.end, done_.data(), done_.size());
    }
    // Puts work on a stream, or into the graph that the stream is captured to.
    void submit(Stream& s, Work work, Ns latency) {
        if (s.capture) return s.capture->nodes.push_back(work);
        schedule(s, work, now() + latency);
        done_.push_back(work.told);
    }
    Call call;

  private:
    bool driver_;
    int cbid_;
    std::vector<Done> done_;
};

// True where a call may not be made while a stream is captured; the capture is then invalid.
inline bool breaks_capture(const Stream& s) {
    if (s.capture) s.capture->invalid = true;
    return s.capture != nullptr;
}

inline bool any_capture(int device) {
    for (Stream* s : streams)
        if (s->device == device && breaks_capture(*s)) return true;
    return false;
}

// `version` is the one that CUPTI's name of the call ends in.
#define RUNTIME(kind, name, version) \
    mock::Api api(kind, #name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version)

}  // namespace mock
