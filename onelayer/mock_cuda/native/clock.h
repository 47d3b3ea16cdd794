// The clock of the mocked machine: the host's monotonic clock, in nanoseconds. The device's clocks
// are modelled on it, so that a wait for the device really takes as long as the model says.
#pragma once
#include <chrono>
#include <cstdint>
#include <thread>

namespace mock {

using Ns = uint64_t;

inline Ns now() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

// Returns at `when` or just after. The system may oversleep by 50 us: the last stretch is spun.
inline void wait_until(Ns when) {
    const Ns spun = 100'000;
    for (Ns t = now(); t < when; t = now())
        if (when - t > spun) std::this_thread::sleep_for(std::chrono::nanoseconds(when - t - spun));
}

}  // namespace mock
