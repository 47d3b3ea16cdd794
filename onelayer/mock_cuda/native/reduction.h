// The numbers of collectives: reductions in the order of the ranks, in the type that was sent.
#pragma once
#include <nccl.h>

#include <algorithm>
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
        case ncclBfloat16: return reduce_as<Bfloat16>(op, inputs, out, count), true;
        case ncclInt32: return reduce_as<int32_t>(op, inputs, out, count), true;
        case ncclInt64: return reduce_as<int64_t>(op, inputs, out, count), true;
        case ncclUint8: return reduce_as<uint8_t>(op, inputs, out, count), true;
        default: return false;
    }
}

}  // namespace mock
