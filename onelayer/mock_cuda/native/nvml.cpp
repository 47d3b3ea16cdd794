// NVML, the management library, as far as torch asks it: how many devices, which process uses how
// much, whether a device is part of a fabric. No wheel brings its header; these are its few types.
#include <unistd.h>

#include <cstring>

#include "memory.h"

namespace mock {

struct NvmlProcess {
    unsigned pid;
    unsigned long long used_bytes;
};

constexpr int NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6;

// A device is known by the address of its entry here.
static char nvml_devices[MAX_DEVICES];

static int nvml_device(unsigned long i, void** handle) {
    if (i >= unsigned(device_count())) return NVML_NOT_FOUND;
    return *handle = &nvml_devices[i], NVML_SUCCESS;
}

}  // namespace mock

using namespace mock;

extern "C" {

int nvmlInit_v2() { return NVML_SUCCESS; }
int nvmlInit() { return NVML_SUCCESS; }
int nvmlShutdown() { return NVML_SUCCESS; }
const char* nvmlErrorString(int) { return "an error of the mocked NVML"; }
int nvmlDeviceGetCount_v2(unsigned* n) { return *n = unsigned(device_count()), NVML_SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = CUDART_VERSION, NVML_SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** handle) { return nvml_device(i, handle); }

// "0000:1f:00.0": the bus is the device's number.
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
    return nvml_device(strtoul(id + 5, nullptr, 16), handle);
}

int nvmlDeviceGetHandleByUUID(const char*, void**) { return NVML_NOT_FOUND; }

int nvmlDeviceGetUUID(void* handle, char* text, unsigned room) {
    long i = static_cast<char*>(handle) - nvml_devices;
    return snprintf(text, room, "GPU-%08lx-0000-0000-0000-000000000000", i + 1), NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, NvmlProcess* processes) {
    Guard guard(lock);
    long i = static_cast<char*>(handle) - nvml_devices;
    if (*count) processes[0] = {unsigned(getpid()), devices[i].used};
    return *count = 1, NVML_SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned*) { return NVML_NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return NVML_NOT_SUPPORTED; }

// After the version: cluster, status, clique, state, health. A state of 0 is "part of no fabric".
int nvmlDeviceGetGpuFabricInfoV(void*, void* info) {
    return memset(static_cast<char*>(info) + 4, 0, 32), NVML_SUCCESS;
}

int nvmlDeviceGetP2PStatus(void*, void*, int, int*) { return NVML_NOT_SUPPORTED; }
}
