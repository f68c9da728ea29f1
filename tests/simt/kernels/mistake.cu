// SPDX-License-Identifier: MIT
#include "mistake.cuh"

cudaError_t run_mistake(const float *in, int n, float *sum) {
    return launch_early_return(in, n, sum);
}
