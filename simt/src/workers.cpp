// SPDX-License-Identifier: MIT
#include "workers.h"

#include "block.h"
#include <algorithm>
#include <exception>
#include <memory>
#include <new>

namespace simt {

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
