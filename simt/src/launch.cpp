// SPDX-License-Identifier: MIT
// Launches: checks the configuration as CUDA does, runs the blocks on OS threads, records counters and errors. And the
// state of the process that persists between launches: settings, counters, the last refusal. simt.h is its interface.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "block.h"
#include "simt.h"
#include "simt/launch.h"

namespace simt {

// ---- what persists between launches

#ifdef __SANITIZE_ADDRESS__
static constexpr std::size_t default_stack_bytes = 512 * 1024;
#else
static constexpr std::size_t default_stack_bytes = 64 * 1024;
#endif

struct State {
    std::mutex mutex; // guards the members below
    // The limits that cudaFuncSetAttribute set for dynamic shared memory, by kernel.
    std::map<const void *, std::size_t> dynamic_shared;
    // SIMT_SEED is the seed of programs that do not call simt_set_seed; threads 0: one for each core
    Settings settings = {std::strtoull(environment("SIMT_SEED"), nullptr, 10), 0, std::uint64_t(1) << 32,
                         default_stack_bytes, true};
    simt_counters counters = {};
    std::string refusal;
    int refusals = 0;
};

static State &global_state() {
    // It outlives threads that launch, and needs no memory that may be refused.
    alignas(State) static char memory[sizeof(State)];
    static State &state = *new (memory) State;
    return state;
}

// The state, locked for the statement or block that has this.
class Locked_state {
  public:
    State *operator->() { return &global_state(); }

  private:
    std::lock_guard<std::mutex> lock_{global_state().mutex};
};

// The settings of a launch that begins now. `threads` is the actual number, never 0.
static Settings current_settings() {
    Settings settings = Locked_state()->settings;
    if (settings.threads <= 0) settings.threads = std::max(1, int(std::thread::hardware_concurrency()));
    return settings;
}

// ---- the OS threads

// Threads are started when first needed, then wait for launches. The launching thread runs blocks too.
class Workers {
  public:
    ~Workers() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            quit_ = true;
        }
        wake_.notify_all();
        for (std::thread &t : threads_) t.join();
    }

    // Runs one launch to its end, with up to `helpers` threads beside the caller; with fewer if the system
    // does not start as many. Calls must not overlap.
    void run(Launch &launch, unsigned helpers) {
        try {
            while (threads_.size() < helpers) threads_.emplace_back([this] { work(); });
        } catch (const std::exception &) { // the system has no thread or no memory left
            helpers = unsigned(threads_.size());
        }
        if (helpers) {
            std::lock_guard<std::mutex> lock(mutex_);
            launch_ = &launch;
            wanted_ = helpers;
        }
        for (unsigned i = 0; i < helpers; i++) wake_.notify_one();
        run_blocks(launch, of_caller_);
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = 0; // helpers that have not started yet are not needed
        done_.wait(lock, [this] { return busy_ == 0; });
    }

  private:
    // Blocks belong to the threads of Workers: memory for the destructor of a thread_local variable cannot be refused,
    // glibc ends the process.
    static void run_blocks(Launch &launch, std::unique_ptr<Block> &block) {
        try {
            if (!block) block = std::make_unique<Block>();
            block->run(launch);
        } catch (const std::bad_alloc &) {
            launch.fail_for_memory();
        }
    }

    void work() {
        std::unique_ptr<Block> block;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return quit_ || wanted_ > 0; });
            if (quit_) return;
            wanted_--;
            busy_++;
            Launch &launch = *launch_;
            lock.unlock();
            run_blocks(launch, block);
            lock.lock();
            if (--busy_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    std::unique_ptr<Block> of_caller_;
    Launch *launch_ = nullptr;
    unsigned wanted_ = 0, busy_ = 0;
    bool quit_ = false;
};

// ---- launches

static constexpr std::size_t default_dynamic_shared = 48 * 1024, max_dynamic_shared = 227 * 1024;

static cudaError_t check(const cudaLaunchConfig_t &config, const void *kernel) {
    const dim3 g = config.gridDim, b = config.blockDim;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (config.numAttrs || current) return cudaErrorNotSupported; // current: a launch from a kernel
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z ||           // nothing to run
        g.x > 0x7fffffff || g.y > 65535 || g.z > 65535 || b.x > 1024 || b.y > 1024 || b.z > 64 ||
        b.x * b.y * b.z > max_threads)
        return cudaErrorInvalidConfiguration;
    if (config.dynamicSmemBytes <= default_dynamic_shared) return cudaSuccess;
    Locked_state state;
    const auto found = state->dynamic_shared.find(kernel);
    return found != state->dynamic_shared.end() && config.dynamicSmemBytes <= found->second
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

