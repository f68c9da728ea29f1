// SPDX-License-Identifier: MIT
// What a fit needs to descend: the mean absolute difference with its gradient, and Adam's step.
#pragma once

#include "c_linkage.h"
#include <cuda_runtime.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// All memory is device memory, and work is queued on the default stream. A failure of the device ends the program.

// loss: one number, opened with device_allocate(L1_LOSS_BYTES); read it by l1_loss_read.
// gradient[i] = sign(value[i] - target[i]) / count, 0 where they are equal; NULL: only the loss. count >= 1.
// value, target and gradient: [count]. The loss has the same bits in every run. Cost: reads 8 bytes and writes
// 4 bytes for each value.
enum { L1_LOSS_BYTES = 16 };
void l1_loss(const float *value, const float *target, int64_t count, void *loss, float *gradient);
// The loss of the last call, which had the same count. Waits for the device. NaN if a value was NaN, or if a
// difference was larger than 32768.
double l1_loss_read(const void *loss, int64_t count);

// Values that follow each other and have one learning rate.
typedef struct adam_group {
    int64_t count;
    float rate;
} adam_group;

// A step of adam.cuh at `rate` times the groups' rates. value, gradient: all groups, one after the other. moments:
// twice as many values, zeros before step 1.
void adam_groups_step(float *value, const float *gradient, float *moments, const adam_group *groups,
                      int group_count, float rate, int64_t step);

C_LINKAGE_END
