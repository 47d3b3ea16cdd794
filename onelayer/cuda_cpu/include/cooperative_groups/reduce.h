// reduce(group, value, operator): every thread of the group gets the result.
#pragma once
#include "cooperative_groups.h"

namespace cooperative_groups {

#define ONELAYER_OPERATOR(name, expression) \
    template <class T> struct name {        \
        T operator()(T x, T y) const { return expression; } \
    };
ONELAYER_OPERATOR(plus, x + y)
ONELAYER_OPERATOR(less, y < x ? y : x)
ONELAYER_OPERATOR(greater, x < y ? y : x)
ONELAYER_OPERATOR(bit_and, x & y)
ONELAYER_OPERATOR(bit_or, x | y)
ONELAYER_OPERATOR(bit_xor, x ^ y)
#undef ONELAYER_OPERATOR

// Neighbours first, then pairs of them: for sums of floats the order is part of the result.
template <unsigned Size, class Parent, class T, class Operator>
T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operator&& combine, ONELAYER_LINE) {
    for (unsigned with = 1; with < Size; with *= 2)
        value = combine(value, tile.shfl_xor(value, with, line));
    return value;
}

template <class T, class Operator>
T reduce(const coalesced_group& group, T value, Operator&& combine, ONELAYER_LINE) {
    T result = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); rank++)
        result = combine(result, group.shfl(value, (int)rank, line));
    return result;
}

}  // namespace cooperative_groups
