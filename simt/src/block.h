// SPDX-License-Identifier: MIT
// A block: its lanes and warps, the lane to run next, the collectives at which lanes wait.
//
// An OS thread runs one block at a time. A lane runs until it must wait, or until a seeded schedule selects
// another lane; then it switches directly to the next ready lane. A fiber whose lane has finished starts the
// next lane that has not started, so a kernel whose lanes never wait runs as a plain loop on one stack.
#ifndef SIMT_BLOCK_H
#define SIMT_BLOCK_H

#include "counting.h"
#include "fiber.h"
#include "launch_state.h"
#include "simt/kernel.h"
#include "simt/lanes.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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

struct Warp {
    Block *block;
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
    [[noreturn]] void refuse(const Lane &lane, const char *reason, Place place);
    // Runs lane `to`; returns when another lane switches to `from`. The caller passes the result to
    // result_after().
    static Switched switch_lane(Lane &from, Lane &to);

  private:
    static void lane_main();
    void set_up(Launch &launch);
    void start(std::uint64_t index);
    // A ready lane, other than `from` if there is one; null if none is ready.
    Lane *next_lane(const Lane &from);
    Lane *next_lane_in_order(const Lane &from, bool stay_in_warp);
    Lane *random_lane();
    Lane &wait(Lane &lane);

    void step(const Lane &lane);
    void complete(Lane &lane, const Group &group);
    void end(Warp &warp, Group *group, unsigned lanes);
    void end_barrier(Collective collective);
    // A lane of the warp has exited: ends what waits for no other.
    void leave(Warp &warp);
    void set_ready(Warp &warp, unsigned lanes);
    // The warp has no ready lane any more.
    void rest(Warp &warp);
    // Ends the wait of all lanes at coalesced_threads.
    void release_coalescing(Warp &warp);
    std::uint32_t random(std::uint32_t bound);

    // Refusals: report, then abandon. Two calls, because an abandoned stack must not hold objects that own
    // memory. The message consists of `reason` and the state of all lanes of the warp or of the block.
    enum class Scope { warp, block };
    void report(const Lane &lane, const std::string &reason, Scope scope);
    void report_mask(const Lane &lane, Kind kind, unsigned mask);
    void report_sources(const Lane &lane, const Group &group);
    // Whether the lanes of the mask have kept their promises; reports it if not. They begin anew.
    bool promises_kept(const Lane &lane, unsigned mask);
    // Finds the reason why no lane can run, and reports it; `otherwise` if it finds none.
    void report_stuck(const Lane &lane, const std::string &otherwise);
    [[noreturn]] void refuse_waiting(const Lane &lane);
    [[noreturn]] void refuse_steps(const Lane &lane);
    [[noreturn]] void abandon();
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
    struct {
        unsigned arrived, sum;
        bool whole; // all threads of the block have to come; else those that have not exited
    } barrier_[4] = {};
    simt_counters counters_ = {};
    uint3 block_ = {0, 0, 0}; // blockIdx
    Context os_thread_;
    Stack_pool stacks_;
    struct Free {
        void operator()(void *memory) const;
    };
    std::unique_ptr<void, Free> dynamic_shared_;
    std::size_t dynamic_shared_bytes_ = 0;
    Warp warp_[max_warps];
    Lane lane_[max_threads];
};

} // namespace simt

#endif
