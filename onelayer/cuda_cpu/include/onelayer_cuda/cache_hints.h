// Loads and stores that say how long to keep a line in which cache. Nothing here has such a cache:
// each is the plain load or store, watched as one.
#pragma once

namespace onelayer_cuda {
template <class T> struct Same { using type = T; };  // no type is guessed from this argument
}

#define ONELAYER_LOAD(name) \
    template <class T> static inline __attribute__((always_inline)) T name(const T* at) { return *at; }
#define ONELAYER_STORE(name)                                                \
    template <class T> static inline __attribute__((always_inline)) void    \
    name(T* at, typename onelayer_cuda::Same<T>::type value) { *at = value; }
ONELAYER_LOAD(__ldg)   // through the cache of what nobody writes
ONELAYER_LOAD(__ldca)  // keep in L1 and L2
ONELAYER_LOAD(__ldcg)  // keep in L2 only
ONELAYER_LOAD(__ldcs)  // read once: first to go
ONELAYER_LOAD(__ldlu)  // the last use
ONELAYER_LOAD(__ldcv)  // fetch again
ONELAYER_STORE(__stwb)
ONELAYER_STORE(__stcg)
ONELAYER_STORE(__stcs)
ONELAYER_STORE(__stwt)
#undef ONELAYER_LOAD
#undef ONELAYER_STORE
