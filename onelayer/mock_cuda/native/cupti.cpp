// CUPTI's activity API, as far as Kineto (torch.profiler) uses it: a record for each call, for each
// piece of device work, and for the operator that asked for it.
#include <cupti.h>

#include <cstring>
#include <set>

#include "activity.h"
#include "callback_names.h"  // written by builds.py, from CUPTI's own numbering

#ifndef ONELAYER_KERNEL_RECORD  // the newest layouts of these headers; older ones are their beginnings
#define ONELAYER_KERNEL_RECORD CUpti_ActivityKernel10
#define ONELAYER_MEMCPY_RECORD CUpti_ActivityMemcpy6
#define ONELAYER_MEMSET_RECORD CUpti_ActivityMemset4
#endif

namespace mock {

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static std::set<int> enabled;

// Kineto may count time in ticks of the processor. Two looks at both clocks tell what a tick is.
class Ticks {
  public:
    void count_by(CUpti_TimestampCallbackFunc clock) {
        clock_ = clock;
        first_ = look();
    }
    // Our clock's nanoseconds as the profiler counts them.
    uint64_t of(Ns when) {
        if (!clock_) return when + unix_offset();
        Look last = look();
        while (last.at - first_.at < 2'000'000) last = look();
        double ticks_per_ns = double(last.ticks - first_.ticks) / double(last.at - first_.at);
        return last.ticks + uint64_t(int64_t((double(when) - double(last.at)) * ticks_per_ns));
    }

  private:
    struct Look {
        Ns at;
        uint64_t ticks;
    };
    Look look() const { return {now(), clock_()}; }
    static Ns unix_offset() {
        auto since = std::chrono::system_clock::now().time_since_epoch();
        return Ns(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()) - now();
    }
    CUpti_TimestampCallbackFunc clock_ = nullptr;
    Look first_{};
};
static Ticks ticks;

// The buffer that the profiler gave. CUPTI asks for one when a record comes, and not before.
class Buffer {
  public:
    template <class R>
    void add(const R& record) {
        if (!request) return;
        if (data_ && filled_ + sizeof record > room_) hand_over();
        size_t most = 0;
        if (!data_) filled_ = 0, request(&data_, &room_, &most);
        if (!data_) return;
        memcpy(data_ + filled_, &record, sizeof record);
        filled_ += sizeof record;
    }
    void hand_over() {
        if (!data_) return;
        uint8_t* data = data_;
        data_ = nullptr;
        complete(nullptr, 0, data, room_, filled_);
    }

  private:
    uint8_t* data_ = nullptr;
    size_t room_ = 0, filled_ = 0;
};
static Buffer buffer;

static size_t size_of(const CUpti_Activity* record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(ONELAYER_KERNEL_RECORD);
        case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(ONELAYER_MEMCPY_RECORD);
        case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(ONELAYER_MEMSET_RECORD);
        default: return sizeof(CUpti_ActivityExternalCorrelation);
    }
}

// Which operators of torch this thread is in, by kind of correlation: Kineto pushes and pops them.
static thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<uint64_t>> operators;

static void add_operators(uint32_t id) {
    if (!enabled.count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
    for (auto& [kind, stack] : operators) {
        if (stack.empty()) continue;
        CUpti_ActivityExternalCorrelation r{};
        r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
        r.externalKind = kind, r.externalId = stack.back(), r.correlationId = id;
        buffer.add(r);
    }
}

static void add_call(uint32_t id, int cbid, CUpti_ActivityKind kind, Ns start, Ns end) {
    if (!enabled.count(kind)) return;
    CUpti_ActivityAPI r{};
    r.kind = kind, r.cbid = CUpti_CallbackId(cbid), r.correlationId = id;
    r.start = ticks.of(start), r.end = ticks.of(end);
    r.processId = uint32_t(getpid()), r.threadId = uint32_t(uintptr_t(pthread_self()));
    buffer.add(r);
}

// What all records of device work begin with, under other names in each.
template <class R>
static R work_record(CUpti_ActivityKind kind, uint32_t id, const Call& c) {
    R r{};
    r.kind = kind, r.correlationId = id, r.start = ticks.of(c.begin), r.end = ticks.of(c.finish);
    r.deviceId = uint32_t(c.device), r.contextId = uint32_t(c.device + 1), r.streamId = uint32_t(c.stream);
    return r;
}

static void add_kernel(uint32_t id, const Call& c) {
    auto r = work_record<ONELAYER_KERNEL_RECORD>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, id, c);
    r.name = c.kernel, r.registersPerThread = 32, r.dynamicSharedMemory = int32_t(c.shared);
    r.gridX = int32_t(c.grid.x), r.gridY = int32_t(c.grid.y), r.gridZ = int32_t(c.grid.z);
    r.blockX = int32_t(c.block.x), r.blockY = int32_t(c.block.y), r.blockZ = int32_t(c.block.z);
    buffer.add(r);
}

