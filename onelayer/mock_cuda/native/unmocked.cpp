// What every function does that CUDA's libraries have and this one does not: it names itself. The
// stubs that come here are generated from the symbols of those libraries (see ../stubs.py).
#include <cstring>
#include <set>

#include "api.h"

namespace mock {

// "This is not supported", as each library says it.
static int code_of(const char* name) {
    static const std::pair<const char*, int> codes[] = {
        {"cudnn", 3000}, {"cublas", 15}, {"cupti", 27}, {"cusparse", 10}, {"cusolver", 9},
        {"cufft", 16},   {"curand", 201}, {"nccl", 5},  {"nvml", 3}};
    for (auto [prefix, code] : codes)
        if (!strncmp(name, prefix, strlen(prefix))) return code;
    return cudaErrorNotSupported;
}

static bool first_time(const char* name) {
    static std::set<std::string> told;
    Guard guard(lock);
    return told.insert(name).second;
}

}  // namespace mock

using namespace mock;

extern "C" int onelayer_mock_unmocked(const char* name) {
    Call call{'x', name};
    call.start = call.end = now();
    Guard guard(lock);
    call_log.write(call);
    std::string text = std::string(name) + " is not mocked: please open an issue for onelayer with this name";
    if (first_time(name)) fprintf(stderr, "onelayer.mock_cuda: %s.\n", text.c_str());
    int code = code_of(name);
    if (code == cudaErrorNotSupported) fail(cudaErrorNotSupported, text);
    return code;
}
