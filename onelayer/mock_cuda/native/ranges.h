// Ranges of addresses, and what is known of each: who owns it, and whether a number is there.
#pragma once
#include <cstddef>
#include <map>
#include <string>

namespace mock {

// Ranges that do not overlap, each with a value; found by any address inside.
template <class T>
class Ranges {
  public:
    struct Range {
        size_t bytes;
        T value;
    };
    void put(const void* at, size_t bytes, T value) { kept_[at_(at)] = {bytes, std::move(value)}; }
    void drop(const void* at) { kept_.erase(at_(at)); }
    Range* find(const void* at, const void** begin = nullptr) {
        auto it = kept_.upper_bound(at_(at));
        if (it == kept_.begin()) return nullptr;
        --it;
        if (at_(at) >= it->first + it->second.bytes) return nullptr;
        if (begin) *begin = it->first;
        return &it->second;
    }
    // Forgets what is inside [at, at + bytes); a range that reaches beyond keeps the rest.
    void cut(const void* at, size_t bytes) {
        const char *low = at_(at), *high = low + bytes;
        split_(low), split_(high);
        kept_.erase(kept_.lower_bound(low), kept_.lower_bound(high));
    }
    // The first range that shares an address with [at, at + bytes), or nullptr.
    Range* touching(const void* at, size_t bytes) {
        if (Range* r = bytes ? find(at) : nullptr) return r;
        auto it = kept_.lower_bound(at_(at));
        return it != kept_.end() && it->first < at_(at) + bytes ? &it->second : nullptr;
    }
    void clear() { kept_.clear(); }

  private:
    static const char* at_(const void* p) { return static_cast<const char*>(p); }
    void split_(const char* at) {
        const void* begin;
        Range* r = find(at, &begin);
        if (!r || at_(begin) == at) return;
        size_t before = size_t(at - at_(begin));
        kept_[at] = {r->bytes - before, r->value};
        r->bytes = before;
    }
    std::map<const char*, Range> kept_;
};

}  // namespace mock
