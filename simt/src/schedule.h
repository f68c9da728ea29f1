// SPDX-License-Identifier: MIT
// The choice of the lane to run next. Inline, because every lane runs this code at every collective.
#ifndef SIMT_SCHEDULE_H
#define SIMT_SCHEDULE_H

#include "block.h"

#define SIMT_INLINE inline __attribute__((always_inline))

namespace simt {

SIMT_INLINE Lane *Block::next_lane_in_order(const Lane &from, bool stay_in_warp) {
    const Warp &warp = *from.warp;
    const unsigned later = warp.ready & ~(from.bit | (from.bit - 1));
    const unsigned in_warp = later ? later : stay_in_warp ? warp.ready : 0;
    if (in_warp) return &lane_[warp.index * lanes_per_warp + unsigned(__builtin_ctz(in_warp))];
    if (!ready_warps_) return nullptr;
    const unsigned this_and_before = (2u << warp.index) - 1;
    const unsigned later_warps = ready_warps_ & ~this_and_before;
    const unsigned w = unsigned(__builtin_ctz(later_warps ? later_warps : ready_warps_));
    return &lane_[w * lanes_per_warp + unsigned(__builtin_ctz(warp_[w].ready))];
}

SIMT_INLINE Lane *Block::next_lane(const Lane &from) {
    return random_ ? random_lane() : next_lane_in_order(from, true);
}

SIMT_INLINE void Block::rest(Warp &warp) {
    if (warp.coalescing)
        release_coalescing(warp);
    else
        ready_warps_ &= ~(1u << warp.index);
}

SIMT_INLINE Lane &Block::wait(Lane &lane) {
    Warp &warp = *lane.warp;
    warp.ready &= ~lane.bit;
    if (!warp.ready) rest(warp);
    Lane *to = next_lane(lane);
    if (!to) refuse_waiting(lane);
    return *to;
}

SIMT_INLINE void Block::set_ready(Warp &warp, unsigned lanes) {
    warp.ready |= lanes;
    ready_warps_ |= 1u << warp.index;
}

SIMT_INLINE void Block::step(const Lane &lane) {
    if (--steps_left_ == 0) refuse_steps(lane);
}

} // namespace simt

#endif
