// SPDX-License-Identifier: MIT
// The calling thread's last CUDA error.
#ifndef SIMT_LAST_ERROR_H
#define SIMT_LAST_ERROR_H

#include "simt/runtime_api.h"
#include <atomic>

namespace simt {

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

} // namespace simt

#endif
