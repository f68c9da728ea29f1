// SPDX-License-Identifier: MIT
// The OS threads that run blocks.
#ifndef SIMT_WORKERS_H
#define SIMT_WORKERS_H

#include "launch_state.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace simt {

// They are started when first needed and then wait for launches. The thread that launches works as well.
class Workers {
  public:
    ~Workers();
    // Runs the launch to its end, one launch at a time. If the system gives fewer threads, fewer work.
    void run(Launch &launch, unsigned helpers);

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    Launch *launch_ = nullptr;
    unsigned wanted_ = 0, busy_ = 0;
    bool quit_ = false;
};

} // namespace simt

#endif
