// SPDX-License-Identifier: MIT
// Runs a block from its first lane to its last, and selects the lane that runs next.
#include "block.h"

#include <cstdlib>
#include <cstring>
#include <new>

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace simt {

__thread Lane_result *current = nullptr;
__thread void *dynamic_shared = nullptr;

// Makes `lane` the running one. A switch to it must follow.
static inline void enter(Lane &lane) {
    current = &lane;
    threadIdx = lane.thread;
}

// Not inlined, so that callers end with a jump to it, and it ends with a jump to the switch (see Switched).
__attribute__((noinline)) Switched Block::switch_lane(Lane &from, Lane &to) {
    if (&from == &to) return {nullptr, nullptr};
    enter(to);
    if (!to.context.point) to.context = from.warp->block->stacks_.begin<lane_main>();
    return switch_to(from.context, to.context);
}

Block::Block() {
    for (unsigned w = 0; w < max_warps; w++) {
        warp_[w].block = this;
        warp_[w].lane = &lane_[w * lanes_per_warp];
        warp_[w].index = w;
    }
    for (unsigned t = 0; t < max_threads; t++) {
        lane_[t].warp = &warp_[t / lanes_per_warp];
        lane_[t].index = t % lanes_per_warp;
        lane_[t].bit = 1u << lane_[t].index;
    }
}

// splitmix64's finalizer
static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

std::uint32_t Block::random(std::uint32_t bound) {
    // xorshift64*, whose state is never 0
    random_ ^= random_ >> 12;
    random_ ^= random_ << 25;
    random_ ^= random_ >> 27;
    return std::uint32_t((random_ * 0x2545f4914f6cdd1du >> 32) * bound >> 32);
}

void Block::set_up(Launch &launch) {
    launch_ = &launch;
    const std::size_t bytes = launch.config.dynamicSmemBytes;
    if (bytes != dynamic_shared_bytes_) {
        dynamic_shared_.reset();
        dynamic_shared_bytes_ = 0;
        void *memory = nullptr;
        if (bytes && posix_memalign(&memory, 256, bytes) != 0) throw std::bad_alloc();
        dynamic_shared_.reset(memory);
        dynamic_shared_bytes_ = bytes;
    }
    const dim3 size = launch.config.blockDim;
    threads_ = size.x * size.y * size.z;
    warps_ = (threads_ + lanes_per_warp - 1) / lanes_per_warp;
    stacks_.reserve(threads_, launch.settings.stack_bytes);
    for (unsigned t = 0; t < threads_; t++)
        lane_[t].thread = {t % size.x, t / size.x % size.y, t / size.x / size.y};
}

void Block::start(std::uint64_t index) {
    index_ = index;
    const dim3 grid = launch_->config.gridDim;
    block_ = {unsigned(index % grid.x), unsigned(index / grid.x % grid.y), unsigned(index / grid.x / grid.y)};
    const Settings &settings = launch_->settings;
    random_ = settings.seed ? mix(mix(settings.seed + 0x9e3779b97f4a7c15u) + index) | 1 : 0;
    steps_left_ = settings.step_limit ? settings.step_limit : ~std::uint64_t(0);
    atomics_in_a_row_ = 0;
    refused_ = false;
    live_ = threads_;
    ready_warps_ = ~0u >> (max_warps - warps_);
    for (auto &b : barrier_) b = {0, 0, false};
    for (unsigned w = 0; w < warps_; w++) {
        Warp &warp = warp_[w];
        const unsigned rest = threads_ - w * lanes_per_warp;
        warp.existing = rest >= lanes_per_warp ? ~0u : (1u << rest) - 1;
        warp.ready = warp.existing;
        warp.exited = warp.at_barrier = warp.coalescing = warp.groups = 0;
        std::memset(warp.place, 0, sizeof warp.place);
        warp.instructions.reset();
    }
    for (unsigned t = 0; t < threads_; t++) {
        lane_[t].context.point = nullptr;
        lane_[t].call = {};
        lane_[t].promises = 0;
    }
    if (dynamic_shared_bytes_) std::memset(dynamic_shared_.get(), 0xff, dynamic_shared_bytes_);
}

void Block::run(Launch &launch) {
    set_up(launch);
    blockDim = launch.config.blockDim;
    gridDim = launch.config.gridDim;
    dynamic_shared = dynamic_shared_.get();
    for (;;) {
        const std::uint64_t index = launch.next_block.fetch_add(1, std::memory_order_relaxed);
        if (index >= launch.blocks || launch.refused_block.load(std::memory_order_relaxed) < index) break;
        start(index);
        blockIdx = block_;
        Lane *first = random_ ? random_lane() : &lane_[0];
        first->context = stacks_.begin<lane_main>();
        enter(*first);
        result_after(switch_to(os_thread_, first->context));
        current = nullptr;
        if (refused_) stacks_.free_all();
    }
    launch.count(counters_);
    counters_ = {};
}

// The main function of a fiber: runs lanes that have not started, one after another, until the next lane to
// run has its own stack.
void Block::lane_main() {
    for (;;) {
        Lane *lane = &running();
        Block &block = *lane->warp->block;
        // of this library or of the kernel; the catch block ends before the lane is left
        bool no_memory = false;
        try {
            block.launch_->call(block.launch_->arguments);
        } catch (const std::bad_alloc &) {
            no_memory = true;
        }
        if (no_memory) {
            block.launch_->fail_for_memory();
            block.abandon();
        }

        lane = &running();
        const Stack stack = lane->context.stack;
        Warp &warp = *lane->warp;
        warp.exited |= lane->bit;
        warp.ready &= ~lane->bit;
        warp.instructions.leave(lane->bit);
        --block.live_;
        block.leave(warp);
        if (!warp.ready) block.rest(warp);
        if (block.live_ == 0) {
            block.stacks_.give_back(stack);
            leave_to(block.os_thread_);
        }
        Lane *next = block.next_lane(*lane);
        if (!next) block.refuse_waiting(*lane);
        enter(*next);
        if (next->context.point) {
            block.stacks_.give_back(stack);
            leave_to(next->context);
        }
        next->context.stack = stack;
    }
}

Lane *Block::random_lane() {
    if (!ready_warps_) return nullptr;
    const auto random_bit = [this](unsigned mask) {
        for (unsigned n = random(unsigned(__builtin_popcount(mask))); n > 0; n--) mask &= mask - 1;
        return unsigned(__builtin_ctz(mask));
    };
    const unsigned w = random_bit(ready_warps_);
    return &warp_[w].lane[random_bit(warp_[w].ready)];
}

// Also called at the end of a lane, outside of its kernel.
void Block::refuse_waiting(const Lane &lane) {
    try {
        report_stuck(lane, "a deadlock: every lane waits for another");
    } catch (const std::bad_alloc &) {
        launch_->fail_for_memory();
    }
    abandon();
}

void Block::refuse_steps(const Lane &lane) {
    report_stuck(lane, "a livelock: the block exceeded its limit of " +
                           std::to_string(launch_->settings.step_limit) + " steps");
    abandon();
}

} // namespace simt
