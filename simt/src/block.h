// SPDX-License-Identifier: MIT
// A block: its lanes and warps, the lane to run next, the collectives at which lanes wait, the atomics it counts.
//
// An OS thread runs one block at a time. A lane runs until it must wait, or until a seeded schedule selects
// another lane; then it switches directly to the next ready lane. A fiber whose lane has finished starts the
// next lane that has not started, so a kernel whose lanes never wait runs as a plain loop on one stack.
#pragma once

#include "fiber.h"
#include "launch_state.h"
#include "simt/lanes.h"
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#define SIMT_INLINE inline __attribute__((always_inline))

namespace simt {

constexpr unsigned lanes_per_warp = 32;
constexpr unsigned max_threads = 1024;
constexpr unsigned max_warps = max_threads / lanes_per_warp;

// Text for messages.
std::string lanes_text(unsigned mask); // "lane 3", "lanes 0-3, 8, 30-31"
std::string hex_text(unsigned mask);   // "0x0000ffff"
std::string kind_text(Kind kind);      // "__shfl_down_sync(float)"

struct Warp;
class Block;

struct Lane : Lane_result {
    uint3 thread;
    Context context; // while the lane does not run
    Warp *warp;
    unsigned index; // in the warp
    unsigned bit;   // 1 << index
};

// The lane that this OS thread runs.
inline Lane &running() {
    return *static_cast<Lane *>(current);
}

// The lanes that wait for each other at one collective. Whole: all lanes of the mask have to come; else those that have
// not exited, as CUDA defines votes, matches and __syncwarp().
struct Group {
    Kind kind;
    unsigned mask, arrived;
    bool whole;
};

// The number of atomic instructions that a warp issues.
//
// A meeting is a completed collective or barrier. Lanes whose last meeting is the same and that execute the
// same source line for the n-th time since are one instruction. So between two meetings, a line is as many
// instructions as the largest number of times a lane executes it. Example: after a __syncwarp(), lane l
// executes an atomicAdd l % 4 times; this counts as 3 instructions. The count does not depend on the order in
// which lanes run.
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

struct Warp {
    Block *block;
    Lane *lane; // its lanes
    unsigned index;
    unsigned existing; // lanes that have a thread; fewer than 32 in a short last warp
    unsigned ready;    // lanes that can run, the running one included
    unsigned exited;
    unsigned at_barrier;
    unsigned coalescing; // lanes that wait at coalesced_threads
    unsigned spins;      // yields since the last lane began to wait there
    unsigned groups;     // each has at least one lane, so 32 are enough
    Group group[lanes_per_warp];
    // arguments of the collective at which each lane waits
    std::uint64_t value[lanes_per_warp];
    std::uint64_t operand[lanes_per_warp];
    // each lane's last collective, and its last collective, atomic or fence
    Kind kind[lanes_per_warp];
    Place place[lanes_per_warp];
    Instruction_count instructions;
};

class Block {
  public:
    Block();
    // Runs blocks of the launch on the calling OS thread until none is left. Throws std::bad_alloc.
    void run(Launch &launch);

    // Called by lanes; each call is a step. The first three return the lane to run next.
    Lane &meet(Lane &lane, Kind kind, unsigned mask, std::uint64_t value, std::uint64_t operand, Place place);
    Lane &barrier(Lane &lane, Collective collective, bool predicate, Place place);
    Lane &coalesce(Lane &lane, Place place);
    void yield(Lane &lane, Place place);
    bool begin_atomic(Lane &lane, const void *address, std::size_t bytes, Place place);
    // Refusals: report, then abandon. Two calls, because an abandoned stack must not hold objects that own
    // memory. The message consists of `reason` and the state of all lanes of the warp or of the block.
    enum class Scope { warp, block };
    void report(const Lane &lane, const std::string &reason, Scope scope = Scope::warp);
    [[noreturn]] void abandon();
    // Runs lane `to`; returns when another lane switches to `from`. The caller passes the result to
    // result_after().
    static Switched switch_lane(Lane &from, Lane &to);

