// SPDX-License-Identifier: MIT
// Atomics and other points where lanes need not wait, but others may run.
#include "schedule.h"

namespace simt {

// In the fixed order a lane is switched out only now and then: so that what it spins on can change.
static constexpr unsigned atomics_in_order = 256;

SIMT_INLINE void Block::yield(Lane &lane, Place place) {
    lane.warp->place[lane.index] = place;
    step(lane);
    // An earlier block was refused: what this one waits for may never come.
    if (launch_->refused_block.load(std::memory_order_relaxed) < index_) abandon();
    atomics_in_a_row_ = 0;
    result_after(go_on(lane, random_ ? *draw() : *next_in_order(lane, false)));
}

bool Block::begin_atomic(Lane &lane, const void *address, std::size_t bytes, Place place) {
    Warp &warp = *lane.warp;
    warp.place[lane.index] = place;
    step(lane);
    if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
        report(lane, "an atomic on a misaligned address", Scope::warp);
        abandon();
    }
    if (launch_->settings.counting) {
        counters_.atomic_requests++;
        counters_.atomic_bytes += bytes;
        counters_.atomic_instructions += warp.instructions.issue(lane.index, place);
    }
    if (!random_) {
        if (++atomics_in_a_row_ >= atomics_in_order) yield(lane, place);
        return false;
    }
    const unsigned drawn = random(8);
    if (drawn & 1) yield(lane, place);
    return drawn & 2;
}

void Block::trap(const Lane &lane, Place place) {
    lane.warp->place[lane.index] = place;
    report(lane, "__trap() was called", Scope::warp);
    abandon();
}

// ---- what kernels call

void yield(Place place) {
    Lane &lane = running();
    lane.warp->block->yield(lane, place);
}

bool begin_atomic(const void *address, std::size_t bytes, Place place) {
    Lane &lane = running();
    return lane.warp->block->begin_atomic(lane, address, bytes, place);
}

void trap(Place place) {
    const Lane &lane = running();
    lane.warp->block->trap(lane, place);
}

} // namespace simt
