// Which memory of the devices holds numbers that nothing computed, and who should have.
#pragma once
#include "ranges.h"

namespace mock {

inline const char* const UNWRITTEN = "";  // nobody wrote it: a kernel that reads it reads garbage
inline Ranges<std::string> marks;  // address -> the kernel that was launched and not computed

}  // namespace mock
