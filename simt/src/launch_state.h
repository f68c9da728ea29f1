// SPDX-License-Identifier: MIT
// The state of a running launch, shared by the OS threads that run its blocks.
#ifndef SIMT_LAUNCH_STATE_H
#define SIMT_LAUNCH_STATE_H

#include "counting.h"
#include "simt/runtime_api.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace simt {

struct Settings {
    std::uint64_t seed;
    int threads;
    std::uint64_t step_limit;
    std::size_t stack_bytes;
    bool counting;
};

struct Launch {
    const cudaLaunchConfig_t &config;
    const void *const kernel;
    void (*const call)(const void *);
    const void *const arguments;
    const Settings settings;
    const std::uint64_t blocks;

    // Blocks start in order, and blocks before a refused one run to their end. So the reported refusal is
    // that of the lowest refused block, whatever the number of threads.
    std::atomic<std::uint64_t> next_block{0};
    std::atomic<std::uint64_t> refused_block{std::numeric_limits<std::uint64_t>::max()};

    std::mutex mutex; // guards the rest while OS threads run
    std::string refusal;
    cudaError_t error = cudaSuccess;
    simt_counters counters = {};

    Launch(const cudaLaunchConfig_t &config_, const void *kernel_, void (*call_)(const void *),
           const void *arguments_, const Settings &settings_, std::uint64_t blocks_)
        : config(config_), kernel(kernel_), call(call_), arguments(arguments_), settings(settings_),
          blocks(blocks_) {}

    void refuse(std::uint64_t block, std::string message) {
        std::lock_guard<std::mutex> lock(mutex);
        if (block >= refused_block) return;
        refused_block = block;
        refusal = std::move(message);
        error = cudaErrorLaunchFailure;
    }
    // After this no OS thread starts another block.
    void fail(cudaError_t why) {
        std::lock_guard<std::mutex> lock(mutex);
        refused_block = 0;
        error = why;
    }
    void count(const simt_counters &c) {
        std::lock_guard<std::mutex> lock(mutex);
        add(counters, c);
    }
};

// The settings of a launch that begins now. `threads` is the actual number, never 0.
Settings settings();
// Adds the launch's counters to the totals. If it was refused, prints and keeps the message.
void record(Launch &launch);

} // namespace simt

#endif
