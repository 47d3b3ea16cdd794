// What was called: a line of text per call, in a file per process that Python reads afterwards.
//
//   N  id  name                      a kernel's mangled name, or an API's, at its first use
//   S  id  file \t function \t line | ...   a stack of Python, innermost first, at its first use
//   H  stack                         who waits for the calls that come without a line of a person
//   C  kind api kernel device stream grid block shared bytes start end begin finish stack
//
// start and end are the host's, begin and finish the device's (0 where it has no part), all in ns.
// A process that is killed leaves the lines up to the last flush; a reader drops a torn one.
#pragma once
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <unordered_map>

#include "device.h"
#include "python_line.h"

namespace mock {

struct Call {
    char kind;  // k kernel, c copy, m memset, s synchronisation, a allocation, e event, g graph, n NCCL
    const char* api;
    const char* kernel = "";
    int device = 0, stream = 0;
    dim3 grid{0, 0, 0}, block{0, 0, 0};
    size_t shared = 0, bytes = 0;
    Ns start = 0, end = 0, begin = 0, finish = 0;
};

class Log {
  public:
    void write(const Call& call);
    void flush();
    void note_line() { buffer += "H\t" + std::to_string(stack_id()) + "\n"; }

  private:
    static constexpr int DEPTH = 48;
    int name_id(const char* name);
    int stack_id();
    int define_stack(const onelayer_place* places, int n);
    void open_file();
    int file = -1;
    std::string buffer;
    std::unordered_map<const void*, int> names;  // by address: all names live as long as the process
    std::unordered_map<uint64_t, int> stacks;
};

inline Log call_log;

inline void Log::open_file() {
    std::string folder = setting("ONELAYER_MOCK_FOLDER", "");
    if (folder.empty()) return;
    std::string path = folder + "/calls-" + std::to_string(getpid()) + ".tsv";
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    static bool once = false;
    if (once) return;
    once = true;
    atexit([] { call_log.flush(); });
    // A child writes a file of its own, and nothing of what its parent had not yet written.
    pthread_atfork(nullptr, nullptr, [] { call_log.~Log(), new (&call_log) Log; });
}

inline void Log::flush() {
    for (size_t at = 0; file >= 0 && at < buffer.size();) {
        ssize_t n = ::write(file, buffer.data() + at, buffer.size() - at);
        if (n <= 0) break;
        at += size_t(n);
    }
    buffer.clear();
}

inline int Log::name_id(const char* name) {
    auto [it, fresh] = names.try_emplace(name, int(names.size()));
    if (fresh) buffer += "N\t" + std::to_string(it->second) + "\t" + name + "\n";
    return it->second;
}

inline int Log::define_stack(const onelayer_place* places, int n) {
    int id = int(stacks.size());
    buffer += "S\t" + std::to_string(id);
    char text[600];
    for (int i = 0; i < n; i++) {
        onelayer_python_name(places[i].code, text, sizeof text);
        buffer += (i ? "|" : "\t") + std::string(text) + "\t" + std::to_string(places[i].line);
    }
    buffer += '\n';
    return id;
}

inline int Log::stack_id() {
    onelayer_place places[DEPTH];
    int n = onelayer_python_lines(places, DEPTH);
    if (!n) return -1;  // a thread of the autograd engine
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < n; i++)
        hash = (hash ^ uint64_t(places[i].code) ^ (uint64_t(places[i].line) << 48)) * 1099511628211u;
    auto found = stacks.find(hash);
    if (found != stacks.end()) return found->second;
    int id = define_stack(places, n);
    stacks[hash] = id;
    return id;
}

inline void Log::write(const Call& c) {
    if (file < 0 && buffer.empty()) open_file();
    if (file < 0) return;
    int api = name_id(c.api), kernel = name_id(c.kernel), stack = stack_id();
    char line[400];
    int n = snprintf(line, sizeof line,
                     "C\t%c\t%d\t%d\t%d\t%d\t%u,%u,%u\t%u,%u,%u\t%zu\t%zu\t%lu\t%lu\t%lu\t%lu\t%d\n", c.kind,
                     api, kernel, c.device, c.stream, c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y,
                     c.block.z, c.shared, c.bytes, c.start, c.end, c.begin, c.finish, stack);
    buffer.append(line, size_t(n));
    if (buffer.size() > 1 << 16) flush();
}

}  // namespace mock
