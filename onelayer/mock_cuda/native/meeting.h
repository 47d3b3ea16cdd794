// Where the ranks of a communicator meet: a page of shared memory, named after its unique id. A rank
// that launches a collective says when its stream will be there and waits, on the host, until all
// have said so: the collective begins when the last stream is there.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "clock.h"

namespace mock {

constexpr int MAX_RANKS = 64, RING = 256;
constexpr Ns PATIENCE = 20'000'000'000;  // for the others; a program that waits crosswise goes on

struct Spot {
    std::atomic<uint64_t> arrived, left, latest_ns, unknown;
};

struct Hall {
    std::atomic<uint64_t> joined;
    Spot ring[RING];                        // of collectives, by their number
    Spot between[MAX_RANKS][MAX_RANKS];     // of messages from one rank to another
};

// Comes back true when `counter` has reached `goal`, false when that takes too long.
inline bool wait_for(const std::atomic<uint64_t>& counter, uint64_t goal) {
    Ns patience = now() + PATIENCE;
    while (counter.load() < goal) {
        if (now() > patience) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
}

inline void raise_to(std::atomic<uint64_t>& value, uint64_t to) {
    uint64_t seen = value.load();
    while (seen < to && !value.compare_exchange_weak(seen, to)) continue;
}

// A stretch of memory that processes share by its name; nullptr where there is none.
class Shared {
  public:
    Shared(const std::string& name, size_t bytes, bool make) : name_(name), bytes_(bytes) {
        int file = shm_open(name.c_str(), make ? O_RDWR | O_CREAT : O_RDWR, 0600);
        if (file < 0) return;
        if (!make || ftruncate(file, off_t(bytes)) == 0)
            at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    Shared(const Shared&) = delete;
    ~Shared() {
        if (at_ != MAP_FAILED) munmap(at_, bytes_);
    }
    void* at() const { return at_ == MAP_FAILED ? nullptr : at_; }
    void unlink() const { shm_unlink(name_.c_str()); }

  private:
    std::string name_;
    size_t bytes_;
    void* at_ = MAP_FAILED;
};

}  // namespace mock
