// inclusive_scan(group, value, operator): what the threads up to and with this one give together;
// exclusive_scan: without this one, and zero for the first.
#pragma once
#include "cooperative_groups/reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operator>
T inclusive_scan(const Group& group, T value, Operator&& combine, ONELAYER_LINE) {
    for (unsigned by = 1; by < group.size(); by *= 2) {
        T before = group.shfl_up(value, by, line);
        if (group.thread_rank() >= by) value = combine(before, value);
    }
    return value;
}
template <class Group, class T> T inclusive_scan(const Group& group, T value, ONELAYER_LINE) {
    return inclusive_scan(group, value, plus<T>(), line);
}
template <class Group, class T, class Operator>
T exclusive_scan(const Group& group, T value, Operator&& combine, ONELAYER_LINE) {
    T before = group.shfl_up(inclusive_scan(group, value, combine, line), 1, line);
    return group.thread_rank() ? before : T();
}
template <class Group, class T> T exclusive_scan(const Group& group, T value, ONELAYER_LINE) {
    return exclusive_scan(group, value, plus<T>(), line);
}

}  // namespace cooperative_groups