static void add_copy(uint32_t id, const Done& d) {
    auto r = work_record<ONELAYER_MEMCPY_RECORD>(CUPTI_ACTIVITY_KIND_MEMCPY, id, d.call);
    auto host = d.pinned ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    auto device = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    r.copyKind = uint8_t(d.copy_kind == cudaMemcpyDeviceToDevice ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : d.copy_kind);
    r.srcKind = uint8_t(d.copy_kind == cudaMemcpyHostToDevice ? host : device);
    r.dstKind = uint8_t(d.copy_kind == cudaMemcpyDeviceToHost ? host : device);
    r.bytes = d.call.bytes;
    buffer.add(r);
}

static void add_memset(uint32_t id, const Call& c) {
    auto r = work_record<ONELAYER_MEMSET_RECORD>(CUPTI_ACTIVITY_KIND_MEMSET, id, c);
    r.bytes = c.bytes, r.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    buffer.add(r);
}

static void add_work(uint32_t id, const Done& d) {
    char kind = d.call.kind;
    if (kind == 'c' && enabled.count(CUPTI_ACTIVITY_KIND_MEMCPY)) return add_copy(id, d);
    if (kind == 'm' && enabled.count(CUPTI_ACTIVITY_KIND_MEMSET)) return add_memset(id, d.call);
    if (enabled.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) && (kind == 'k' || kind == 'n'))
        add_kernel(id, d.call);
}

void tell_cupti(int cbid, bool driver, Ns start, Ns end, const Done* done, size_t count) {
    static uint32_t next_id = 1;
    if (enabled.empty()) return;
    uint32_t id = next_id++;
    add_operators(id);
    add_call(id, cbid, driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME, start, end);
    for (size_t i = 0; i < count; i++) add_work(id, done[i]);
}

}  // namespace mock

using namespace mock;

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) { return *version = CUPTI_API_VERSION, CUPTI_SUCCESS; }

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
    return *text = "an error of the mocked CUPTI", CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc, void*) {
    static char one;
    return *handle = reinterpret_cast<CUpti_SubscriberHandle>(&one), CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) { return CUPTI_SUCCESS; }
CUptiResult cuptiFinalize() { return CUPTI_SUCCESS; }

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
    *name = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_name(cbid) : driver_name(cbid);
    return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    Guard guard(lock);
    return enabled.insert(kind), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
    Guard guard(lock);
    return enabled.erase(kind), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) { return CUPTI_SUCCESS; }

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* n) { return *n = 0, CUPTI_SUCCESS; }

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
    Guard guard(lock);
    return ticks.count_by(clock), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc on_request,
                                           CUpti_BuffersCallbackCompleteFunc on_complete) {
    return request = on_request, complete = on_complete, CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
    return operators[kind].push_back(id), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
    auto& stack = operators[kind];
    if (stack.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    if (last) *last = stack.back();
    return stack.pop_back(), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
    Guard guard(lock);
    return buffer.hand_over(), CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* data, size_t valid, CUpti_Activity** record) {
    auto* after = *record ? reinterpret_cast<uint8_t*>(*record) + size_of(*record) : data;
    if (after >= data + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    return *record = reinterpret_cast<CUpti_Activity*>(after), CUPTI_SUCCESS;
}
}
