// What stands before a source that `load_cpp` builds. The library blocks of the source are noted
// down instead of being registered while the file is loaded: an exception there would end the
// process, and a namespace could be used once. `onelayer_register` registers all of them.
#pragma once
#include <torch/csrc/stable/library.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace onelayer {
using Library = torch::stable::detail::StableLibrary;

struct Block {
  Library::Kind kind;
  const char* ns;
  const char* key;
  const char* file;
  uint32_t line;
  void (*fill)(Library&);
};

static std::vector<Block>& blocks() {
  static std::vector<Block> noted;
  return noted;
}

struct Noted {
  explicit Noted(const Block& block) { blocks().push_back(block); }
};

static bool is_ours(const char* ns) {
  for (const Block& block : blocks())
    if (block.kind == Library::Kind::DEF && !std::strcmp(block.ns, ns)) return true;
  return false;
}
}  // namespace onelayer

// The namespaces that this source defines, a line each.
extern "C" const char* onelayer_namespaces() {
  static std::string all;
  all.clear();
  for (const onelayer::Block& block : onelayer::blocks())
    if (block.kind == onelayer::Library::Kind::DEF) all += std::string(block.ns) + "\n";
  return all.c_str();
}

// Registers every block, `suffix` behind the namespaces of this source, for the rest of the
// process. Returns nothing, or what went wrong; then nothing is registered.
extern "C" const char* onelayer_register(const char* suffix) {
  static std::string wrong;
  std::vector<std::unique_ptr<onelayer::Library>> made;
  try {
    for (const onelayer::Block& block : onelayer::blocks()) {
      std::string ns = block.ns;
      if (onelayer::is_ours(block.ns)) ns += suffix;
      made.push_back(std::make_unique<onelayer::Library>(
          block.kind, ns.c_str(), block.key, block.file, block.line));
      block.fill(*made.back());
    }
  } catch (const std::exception& error) {
    wrong = error.what();
    return wrong.c_str();
  }
  for (auto& library : made) library.release();
  return nullptr;
}

#define ONELAYER_BLOCK(kind, ns, key, m, uid)                                       \
  static void C10_CONCATENATE(onelayer_fill_, uid)(onelayer::Library&);             \
  static const onelayer::Noted C10_CONCATENATE(onelayer_noted_, uid)(               \
      onelayer::Block{onelayer::Library::Kind::kind, ns, key, __FILE__, __LINE__,   \
                      &C10_CONCATENATE(onelayer_fill_, uid)});                      \
  static void C10_CONCATENATE(onelayer_fill_, uid)(onelayer::Library & m)

#undef STABLE_TORCH_LIBRARY
#undef STABLE_TORCH_LIBRARY_FRAGMENT
#undef STABLE_TORCH_LIBRARY_IMPL
#define STABLE_TORCH_LIBRARY(ns, m) ONELAYER_BLOCK(DEF, #ns, nullptr, m, C10_UID)
#define STABLE_TORCH_LIBRARY_FRAGMENT(ns, m) ONELAYER_BLOCK(FRAGMENT, #ns, nullptr, m, C10_UID)
#define STABLE_TORCH_LIBRARY_IMPL(ns, k, m) ONELAYER_BLOCK(IMPL, #ns, #k, m, C10_UID)