  private:
    static void lane_main();
    void set_up(Launch &launch);
    void start(std::uint64_t index);
    Lane *random_lane();
    // The choice of the lane to run next. Inline, because every lane runs this code at every collective.
    SIMT_INLINE Lane *next_lane_in_order(const Lane &from, bool stay_in_warp) {
        const Warp &warp = *from.warp;
        const unsigned later = warp.ready & ~(from.bit | (from.bit - 1));
        const unsigned in_warp = later ? later : stay_in_warp ? warp.ready : 0;
        if (in_warp) return &warp.lane[__builtin_ctz(in_warp)];
        if (!ready_warps_) return nullptr;
        const unsigned this_and_before = (2u << warp.index) - 1;
        const unsigned later_warps = ready_warps_ & ~this_and_before;
        const unsigned w = unsigned(__builtin_ctz(later_warps ? later_warps : ready_warps_));
        return &warp_[w].lane[__builtin_ctz(warp_[w].ready)];
    }
    // A ready lane, other than `from` if there is one; null if none is ready.
    SIMT_INLINE Lane *next_lane(const Lane &from) {
        return random_ ? random_lane() : next_lane_in_order(from, true);
    }
    SIMT_INLINE void set_ready(Warp &warp, unsigned lanes) {
        warp.ready |= lanes;
        ready_warps_ |= 1u << warp.index;
    }
    // The warp has no ready lane any more.
    SIMT_INLINE void rest(Warp &warp) {
        if (warp.coalescing)
            release_coalescing(warp);
        else
            ready_warps_ &= ~(1u << warp.index);
    }
    SIMT_INLINE Lane &wait(Lane &lane) {
        Warp &warp = *lane.warp;
        warp.ready &= ~lane.bit;
        if (!warp.ready) rest(warp);
        Lane *to = next_lane(lane);
        if (!to) refuse_waiting(lane);
        return *to;
    }
    SIMT_INLINE void step(const Lane &lane, Place place) {
        lane.warp->place[lane.index] = place;
        if (--steps_left_ == 0) refuse_steps(lane);
    }

    void complete(Lane &lane, const Group &group);
    void end(Warp &warp, Group *group, unsigned lanes);
    void end_barrier(Collective collective);
    // Called when a lane of the warp has exited: ends what then waits for no other.
    void leave(Warp &warp);
    // Ends the wait of all lanes at coalesced_threads.
    void release_coalescing(Warp &warp);
    std::uint32_t random(std::uint32_t bound);

    void report_mask(const Lane &lane, Kind kind, unsigned mask);
    // Whether the lanes of the mask have kept their promises; reports it if not. They begin anew.
    bool promises_kept(const Lane &lane, unsigned mask);
    // Finds the reason why no lane can run, and reports it; `otherwise` if it finds none.
    void report_stuck(const Lane &lane, const std::string &otherwise);
    [[noreturn]] void refuse_waiting(const Lane &lane);
    [[noreturn]] void refuse_steps(const Lane &lane);
    std::string describe_lanes(const Lane &caller, Scope scope) const;
    std::string describe_lane(const Lane &caller, const Lane &lane) const;

    Launch *launch_ = nullptr;
    std::uint64_t index_ = 0;
    unsigned threads_ = 0, warps_ = 0;
    unsigned live_ = 0;
    unsigned ready_warps_ = 0; // warps with a ready lane
    std::uint64_t steps_left_ = 0;
    unsigned atomics_in_a_row_ = 0;
    std::uint64_t random_ = 0; // 0: run in order
    bool refused_ = false;
    struct Barrier {
        unsigned arrived, sum;
        bool whole; // all threads of the block have to come; else those that have not exited
    } barrier_[4] = {};
    Barrier &barrier_of(Collective c) { return barrier_[unsigned(c) - unsigned(Collective::syncthreads)]; }
    simt_counters counters_ = {};
    uint3 block_ = {0, 0, 0}; // blockIdx
    Context os_thread_;
    Stack_pool stacks_;
    std::unique_ptr<void, void (*)(void *)> dynamic_shared_{nullptr, std::free};
    std::size_t dynamic_shared_bytes_ = 0;
    Warp warp_[max_warps];
    Lane lane_[max_threads];
};

} // namespace simt
