// SPDX-License-Identifier: MIT
// The calling thread's last CUDA error.
#ifndef SIMT_LAST_ERROR_H
#define SIMT_LAST_ERROR_H

#include "simt/runtime_api.h"

namespace simt {

inline thread_local cudaError_t last_error = cudaSuccess;

// Sets the last error, unless `error` is cudaSuccess. Returns `error`.
inline cudaError_t note(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

} // namespace simt

#endif
