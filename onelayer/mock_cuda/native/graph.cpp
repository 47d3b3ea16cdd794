// Stream capture and CUDA graphs. A graph is what was submitted while its streams were captured, in
// that order; its replay puts all of it on one stream, so that branches follow each other there.
#include "memory.h"

namespace mock {

constexpr Ns NODE_NS = 1000;  // between two nodes: the device needs no launch by the host

static Graph* graph_of(cudaGraph_t handle) { return reinterpret_cast<Graph*>(handle); }

static void leave_capture(Graph* graph) {
    for (Stream* s : streams)
        if (s->capture == graph) s->capture = nullptr;
    for (Stream& s : legacy_streams)
        if (s.capture == graph) s.capture = nullptr;
}

static cudaError_t begin(cudaStream_t stream, Graph* graph) {
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s || s->capture) return fail(cudaErrorIllegalState);
    if (s->id == LEGACY_ID) return fail(cudaErrorStreamCaptureUnsupported);
    graph->begun_by = s->id;
    return s->capture = graph, cudaSuccess;
}

static void replay(Api& api, Stream& s, const Graph& graph) {
    Ns latency = model().launch_ns;
    for (const Work& node : graph.nodes) {
        api.submit(s, node, latency);
        s.free_at += NODE_NS;
    }
}

}  // namespace mock

using namespace mock;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    RUNTIME('g', cudaStreamBeginCapture, v10000);
    if (cudaError_t code = ready()) return code;
    return begin(stream, new Graph);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t*,
                                          const cudaGraphEdgeData*, size_t, cudaStreamCaptureMode) {
    return begin(stream, graph_of(graph));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    RUNTIME('g', cudaStreamEndCapture, v10000);
    Guard guard(lock);
    Stream* s = find_stream(stream);
    *graph = nullptr;
    if (!s || !s->capture) return fail(cudaErrorIllegalState);
    Graph* captured = s->capture;
    leave_capture(captured);
    if (captured->invalid) return delete captured, fail(cudaErrorStreamCaptureInvalidated);
    return *graph = reinterpret_cast<cudaGraph_t>(captured), cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                                     const cudaGraphEdgeData** edges, size_t* count) {
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s) return fail(cudaErrorInvalidResourceHandle);
    Graph* g = s->capture;
    *status = !g ? cudaStreamCaptureStatusNone
                 : g->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    if (id) *id = g ? reinterpret_cast<unsigned long long>(g) : 0;
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(g);
    if (nodes) *nodes = nullptr;
    if (edges) *edges = nullptr;
    if (count) *count = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t*, const cudaGraphEdgeData*, size_t,
                                                unsigned) {
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    return std::swap(*mode, current), cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    Graph& g = *graph_of(graph);
    for (size_t i = 0; nodes && i < *count && i < g.nodes.size(); i++)
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(&g.nodes[i]);
    return *count = g.nodes.size(), cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    RUNTIME('g', cudaGraphInstantiateWithFlags, v11040);
    return *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_of(graph))), cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    RUNTIME('g', cudaGraphLaunch, v10000);
    if (cudaError_t code = ready()) return code;
    Guard guard(lock);
    Stream* s = find_stream(stream);
    if (!s) return fail(cudaErrorInvalidResourceHandle);
    return replay(api, *s, *reinterpret_cast<Graph*>(made)), cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph_of(graph), cudaSuccess; }

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    return delete reinterpret_cast<Graph*>(made), cudaSuccess;
}
}
