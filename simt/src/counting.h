// SPDX-License-Identifier: MIT
// Sums of counters, and the number of atomic instructions that a warp issues.
//
// A meeting is a completed collective or barrier. Lanes whose last meeting is the same and that execute the
// same source line for the n-th time since are one instruction. So between two meetings, a line is as many
// instructions as the largest number of times a lane executes it. Example: after a __syncwarp(), lane l
// executes an atomicAdd l % 4 times; this counts as 3 instructions. The count does not depend on the order in
// which lanes run.
#ifndef SIMT_COUNTING_H
#define SIMT_COUNTING_H

#include "simt.h"
#include "simt/kernel.h"
#include <cstdint>
#include <vector>

namespace simt {

void add(simt_counters &sum, const simt_counters &c);

class Instruction_count {
  public:
    // The block begins, which counts as a meeting of all lanes.
    void reset() {
        lines_.clear();
        meet(~0u);
    }
    // `lane` executes an atomic at `place`. Returns true if it is a new instruction, false if it is part of
    // one that another lane began.
    bool issue(unsigned lane, Place place) {
        Line &line = find(meeting_[lane], place);
        const unsigned times = ++line.times[lane];
        if (times <= line.most) return false;
        line.most = times;
        return true;
    }
    // The lanes of `mask` complete a collective or barrier.
    void meet(unsigned mask) {
        if (!lines_.empty()) leave(mask);
        meetings_++;
        for (unsigned lane = 0; lane < 32; lane++)
            meeting_[lane] = mask >> lane & 1 ? meetings_ : meeting_[lane];
    }
    // The lanes of `mask` execute no more atomics after their last meeting.
    void leave(unsigned mask);

  private:
    // The executions of one source line after one meeting.
    struct Line {
        std::uint64_t meeting;
        Place place;
        unsigned lanes;     // lanes that may execute it again
        unsigned most;      // the maximum of `times`
        unsigned times[32]; // executions by each lane
    };
    Line &find(std::uint64_t meeting, Place place);

    std::vector<Line> lines_; // short: only meetings that are the last one of some lane
    std::uint64_t meetings_ = 0;
    std::uint64_t meeting_[32] = {}; // the last meeting of each lane
};

} // namespace simt

#endif
