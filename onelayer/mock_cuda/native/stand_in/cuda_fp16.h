// cuBLAS's header names this type and nothing of it; CUDA's own header needs files of nvcc.
#pragma once
struct __half {
    unsigned short x;
};
struct __half2 {
    __half x, y;
};
