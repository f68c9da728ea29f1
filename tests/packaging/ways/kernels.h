// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C"
#endif
    cudaError_t
    add_by_key(const int *key_of, const float *value_of, int count, float *sums);