// Says which launch needed how many bytes, without an allocation that may throw.
static void report_no_memory(const Launch &launch) {
    const dim3 b = launch.config.blockDim;
    const std::size_t threads = b.x * b.y * b.z;
    std::string name;
    try {
        name = symbol_name(launch.kernel);
    } catch (const std::bad_alloc &) {
        name = "?"; // short strings need no memory
    }
    std::fprintf(
        stderr,
        "simt: out of memory: kernel %s needs for each OS thread, of %d, %zu bytes of stack for %zu threads "
        "of a block and %zu bytes of dynamic shared memory\n",
        name.c_str(), launch.settings.threads, threads * launch.settings.stack_bytes, threads,
        launch.config.dynamicSmemBytes);
}

cudaError_t launch(const cudaLaunchConfig_t &config, const void *kernel, void (*call)(const void *),
                   const void *arguments) {
    const cudaError_t wrong = check(config, kernel);
    if (wrong != cudaSuccess) return note(wrong);
    // A thread that ends the process waits for the running launch; those of other threads never begin then.
    static struct Pool {
        std::mutex one_at_a_time;
        Workers workers;
        ~Pool() { one_at_a_time.lock(); }
    } pool;
    std::lock_guard<std::mutex> lock(pool.one_at_a_time);
    // The number of the launch, from 1, that traps; 0: none.
    static const long trapping = std::atol(environment("SIMT_TRAP"));
    static long launches = 0;
    if (lost) return device_state();
    lost = ++launches == trapping;
    if (lost) return cudaSuccess; // later calls say it
    const std::uint64_t blocks = std::uint64_t(config.gridDim.x) * config.gridDim.y * config.gridDim.z;
    Launch launch = {config, kernel, call, arguments, current_settings(), blocks};
    pool.workers.run(launch, unsigned(std::min(blocks, std::uint64_t(launch.settings.threads)) - 1));
    if (launch.error == cudaErrorMemoryAllocation) report_no_memory(launch);
    Locked_state state;
    if (launch.settings.counting) add(state->counters, launch.counters);
    if (!launch.refusal.empty()) {
        std::fputs(launch.refusal.c_str(), stderr);
        state->refusal = std::move(launch.refusal);
        state->refusals++;
    }
    return note(launch.error);
}

} // namespace simt

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (!kernel) return simt::note(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess; // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        std::size_t(value) > simt::max_dynamic_shared)
        return simt::note(cudaErrorInvalidValue);
    try {
        simt::Locked_state()->dynamic_shared[kernel] = std::size_t(value);
    } catch (const std::bad_alloc &) {
        return simt::note(cudaErrorMemoryAllocation);
    }
    return cudaSuccess;
}

// ---- simt.h

using simt::Locked_state;

void simt_set_seed(uint64_t seed) {
    Locked_state()->settings.seed = seed;
}
void simt_set_threads(int threads) {
    Locked_state()->settings.threads = threads;
}
int simt_threads(void) {
    return simt::current_settings().threads;
}
void simt_set_step_limit(uint64_t steps) {
    Locked_state()->settings.step_limit = steps;
}
void simt_set_stack_size(size_t bytes) {
    Locked_state()->settings.stack_bytes = bytes ? bytes : simt::default_stack_bytes;
}
void simt_set_counting(bool on) {
    Locked_state()->settings.counting = on;
}

simt_counters simt_counters_read(void) {
    return Locked_state()->counters;
}
void simt_counters_reset(void) {
    Locked_state()->counters = {};
}

const char *simt_refusal(void) {
    return Locked_state()->refusal.c_str();
}
int simt_refusals(void) {
    return Locked_state()->refusals;
}
void simt_refusal_clear(void) {
    Locked_state state;
    state->refusal.clear();
    state->refusals = 0;
    if (simt::last_error == cudaErrorLaunchFailure) simt::last_error = cudaSuccess;
}
