// On a GPU a failed assert stops the launch, not the process. No include guard: like the original,
// it follows NDEBUG anew each time.
#include "onelayer_cuda/assertion.h"
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : onelayer_assertion_failed(#condition, __LINE__))
#endif
