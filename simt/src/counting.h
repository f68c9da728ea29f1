// SPDX-License-Identifier: MIT
// Sums of counters; and the count of atomic instructions a warp issues.
//
// Lanes that last met in the same collective, at one source line, each for the n-th time since, are one
// instruction. So the instructions of a line between two meetings are the most often that any single lane
// passes it. Nothing here depends on the order in which lanes run.
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
    // The block begins: all lanes count as having met.
    void reset() {
        lines_.clear();
        meet(~0u);
    }
    // `lane` issues an atomic at `place`; true if that is an instruction of its own.
    bool issue(unsigned lane, Place place) {
        Line &line = find(meeting_[lane], place);
        const unsigned times = ++line.times[lane];
        if (times <= line.most) return false;
        line.most = times;
        return true;
    }
    // The lanes of `mask` have met.
    void meet(unsigned mask) {
        if (!lines_.empty()) leave(mask);
        meetings_++;
        for (unsigned lane = 0; lane < 32; lane++)
            meeting_[lane] = mask >> lane & 1 ? meetings_ : meeting_[lane];
    }
    // The lanes of `mask` issue nothing more since their last meeting.
    void leave(unsigned mask);

  private:
    // One source line since one meeting.
    struct Line {
        std::uint64_t meeting;
        Place place;
        unsigned lanes; // those that may come by again
        unsigned most;
        unsigned times[32];
    };
    Line &find(std::uint64_t meeting, Place place);

    std::vector<Line> lines_; // few: only of meetings that are some lane's last
    std::uint64_t meetings_ = 0;
    std::uint64_t meeting_[32] = {}; // each lane's last
};

} // namespace simt

#endif
