// The few words of CUDA's crt/host_defines.h that its API headers need from a host compiler. The
// original comes with nvcc; torch's wheels leave it out.
#pragma once
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDACC_PRIVATE
