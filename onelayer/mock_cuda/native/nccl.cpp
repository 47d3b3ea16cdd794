// NCCL, as ProcessGroupNCCL calls it: communicators over shared memory, collectives as work on a
// stream that begins when every rank's stream is there and takes its bytes over the link.
#include <nccl.h>

#include <functional>
#include <random>

#include "launch.h"
#include "marks.h"
#include "meeting.h"
#include "reduction.h"

namespace mock {

struct Communicator {
    std::string name;
    int rank, size, device;
    std::unique_ptr<Shared> memory = nullptr;
    uint64_t calls = 0, sent[MAX_RANKS] = {}, received[MAX_RANKS] = {};
    Hall& hall() { return *static_cast<Hall*>(memory->at()); }
};

static Communicator& of(ncclComm_t handle) { return *reinterpret_cast<Communicator*>(handle); }

// A collective or message of one rank, from its launch to its end.
struct Exchange {
    const char* api;
    Communicator* comm;
    const void* send;
    void* receive;
    size_t send_bytes, receive_bytes, wire_bytes;
    cudaStream_t stream;
    std::function<bool(const std::vector<const char*>&)> compose;  // from all inputs, in order of ranks
    Spot* spot = nullptr;
    uint64_t round = 0, parties = 0;
    std::vector<std::string> inputs;  // the names of what each party sends
    int own = -1;                     // which of them is ours
};

static std::string input_name(const Communicator& c, const char* kind, uint64_t number, int from) {
    return "/" + c.name + "-" + kind + std::to_string(number) + "-" + std::to_string(from);
}

// Says when this rank's stream will be there, and lays down what it sends.
static void arrive(Exchange& e) {
    Guard guard(lock);
    Stream* s = find_stream(e.stream);
    if (s && s->capture) return;
    if (with_values() && e.own >= 0) {
        bool unknown = marks.touching(e.send, e.send_bytes) != nullptr;
        Shared place(e.inputs[size_t(e.own)], std::max<size_t>(e.send_bytes, 1), true);
        if (unknown || !place.at()) e.spot->unknown++;
        else memcpy(place.at(), e.send, e.send_bytes);
    }
    raise_to(e.spot->latest_ns, std::max(s ? s->free_at : 0, now()));
    e.spot->arrived++;
}

// What all parties laid down, composed into what this rank receives; false where that cannot be.
static bool take_values(Exchange& e) {
    std::vector<std::unique_ptr<Shared>> places;
    std::vector<const char*> inputs;
    for (const std::string& name : e.inputs) {
        places.push_back(std::make_unique<Shared>(name, std::max<size_t>(e.send_bytes, 1), false));
        if (!places.back()->at()) return false;
        inputs.push_back(static_cast<const char*>(places.back()->at()));
    }
    return e.compose(inputs);
}

static void settle_values(Exchange& e, bool met) {
    bool computed = met && e.spot->unknown == 0 && take_values(e);
    if (e.receive && e.receive_bytes) {
        Guard guard(lock);
        marks.cut(e.receive, e.receive_bytes);
        if (!computed) marks.put(e.receive, e.receive_bytes, e.api);
    }
    e.spot->left++;
    wait_for(e.spot->left, e.round);
    if (e.own >= 0) shm_unlink(e.inputs[size_t(e.own)].c_str());
}

static Work exchange_work(const Exchange& e) {
    Work work;
    Call& call = work.told.call;
    call.kind = 'n', call.kernel = kept_name(std::string("mocked_") + e.api), call.bytes = e.wire_bytes;
    call.grid = dim3(16), call.block = dim3(512), call.api = "";
    work.duration = model().kernel_ns + Ns(double(e.wire_bytes) / model().peer_bytes_s * 1e9);
    return work;
}

// Waits for the others and puts the exchange on the stream, from when the last of them is there.
static ncclResult_t finish(Exchange& e) {
    Api api('n', e.api, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060);
    Stream* s = find_stream(e.stream);
    if (!s) return ncclInvalidArgument;
    if (!s->capture) {
        bool met = wait_for(e.spot->arrived, e.round);
        if (with_values()) settle_values(e, met);
        Guard guard(lock);
        s->free_at = std::max<Ns>(s->free_at, e.spot->latest_ns);
    }
    Guard guard(lock);
    return api.submit(*s, exchange_work(e), model().launch_ns), ncclSuccess;
}

// Between ncclGroupStart and ncclGroupEnd nothing waits: all arrive first.
static thread_local int group_depth = 0;
static thread_local std::vector<Exchange> grouped;

static ncclResult_t run_group() {
    std::vector<Exchange> all = std::move(grouped);
    grouped.clear();
    for (Exchange& e : all) arrive(e);
    for (Exchange& e : all)
        if (ncclResult_t code = finish(e)) return code;
    return ncclSuccess;
}

static ncclResult_t start(Exchange e) {
    grouped.push_back(std::move(e));
    return group_depth ? ncclSuccess : run_group();
}

static Exchange collective(const char* api, ncclComm_t handle, const void* send, size_t send_bytes, void* receive,
                           size_t receive_bytes, cudaStream_t stream) {
    Communicator& c = of(handle);
    uint64_t number = c.calls++;
    Exchange e{api, &c, send, receive, send_bytes, receive_bytes, std::max(send_bytes, receive_bytes), stream, {}};
    e.spot = &c.hall().ring[number % RING];
    e.parties = uint64_t(c.size), e.round = e.parties * (number / RING + 1), e.own = c.rank;
    for (int r = 0; r < c.size; r++) e.inputs.push_back(input_name(c, "c", number, r));
    return e;
}

static Exchange message(const char* api, ncclComm_t handle, int from, int to, void* buffer, size_t bytes,
                        cudaStream_t stream) {
    Communicator& c = of(handle);
    bool sends = c.rank == from;
    uint64_t number = sends ? c.sent[to]++ : c.received[from]++;
    Exchange e{api, &c, buffer, sends ? nullptr : buffer, bytes, sends ? 0 : bytes, bytes, stream, {}};
    e.spot = &c.hall().between[from][to];
    e.parties = 2, e.round = 2 * (number + 1), e.own = sends ? 0 : -1;
    e.inputs = {input_name(c, ("p" + std::to_string(to) + "-").c_str(), number, from)};
    e.compose = [buffer, bytes, sends](const std::vector<const char*>& in) {
        if (!sends) memcpy(buffer, in[0], bytes);
        return true;
    };
    return e;
}

static void* at(const void* base, size_t bytes) { return static_cast<char*>(const_cast<void*>(base)) + bytes; }

static ncclResult_t join(ncclComm_t* handle, int size, const std::string& name, int rank) {
    if (size > MAX_RANKS) return ncclInvalidArgument;
    auto* c = new Communicator{name, rank, size, current_device};
    c->memory = std::make_unique<Shared>("/" + name, sizeof(Hall), true);
    if (!c->memory->at()) return delete c, ncclSystemError;
    c->hall().joined++;
    if (!group_depth && !wait_for(c->hall().joined, uint64_t(size))) return ncclSystemError;
    return *handle = reinterpret_cast<ncclComm_t>(c), ncclSuccess;
}

}  // namespace mock

