// SPDX-License-Identifier: MIT
// The OS threads that run blocks.
#ifndef SIMT_WORKERS_H
#define SIMT_WORKERS_H

#include "launch_state.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace simt {

class Block;

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

} // namespace simt

#endif
