// The kernel that stands for a library's matrix product. A real library picks one of thousands, by
// rules that only it knows: the name here says type, layout and shape instead, and that it is mocked.
#include "gemm.h"

namespace mock {

constexpr unsigned TILE = 128;  // rows and columns of C per block, as large products have it

double itemsize_of(cudaDataType type) {
    switch (type) {
        case CUDA_C_64F: return 16;
        case CUDA_R_64F:
        case CUDA_C_32F: return 8;
        case CUDA_R_16F:
        case CUDA_R_16BF: return 2;
        case CUDA_R_8I:
        case CUDA_R_8F_E4M3:
        case CUDA_R_8F_E5M2: return 1;
        default: return 4;
    }
}

static const char* type_name(cudaDataType type) {
    switch (type) {
        case CUDA_R_32F: return "f32";
        case CUDA_R_64F: return "f64";
        case CUDA_R_16F: return "f16";
        case CUDA_R_16BF: return "bf16";
        case CUDA_C_32F: return "c64";
        case CUDA_C_64F: return "c128";
        case CUDA_R_8F_E4M3:
        case CUDA_R_8F_E5M2: return "f8";
        default: return "i8";
    }
}

static bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

static Precision precision_of(const Gemm& g) {
    if (g.type == CUDA_R_64F || g.type == CUDA_C_64F) return FP64;
    if (itemsize_of(g.type) <= 2) return HALF;
    return g.tf32 ? TF32 : FP32;
}

static unsigned tiles(long extent) { return unsigned((std::max(extent, 1L) + TILE - 1) / TILE); }

static std::string name_of(const char* call, const Gemm& g) {
    char text[160];
    const char* type = g.tf32 ? "tf32" : type_name(g.type);
    int n = snprintf(text, sizeof text, "mocked_%s_%s_%c%c_m%ld_n%ld_k%ld", call, type, "nt"[g.a != 0],
                     "nt"[g.b != 0], g.m, g.n, g.k);
    if (g.batch > 1) snprintf(text + n, sizeof text - size_t(n), "_b%ld", g.batch);
    return text;
}

cudaError_t launch_gemm(const char* call, const Gemm& g, cudaStream_t stream) {
    RUNTIME('k', cudaLaunchKernel, v7000);
    Launch what{kept_name(name_of(call, g)), dim3(tiles(g.m), tiles(g.n), unsigned(g.batch)), dim3(256)};
    double m = double(g.m), n = double(g.n), k = double(g.k), batch = double(g.batch);
    what.bytes = itemsize_of(g.type) * batch * (m * k + k * n + m * n);
    what.flops = (is_complex(g.type) ? 8 : 2) * batch * m * n * k;
    what.precision = precision_of(g);
    return launch(api, what, stream);
}

}  // namespace mock
