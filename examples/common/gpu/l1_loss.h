// SPDX-License-Identifier: MIT
// The mean absolute difference and its gradient.
#pragma once

#include "c_linkage.h"
#include <cuda_runtime.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// loss: one number on the device, opened with device_allocate(L1_LOSS_BYTES); read it by l1_loss_read.
// gradient[i] = sign(value[i] - target[i]) / count, 0 where they are equal; NULL: only the loss. count >= 1.
// value, target and gradient: [count], device memory. The loss has the same bits in every run. Cost: reads 8
// bytes and writes 4 bytes for each value. A failure of the device ends the program.
enum { L1_LOSS_BYTES = 16 };
void l1_loss(const float *value, const float *target, int64_t count, void *loss, float *gradient,
             cudaStream_t stream);
// The loss of the last call, which had the same count. Waits for the device. NaN if a value was NaN, or if a
// difference was larger than 32768.
double l1_loss_read(const void *loss, int64_t count);

C_LINKAGE_END
