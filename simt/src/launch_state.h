// SPDX-License-Identifier: MIT
// What the runtime shares: the last error of a thread, the state of a running launch.
#pragma once

#include "simt.h"
#include "simt/runtime_api.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace simt {

// The calling thread's last CUDA error.
inline thread_local cudaError_t last_error = cudaSuccess;

// Sets the last error, unless `error` is cudaSuccess. Returns `error`.
inline cudaError_t note(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

// Set by the launch that SIMT_TRAP=N names, the N-th of the process: its kernel traps, and the device is lost.
inline std::atomic<bool> lost{false};

// What calls of a lost device return.
inline cudaError_t device_state() {
    return lost ? note(cudaErrorLaunchFailure) : cudaSuccess;
}

// A variable of the environment; "0" if it is not set.
inline const char *environment(const char *name) {
    const char *const text = std::getenv(name);
    return text ? text : "0";
}

struct Settings {
    std::uint64_t seed;
    int threads;
    std::uint64_t step_limit;
    std::size_t stack_bytes;
    bool counting;
};

// Adds each counter.
void add(simt_counters &sum, const simt_counters &c);

// A running launch, shared by the OS threads that run its blocks.
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

    std::mutex mutex{}; // guards the rest while OS threads run
    std::string refusal = {};
    cudaError_t error = cudaSuccess;
    simt_counters counters = {};

    void refuse(std::uint64_t block, std::string message) {
        std::lock_guard<std::mutex> lock(mutex);
        if (block >= refused_block) return;
        refused_block = block;
        refusal = std::move(message);
        error = cudaErrorLaunchFailure;
    }
    // After this no OS thread starts another block.
    void fail_for_memory() {
        std::lock_guard<std::mutex> lock(mutex);
        refused_block = 0;
        error = cudaErrorMemoryAllocation;
    }
    void count(const simt_counters &c) {
        std::lock_guard<std::mutex> lock(mutex);
        add(counters, c);
    }
};

// The readable name of a function, from its address.
// Demangled; works for static functions too. "at 0x..." if the program was stripped.
std::string symbol_name(const void *function);

} // namespace simt
