// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#pragma once

#include "../cooperative_groups.h"
#include "operators.h"

namespace cooperative_groups {

namespace detail {

template <typename Op>
struct Redux {
    static constexpr bool exists = false;
};
#define SIMT_REDUX(Op, name)                                                                                 \
    template <typename T>                                                                                    \
    struct Redux<Op<T>> {                                                                                    \
        static constexpr bool exists = std::is_integral<T>::value && sizeof(T) == 4;                         \
        static constexpr simt::Collective kind = simt::Collective::reduce_##name;                            \
    };
SIMT_REDUX(plus, add)
SIMT_REDUX(less, min)
SIMT_REDUX(greater, max)
SIMT_REDUX(bit_and, and)
SIMT_REDUX(bit_or, or)
SIMT_REDUX(bit_xor, xor)
#undef SIMT_REDUX

// All lanes exchange: log2(N) steps, a shuffle for every number of 4 or 8 bytes.
template <unsigned N, typename Parent, typename T, typename Op>
T reduce_by_shuffles(const thread_block_tile<N, Parent> &tile, T value, Op &op, simt::Place place) {
    for (unsigned distance = N / 2; distance > 0; distance /= 2) {
        const T other = tile.shfl_xor(value, distance, place);
        // the same order in both lanes, so that all lanes get the same bits
        value = tile.thread_rank() & distance ? op(other, value) : op(value, other);
    }
    return value;
}
// Rank 0 collects: steps of 1, 2, 4, ... ranks, then a broadcast.
template <typename T, typename Op>
T reduce_by_shuffles(const coalesced_group &group, T value, Op &op, simt::Place place) {
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
        const T other = group.shfl_down(value, distance, place);
        if (group.thread_rank() + distance < group.size()) value = op(value, other);
    }
    return group.size() > 1 ? group.shfl(value, 0, place) : value;
}

} // namespace detail

// op over the values of all lanes, in all lanes. A 32-bit integer with one of the six operators is one
// __reduce_*_sync on a coalesced_group and on tiles of 16 and 32 lanes; anything else are shuffles. A sum of
// floats depends on the order, which CUDA does not promise.
template <typename Group, typename T, typename Op>
T reduce(const Group &group, const T &value, Op op, SIMT_HERE) {
    using Known = detail::Redux<Op>;
    if constexpr (Known::exists && Group::prefers_redux) {
        // PTX has one form of and, or, xor for both signs.
        constexpr bool bitwise = Known::kind >= simt::Collective::reduce_and;
        using Word = std::conditional_t<std::is_signed<T>::value && !bitwise, int, unsigned>;
        return T(simt::compare(Known::kind, group.lanes(), Word(value), place));
    } else {
        return detail::reduce_by_shuffles(group, value, op, place);
    }
}

} // namespace cooperative_groups
