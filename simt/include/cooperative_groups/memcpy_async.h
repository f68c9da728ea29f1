// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name. The copy is complete for the calling thread when the call
// returns. Other threads see it after wait(), which is the group's barrier.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

// The threads of the group together copy `bytes` bytes.
template <typename Group, typename T>
void memcpy_async(const Group &group, T *to, const T *from, std::size_t bytes) {
    const std::size_t size = std::size_t(group.size());
    for (std::size_t i = std::size_t(group.thread_rank()); i < bytes; i += size)
        reinterpret_cast<char *>(to)[i] = reinterpret_cast<const char *>(from)[i];
}
template <typename Group>
void wait(const Group &group, SIMT_HERE) {
    group.sync(place);
}
// Waits for all copies but the last `Stages`; here for all.
template <unsigned Stages, typename Group>
void wait_prior(const Group &group, SIMT_HERE) {
    group.sync(place);
}

} // namespace cooperative_groups
