// SPDX-License-Identifier: MIT
// Scheduling points at which a lane need not wait, but others may run: atomics, fences; and how atomics are counted.
#include "block.h"

namespace simt {

void add(simt_counters &sum, const simt_counters &c) {
    using C = simt_counters;
    for (auto counter : {&C::shuffles, &C::votes, &C::matches, &C::reductions, &C::warp_syncs, &C::barriers,
                         &C::atomic_requests, &C::atomic_instructions, &C::atomic_bytes})
        sum.*counter += c.*counter;
}

void Instruction_count::leave(unsigned mask) {
    for (std::size_t i = lines_.size(); i-- > 0;) {
        lines_[i].lanes &= ~mask;
        if (lines_[i].lanes) continue;
        lines_[i] = lines_.back();
        lines_.pop_back();
    }
}

Instruction_count::Line &Instruction_count::find(std::uint64_t meeting, Place place) {
    for (Line &line : lines_)
        if (line.meeting == meeting && line.place.line == place.line && line.place.file == place.file)
            return line;
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < 32; lane++) lanes |= unsigned(meeting_[lane] == meeting) << lane;
    lines_.push_back({meeting, place, lanes, 0, {}});
    return lines_.back();
}

// In the fixed order a lane yields after this many atomics in a row, so that a lane that spins on an address
// lets the others change it.
static constexpr unsigned atomics_before_yield = 256;
// Lanes at coalesced_threads wait for a lane of their warp at most this many yields of that lane: it may wait
// for one of them.
static constexpr unsigned spins_before_release = 256;

SIMT_INLINE void Block::yield(Lane &lane, Place place) {
    step(lane, place);
    // An earlier block was refused. This one may wait for it forever.
    if (launch_->refused_block.load(std::memory_order_relaxed) < index_) abandon();
    atomics_in_a_row_ = 0;
    Warp &warp = *lane.warp;
    if (warp.coalescing && (random_ ? random(16) == 0 : ++warp.spins == spins_before_release))
        release_coalescing(warp);
    result_after(switch_lane(lane, random_ ? *random_lane() : *next_lane_in_order(lane, false)));
}

bool Block::begin_atomic(Lane &lane, const void *address, std::size_t bytes, Place place) {
    Warp &warp = *lane.warp;
    step(lane, place);
    if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
        report(lane, "an atomic on a misaligned address");
        abandon();
    }
    if (launch_->settings.counting) {
        counters_.atomic_requests++;
        counters_.atomic_bytes += bytes;
        counters_.atomic_instructions += warp.instructions.issue(lane.index, place);
    }
    if (!random_) {
        if (++atomics_in_a_row_ >= atomics_before_yield) yield(lane, place);
        return false;
    }
    const unsigned bits = random(8);
    if (bits & 1) yield(lane, place);
    return bits & 2;
}

// ---- called by kernels

void yield(Place place) {
    Lane &lane = running();
    lane.warp->block->yield(lane, place);
}

bool begin_atomic(const void *address, std::size_t bytes, Place place) {
    Lane &lane = running();
    return lane.warp->block->begin_atomic(lane, address, bytes, place);
}

void refuse(const char *reason, Place place) {
    const Lane &lane = running();
    lane.warp->place[lane.index] = place;
    lane.warp->block->report(lane, reason);
    lane.warp->block->abandon();
}

} // namespace simt
