// The numbers of collectives: reductions in the order of the ranks, in the type that was sent.
#pragma once
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace mock {

inline size_t itemsize_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8: return 1;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        case ncclInt64:
        case ncclUint64:
        case ncclFloat64: return 8;
        default: return 4;
    }
}

struct Bfloat16 {
    uint16_t bits;
    operator float() const {
        uint32_t wide = uint32_t(bits) << 16;
        float value;
        return memcpy(&value, &wide, 4), value;
    }
    Bfloat16() = default;
    Bfloat16(float value) {  // rounds to nearest, ties to even
        uint32_t wide;
        memcpy(&wide, &value, 4);
        bits = uint16_t((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16);
    }
};

// As IEEE 754 has it: 5 bits of exponent, 10 of fraction.
struct Half {
    uint16_t bits;
    operator float() const {
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        float sign = bits & 0x8000 ? -1.0f : 1.0f;
        if (exponent == 31) return fraction ? std::nanf("") : sign * INFINITY;
        return sign * (exponent ? std::ldexp(1024.0f + float(fraction), exponent - 25) : std::ldexp(float(fraction), -24));
    }
    Half() = default;
    Half(float value) : bits(rounded(value)) {}

    // To nearest, ties to even; from 65,520 on it is infinite.
    static uint16_t rounded(float value) {
        uint32_t sign = std::signbit(value) ? 0x8000 : 0;
        float size = std::fabs(value);
        if (std::isnan(value)) return 0x7E00;
        if (size >= 65520.0f) return uint16_t(sign | 0x7C00);
        int exponent = std::max(std::ilogb(std::max(size, 1e-30f)), -14);
        auto steps = uint32_t(std::nearbyint(std::ldexp(size, 10 - exponent)));
        return uint16_t(sign | ((uint32_t(exponent + 14) << 10) + steps));  // a carry grows the exponent
    }
};

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
    if (op == ncclProd) return T(a * b);
    if (op == ncclMax) return a < b ? b : a;
    if (op == ncclMin) return b < a ? b : a;
    return T(a + b);
}

template <class T>
void reduce_as(ncclRedOp_t op, const std::vector<const char*>& inputs, char* out, size_t count) {
    T* to = reinterpret_cast<T*>(out);
    for (size_t i = 0; i < count; i++) {
        T value = reinterpret_cast<const T*>(inputs[0])[i];
        for (size_t r = 1; r < inputs.size(); r++)
            value = combine<T>(op, value, reinterpret_cast<const T*>(inputs[r])[i]);
        to[i] = op == ncclAvg ? T(value / T(float(inputs.size()))) : value;
    }
}

// False for a type or an operation that nobody computes here.
inline bool reduce(ncclRedOp_t op, ncclDataType_t type, const std::vector<const char*>& inputs, char* out,
                   size_t count) {
    if (op > ncclAvg) return false;
    switch (type) {
        case ncclFloat32: return reduce_as<float>(op, inputs, out, count), true;
        case ncclFloat64: return reduce_as<double>(op, inputs, out, count), true;
        case ncclFloat16: return reduce_as<Half>(op, inputs, out, count), true;
        case ncclBfloat16: return reduce_as<Bfloat16>(op, inputs, out, count), true;
        case ncclInt32: return reduce_as<int32_t>(op, inputs, out, count), true;
        case ncclInt64: return reduce_as<int64_t>(op, inputs, out, count), true;
        case ncclUint8: return reduce_as<uint8_t>(op, inputs, out, count), true;
        default: return false;
    }
}

}  // namespace mock
