// The devices: what each is said to be, and the state that a driver would keep of it.
#pragma once
#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <vector>

#include "clock.h"
#include "settings.h"

namespace mock {

// The parts of a device that do one thing at a time.
enum Engine { COMPUTE, COPY_IN, COPY_OUT, COPY_WITHIN, COPY_PEER, NO_ENGINE };

struct Model {
    std::string name;
    int major, minor, sms, threads_per_sm, clock_khz;
    size_t memory_bytes, shared_per_sm, shared_optin, l2_bytes;
    double hbm_bytes_s, pcie_bytes_s, peer_bytes_s, fp64_flop_s, fp32_flop_s, tf32_flop_s, half_flop_s;
    Ns launch_ns, kernel_ns;  // the host's share of a launch; the least that a kernel takes
};

struct Device {
    size_t used = 0;                 // bytes that cudaMalloc and the driver handed out
    Ns engine_free_at[NO_ENGINE] = {};
    cudaError_t sticky = cudaSuccess;  // a device assert stays until the process ends
};

constexpr int MAX_DEVICES = 64;
inline std::recursive_mutex lock;  // guards every state of the mocked driver
using Guard = std::lock_guard<std::recursive_mutex>;
inline thread_local int current_device = 0;
inline Device devices[MAX_DEVICES];
inline const char* last_kernel = "";  // that was launched, by any thread

inline int device_count() {
    static const int n = atoi(setting("ONELAYER_MOCK_DEVICES", "1").c_str());
    return n;
}

inline Model read_model() {
    auto said = parse_pairs(setting("ONELAYER_MOCK_DEVICE", ""));
    auto number = [&](const char* key, double otherwise) {
        auto it = said.find(key);
        return it == said.end() ? otherwise : atof(it->second.c_str());
    };
    Model m;
    m.name = said.count("name") ? said["name"] : "mocked device";
    m.major = int(number("major", 9)), m.minor = int(number("minor", 0));
    m.sms = int(number("sms", 132)), m.threads_per_sm = int(number("threads_per_sm", 2048));
    m.clock_khz = int(number("clock_khz", 1'980'000));
    m.memory_bytes = size_t(number("memory_bytes", 8.0 * (1u << 30)));
    m.shared_per_sm = size_t(number("shared_per_sm", 233'472));
    m.shared_optin = size_t(number("shared_optin", 232'448));
    m.l2_bytes = size_t(number("l2_bytes", 50.0 * (1u << 20)));
    m.hbm_bytes_s = number("hbm_bytes_s", 3.35e12), m.pcie_bytes_s = number("pcie_bytes_s", 5e10);
    m.peer_bytes_s = number("peer_bytes_s", 4.5e11), m.fp64_flop_s = number("fp64_flop_s", 3.4e13);
    m.fp32_flop_s = number("fp32_flop_s", 6.7e13), m.tf32_flop_s = number("tf32_flop_s", 4.95e14);
    m.half_flop_s = number("half_flop_s", 9.9e14);
    m.launch_ns = Ns(number("launch_ns", 4000)), m.kernel_ns = Ns(number("kernel_ns", 2000));
    return m;
}

inline const Model& model() {
    static const Model m = read_model();
    return m;
}

}  // namespace mock
