// What the C library does to memory is watched, too. Before any header of the standard library:
// std::copy calls its memmove by the compiler's own name for it.
#pragma once
#if defined(ONELAYER_CHECK) && !defined(ONELAYER_RUNTIME)
extern "C" void* memcpy(void*, const void*, size_t) noexcept __asm__("onelayer_watched_memcpy");
extern "C" void* memmove(void*, const void*, size_t) noexcept __asm__("onelayer_watched_memmove");
extern "C" void* memset(void*, int, size_t) noexcept __asm__("onelayer_watched_memset");
#define __builtin_memmove memmove
#endif
