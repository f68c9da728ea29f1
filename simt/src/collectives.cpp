// SPDX-License-Identifier: MIT
// Collectives and barriers: the lanes that wait for each other, and the result of each lane.
#include "block.h"
#include <cstring>

namespace simt {

template <typename Each>
static void for_each_lane(unsigned mask, Each each) {
    for (; mask; mask &= mask - 1) each(unsigned(__builtin_ctz(mask)));
}

// The lane that `lane` reads, as PTX defines shfl.sync.
SIMT_INLINE unsigned source(Collective collective, unsigned lane, unsigned operand, unsigned width) {
    const unsigned first = lane & ~(width - 1), last = first + width - 1;
    if (collective == Collective::shfl) return first | (operand & (width - 1));
    if (collective == Collective::shfl_up) return operand <= lane - first ? lane - operand : lane;
    const unsigned from = collective == Collective::shfl_down ? lane + operand : lane ^ operand;
    return from <= last ? from : lane;
}

static void reduce(const Warp &warp, Kind kind, unsigned mask) {
    unsigned sum = unsigned(warp.value[__builtin_ctz(mask)]);
    for_each_lane(mask & (mask - 1), [&](unsigned lane) {
        const unsigned v = unsigned(warp.value[lane]);
        const bool less = kind.type == Type::i32 ? int(v) < int(sum) : v < sum;
        const Collective c = kind.collective;
        sum = c == Collective::reduce_add   ? sum + v
              : c == Collective::reduce_min ? (less ? v : sum)
              : c == Collective::reduce_max ? (less ? sum : v)
              : c == Collective::reduce_and ? sum & v
              : c == Collective::reduce_or  ? sum | v
                                            : sum ^ v;
    });
    for_each_lane(mask, [&](unsigned lane) { warp.lane[lane].result = sum; });
}

// Sets the results of all lanes of the group when the last one has arrived. The group still exists, so that
// a refusal can describe it.
void Block::complete(Lane &lane, const Group &group) {
    const Warp &warp = *lane.warp;
    const unsigned mask = group.mask;
    const Collective collective = group.kind.collective;
    if (collective == Collective::syncwarp) {
        counters_.warp_syncs++;
        return;
    }
    if (collective <= Collective::shfl_xor) {
        const std::uint64_t width = warp.operand[lane.index] >> 32;
        bool widths_differ = false;
        for_each_lane(mask, [&](unsigned l) { widths_differ |= warp.operand[l] >> 32 != width; });
        if (widths_differ) {
            report(lane, "lanes of one shuffle pass different widths");
            abandon();
        }
        if (width == 0 || width > lanes_per_warp || (width & (width - 1)) != 0) {
            report(lane, "a shuffle of width " + std::to_string(int(width)) +
                             ": the width must be a power of two from 1 to 32");
            abandon();
        }
        // lanes that read one outside the mask, and those that they read
        unsigned readers = 0, absent = 0;
        for_each_lane(mask, [&](unsigned l) {
            const unsigned from = source(collective, l, unsigned(warp.operand[l]), unsigned(width));
            warp.lane[l].result = warp.value[from];
            if (mask >> from & 1) return;
            readers |= 1u << l;
            absent |= 1u << from;
        });
        if (absent) {
            report(lane,
                   "a shuffle reads absent lanes: " + lanes_text(readers) + " from " + lanes_text(absent) +
                       (absent & ~warp.existing ? ", beyond the block's last thread" : ", outside the mask"));
            abandon();
        }
        counters_.shuffles++;
        return;
    }
    counters_.votes++;
    if (collective <= Collective::ballot) {
        unsigned ballot = 0;
        for_each_lane(mask, [&](unsigned l) { ballot |= unsigned(warp.value[l]) << l; });
        const unsigned result = collective == Collective::ballot ? ballot
                                : collective == Collective::any  ? ballot != 0
                                                                 : ballot == mask;
        for_each_lane(mask, [&](unsigned l) { warp.lane[l].result = result; });
        return;
    }
    if (collective > Collective::match_all) {
        reduce(warp, group.kind, mask);
        counters_.reductions++;
        return;
    }
    // The lanes with the value of each.
    for (unsigned rest = mask; rest;) {
        const std::uint64_t value = warp.value[__builtin_ctz(rest)];
        unsigned same = 0;
        for_each_lane(rest, [&](unsigned l) { same |= unsigned(warp.value[l] == value) << l; });
        const unsigned result = collective == Collective::match_any || same == mask ? same : 0;
        for_each_lane(same, [&](unsigned l) { warp.lane[l].result = result; });
        rest &= ~same;
    }
    counters_.matches++;
}

// Reports a mask that is wrong whatever the other lanes do.
void Block::report_mask(const Lane &lane, Kind kind, unsigned mask) {
    const std::string call =
        lanes_text(lane.bit) + " calls " + kind_text(kind) + " with mask " + hex_text(mask);
    report(lane, mask & lane.bit
                     ? "a mask contains lanes beyond the block's last thread: " + call +
                           ", but the warp does not have " + lanes_text(mask & ~lane.warp->existing)
                     : "a lane is not in its own mask: " + call);
}

bool Block::promises_kept(const Lane &lane, unsigned mask) {
    Lane *const lanes = lane.warp->lane;
    bool kept = true;
    for_each_lane(mask, [&](unsigned l) {
        for (unsigned i = 0; i < lanes[l].promises; i++) {
            const Promise &mine = lanes[l].promise[i];
            if (!mine.text) continue;
            // Compared with the first lane's, for equal keys with those of all lanes below.
            for_each_lane(mine.among_equal_keys ? mask & ((1u << l) - 1) : mask & -mask, [&](unsigned other) {
                for (unsigned j = 0; kept && j < lanes[other].promises; j++) {
                    const Promise &its = lanes[other].promise[j];
                    if (its.text != mine.text || its.key != mine.key || its.value == mine.value) continue;
                    report(lane, mine.text + (": " + lanes_text(1u << l | 1u << other)));
                    kept = false;
                }
            });
        }
    });
    for_each_lane(mask, [&](unsigned l) { lanes[l].promises = 0; });
    return kept;
}

// Whether CUDA defines the collective for a mask with lanes that have exited: "all non-exited threads named in mask must
// execute the same intrinsic". A shuffle or a reduction would read them. coalesced_threads has no mask.
static bool may_miss_exited(Kind kind) {
    const Collective c = kind.collective;
    return c == Collective::syncwarp || (c >= Collective::all && c <= Collective::match_all);
}

SIMT_INLINE Lane &Block::meet(Lane &lane, Kind kind, unsigned mask, std::uint64_t value,
                              std::uint64_t operand, Place place) {
    Warp &warp = *lane.warp;
    warp.kind[lane.index] = kind;
    step(lane, place);
    if (!(mask & lane.bit) || (mask & ~warp.existing)) {
        report_mask(lane, kind, mask);
        abandon();
    }
    warp.value[lane.index] = value;
    warp.operand[lane.index] = operand;

    Group *group = warp.group;
    Group *const stop = warp.group + warp.groups;
    while (group != stop && (group->mask != mask || group->kind != kind)) group++;
    if (group == stop) {
        *group = {kind, mask, 0, !may_miss_exited(kind)};
        warp.groups++;
    }
    group->arrived |= lane.bit;
    group->whole |= lane.call.file != nullptr;
    if (group->arrived != (group->whole ? mask : mask & ~warp.exited)) return wait(lane);
    if (lane.promises && !promises_kept(lane, mask)) abandon();
    end(warp, group, lane.index);
    return random_ ? *random_lane() : lane;
}

// Ends the wait of a group whose lanes have come, `one` among them.
void Block::end(Warp &warp, Group *group, unsigned one) {
    group->mask = group->arrived;
    const unsigned mask = group->mask;
    complete(warp.lane[one], *group);
    *group = warp.group[--warp.groups];
    if (launch_->settings.counting) warp.instructions.meet(mask);
    set_ready(warp, mask);
}

// Lanes at another kind of barrier keep waiting. report_stuck() finds them when no lane can run.
SIMT_INLINE Lane &Block::barrier(Lane &lane, Collective collective, bool predicate, Place place) {
    Warp &warp = *lane.warp;
    warp.kind[lane.index] = {collective};
    step(lane, place);
    Barrier &here = barrier_of(collective);
    here.sum += predicate;
    here.whole |= lane.call.file != nullptr;
    warp.at_barrier |= lane.bit;
    if (++here.arrived != (here.whole ? threads_ : live_)) return wait(lane);
    end_barrier(collective);
    return random_ ? *random_lane() : lane;
}

void Block::end_barrier(Collective collective) {
    Barrier &here = barrier_of(collective);
    const int result = collective == Collective::syncthreads_count ? int(here.sum)
                       : collective == Collective::syncthreads_and ? here.sum == here.arrived
                                                                   : here.sum != 0;
    if (collective != Collective::syncthreads)
        for (unsigned t = 0; t < threads_; t++) lane_[t].result = std::uint64_t(result);
    here = {0, 0, false};
    counters_.barriers++;
    for (unsigned w = 0; w < warps_; w++) {
        warp_[w].at_barrier = 0;
        if (launch_->settings.counting) warp_[w].instructions.meet(~0u);
        const unsigned lanes = warp_[w].existing & ~warp_[w].exited;
        if (lanes) set_ready(warp_[w], lanes);
    }
}

void Block::leave(Warp &warp) {
    for (unsigned g = warp.groups; g-- > 0;) {
        Group &group = warp.group[g];
        if (!group.whole && group.arrived == (group.mask & ~warp.exited))
            end(warp, &group, unsigned(__builtin_ctz(group.arrived)));
    }
    for (unsigned b = 0; b < 4; b++)
        if (barrier_[b].arrived != 0 && !barrier_[b].whole && barrier_[b].arrived == live_)
            end_barrier(Collective(unsigned(Collective::syncthreads) + b));
}

// A group for each line of the kernel. Its mask grows with each lane that arrives.
Lane &Block::coalesce(Lane &lane, Place place) {
    Warp &warp = *lane.warp;
    const Kind kind = {Collective::coalesced_threads};
    warp.kind[lane.index] = kind;
    step(lane, place);
    Group *group = warp.group;
    Group *const end = warp.group + warp.groups;
    const auto same_line = [&](unsigned waiting) {
        const Place other = warp.place[__builtin_ctz(waiting)];
        return other.line == place.line && std::strcmp(other.file, place.file) == 0;
    };
    while (group != end && (group->kind != kind || !same_line(group->arrived))) group++;
    if (group == end) {
        *group = {kind, 0, 0, true};
        warp.groups++;
    }
    group->mask = group->arrived |= lane.bit;
    warp.coalescing |= lane.bit;
    warp.spins = 0;
    Lane &next = wait(lane);
    // Lanes that arrive later form another group.
    if (!random_ || random(16) != 0 || !warp.coalescing) return next;
    release_coalescing(warp);
    return *random_lane();
}

void Block::release_coalescing(Warp &warp) {
    for (unsigned g = warp.groups; g-- > 0;) {
        const Group group = warp.group[g];
        if (group.kind.collective != Collective::coalesced_threads) continue;
        warp.group[g] = warp.group[--warp.groups];
        for_each_lane(group.mask, [&](unsigned l) { warp.lane[l].result = group.mask; });
        counters_.votes++;
        if (launch_->settings.counting) warp.instructions.meet(group.mask);
    }
    set_ready(warp, warp.coalescing);
    warp.coalescing = 0;
}

// ---- called by kernels

void leave_call() {
    Lane &lane = running();
    lane.warp->place[lane.index] = lane.call;
    lane.call = {};
    lane.promises = 0;
}

Switched enter_collective(Kind kind, unsigned mask, std::uint64_t value, std::uint64_t operand, Place place) {
    Lane &lane = running();
    return Block::switch_lane(lane, lane.warp->block->meet(lane, kind, mask, value, operand, place));
}

Switched enter_barrier(Collective collective, bool predicate, Place place) {
    Lane &lane = running();
    return Block::switch_lane(lane, lane.warp->block->barrier(lane, collective, predicate, place));
}

Switched enter_coalesced_threads(Place place) {
    Lane &lane = running();
    return Block::switch_lane(lane, lane.warp->block->coalesce(lane, place));
}

} // namespace simt

unsigned __activemask() {
    return simt::running().bit;
}
