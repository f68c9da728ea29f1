// SPDX-License-Identifier: MIT
#include "counting.h"

namespace simt {

void add(simt_counters &sum, const simt_counters &c) {
    sum.shuffles += c.shuffles;
    sum.votes += c.votes;
    sum.matches += c.matches;
    sum.reductions += c.reductions;
    sum.warp_syncs += c.warp_syncs;
    sum.barriers += c.barriers;
    sum.atomic_requests += c.atomic_requests;
    sum.atomic_instructions += c.atomic_instructions;
    sum.atomic_bytes += c.atomic_bytes;
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

} // namespace simt
