// What the Python side says about this run, in environment variables: a child of the process, such
// as a rank of DDP, inherits them and sees the same devices.
#pragma once
#include <cstdlib>
#include <map>
#include <string>

namespace mock {

inline std::string setting(const char* name, const char* otherwise) {
    const char* value = getenv(name);
    return value ? value : otherwise;
}

// "a=1;b=2" -> {a: 1, b: 2}
inline std::map<std::string, std::string> parse_pairs(const std::string& text) {
    std::map<std::string, std::string> pairs;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find(';', at), text.size()), is = text.find('=', at);
        if (is < end) pairs[text.substr(at, is - at)] = text.substr(is + 1, end - is - 1);
        at = end + 1;
    }
    return pairs;
}

// Whether copies carry bytes and a mark is kept on what nothing computed. Without, no number is on
// the device at all, so that a model of 80 GB needs no memory here.
inline thread_local bool carrying = false;  // while ranks compare what they have

inline bool with_values() {
    static const bool on = setting("ONELAYER_MOCK_VALUES", "0") == "1";
    return on || carrying;
}

}  // namespace mock
