// SPDX-License-Identifier: MIT
// Launches: checks the configuration as CUDA does, runs the blocks on OS threads, records counters and errors.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "block.h"
#include "simt/launch.h"

namespace simt {

// Threads are started when first needed, then wait for launches. The launching thread runs blocks too.
class Workers {
  public:
    Workers();
    ~Workers();
    // Runs one launch to its end, with up to `helpers` threads beside the caller; with fewer if the system
    // does not start as many. Calls must not overlap.
    void run(Launch &launch, unsigned helpers);

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    std::unique_ptr<Block> of_caller_;
    Launch *launch_ = nullptr;
    unsigned wanted_ = 0, busy_ = 0;
    bool quit_ = false;
};

// Blocks belong to the threads of Workers: memory for the destructor of a thread_local variable cannot be refused, glibc
// ends the process.
static void run_blocks(Launch &launch, std::unique_ptr<Block> &block) {
    try {
        if (!block) block = std::make_unique<Block>();
        block->run(launch);
    } catch (const std::bad_alloc &) {
        launch.fail(cudaErrorMemoryAllocation);
    }
}

Workers::Workers() = default;
Workers::~Workers() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        quit_ = true;
    }
    wake_.notify_all();
    for (std::thread &t : threads_) t.join();
}

void Workers::run(Launch &launch, unsigned helpers) {
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

void Workers::work() {
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

} // namespace simt

namespace {

constexpr std::size_t default_dynamic_shared = 48 * 1024, max_dynamic_shared = 227 * 1024;

// The limits that cudaFuncSetAttribute set for dynamic shared memory, by kernel.
class Dynamic_shared_limits {
  public:
    void set(const void *kernel, std::size_t bytes) {
        std::lock_guard<std::mutex> lock(mutex_);
        bytes_[kernel] = bytes;
    }
    std::size_t get(const void *kernel) {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = bytes_.find(kernel);
        return found == bytes_.end() ? default_dynamic_shared
                                     : std::max(default_dynamic_shared, found->second);
    }

  private:
    std::mutex mutex_;
    std::map<const void *, std::size_t> bytes_;
};

Dynamic_shared_limits &limits() {
    static Dynamic_shared_limits &instance = *new Dynamic_shared_limits; // outlives threads that launch
    return instance;
}

cudaError_t check(const cudaLaunchConfig_t &config, const void *kernel) {
    const dim3 g = config.gridDim, b = config.blockDim;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (config.numAttrs || simt::current) return cudaErrorNotSupported; // current: a launch from a kernel
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z) return cudaErrorInvalidConfiguration;
    if (g.x > 0x7fffffff || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
    if (b.x > 1024 || b.y > 1024 || b.z > 64 || b.x * b.y * b.z > simt::max_threads)
        return cudaErrorInvalidConfiguration;
    if (config.dynamicSmemBytes > default_dynamic_shared && config.dynamicSmemBytes > limits().get(kernel))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

} // namespace

// The number of the launch, from 1, that traps; 0: none.
static long trapping_launch() {
    static const char *const number = std::getenv("SIMT_TRAP");
    static const long trapping = number ? std::atol(number) : 0;
    return trapping;
}

namespace simt {

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
    static long launches = 0;
    if (lost) return device_state();
    lost = ++launches == trapping_launch();
    if (lost) return cudaSuccess; // later calls say it
    const std::uint64_t blocks = std::uint64_t(config.gridDim.x) * config.gridDim.y * config.gridDim.z;
    Launch launch(config, kernel, call, arguments, settings(), blocks);
    pool.workers.run(launch, unsigned(std::min(blocks, std::uint64_t(launch.settings.threads)) - 1));
    if (launch.error == cudaErrorMemoryAllocation) report_no_memory(launch);
    record(launch);
    return note(launch.error);
}

} // namespace simt

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (!kernel) return simt::note(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess; // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        std::size_t(value) > max_dynamic_shared)
        return simt::note(cudaErrorInvalidValue);
    try {
        limits().set(kernel, std::size_t(value));
    } catch (const std::bad_alloc &) {
        return simt::note(cudaErrorMemoryAllocation);
    }
    return cudaSuccess;
}