using namespace mock;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    std::random_device random;
    snprintf(id->internal, sizeof id->internal, "onelayer-nccl-%08x%08x", random(), random());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
    return join(comm, size, id.internal, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
    return join(comm, size, id.internal, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int, ncclUniqueId* ids, ncclConfig_t*) {
    return join(comm, size, ids[0].internal, rank);
}
// A part of a communicator: those of one colour, in the order of their keys, which is that of ranks.
ncclResult_t ncclCommSplit(ncclComm_t, int color, int, ncclComm_t* made, ncclConfig_t*) {
    *made = nullptr;
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    of(comm).memory->unlink();
    return delete &of(comm), ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = ncclSuccess, ncclSuccess; }
ncclResult_t ncclCommCount(const ncclComm_t comm, int* n) { return *n = of(comm).size, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = of(comm).rank, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) { return *device = of(comm).device, ncclSuccess; }
ncclResult_t ncclCommRegister(const ncclComm_t, void*, size_t, void** handle) { return *handle = nullptr, ncclSuccess; }
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }
const char* ncclGetLastError(ncclComm_t) { return "no error of the mocked NCCL"; }

ncclResult_t ncclGroupStart() { return ++group_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --group_depth ? ncclSuccess : run_group(); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    size_t bytes = count * itemsize_of(type);
    Exchange e = collective("ncclAllReduce", comm, send, bytes, receive, bytes, stream);
    int n = of(comm).size;
    e.wire_bytes = 2 * bytes * size_t(n - 1) / size_t(n);  // of a ring, in and out of each rank
    e.compose = [=](const auto& in) { return reduce(op, type, in, static_cast<char*>(receive), count); };
    return start(std::move(e));
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
    size_t bytes = count * itemsize_of(type);
    bool mine = of(comm).rank == root;
    Exchange e = collective("ncclReduce", comm, send, bytes, mine ? receive : nullptr, mine ? bytes : 0, stream);
    e.compose = [=](const auto& in) { return !mine || reduce(op, type, in, static_cast<char*>(receive), count); };
    return start(std::move(e));
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    size_t bytes = count * itemsize_of(type);
    Exchange e = collective("ncclBroadcast", comm, of(comm).rank == root ? send : receive, bytes, receive, bytes, stream);
    if (of(comm).rank != root) e.own = -1;
    e.inputs = {e.inputs[size_t(root)]};
    if (e.own >= 0) e.own = 0;
    e.compose = [=](const auto& in) { return memcpy(receive, in[0], bytes), true; };
    return start(std::move(e));
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t s) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, s);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    size_t bytes = count * itemsize_of(type), n = size_t(of(comm).size);
    Exchange e = collective("ncclAllGather", comm, send, bytes, receive, bytes * n, stream);
    e.wire_bytes = bytes * (n - 1);
    e.compose = [=](const auto& in) {
        for (size_t r = 0; r < n; r++) memcpy(at(receive, r * bytes), in[r], bytes);
        return true;
    };
    return start(std::move(e));
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    size_t bytes = count * itemsize_of(type), n = size_t(of(comm).size), rank = size_t(of(comm).rank);
    Exchange e = collective("ncclReduceScatter", comm, send, bytes * n, receive, bytes, stream);
    e.wire_bytes = bytes * (n - 1);
    e.compose = [=](std::vector<const char*> in) {
        for (const char*& part : in) part += rank * bytes;
        return reduce(op, type, in, static_cast<char*>(receive), count);
    };
    return start(std::move(e));
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s) {
    return start(message("ncclSend", comm, of(comm).rank, peer, const_cast<void*>(buffer), count * itemsize_of(type), s));
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s) {
    return start(message("ncclRecv", comm, peer, of(comm).rank, buffer, count * itemsize_of(type), s));
}
}
