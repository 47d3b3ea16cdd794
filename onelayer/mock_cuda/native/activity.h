// What CUPTI is told of a call, so that torch.profiler shows it. cupti.cpp writes the records.
#pragma once
#include "log.h"

namespace mock {

// A piece of a stream's work, as it was scheduled.
struct Done {
    Call call;
    int copy_kind = 0;  // cudaMemcpyKind of a copy
    bool pinned = false;  // the host's side of it
};

// Tells of one call of the API `cbid` and of the work that it gave to streams.
void tell_cupti(int cbid, bool driver, Ns start, Ns end, const Done* done, size_t count);

}  // namespace mock
