// SPDX-License-Identifier: MIT
// GPU time of the work queued between two calls on the default stream. gpu_timer_start first overwrites
// memory of twice the L2 cache's size. So a run finds no data of the run before it in the cache, and the GPU
// is busy while the host queues the run: the host's time for a launch is not measured, unless the run waits
// for the device.
#pragma once

#include "device_buffer.h"
#include <cuda_runtime.h>

C_LINKAGE_BEGIN

typedef struct gpu_timer {
    cudaEvent_t begin, end;
    device_buffer scrubbed;
} gpu_timer;

void gpu_timer_open(gpu_timer *timer);
void gpu_timer_close(gpu_timer *timer); // harmless on {0}
// Only overwrites the cache, for other ways to measure.
void gpu_timer_scrub(gpu_timer *timer);
void gpu_timer_start(gpu_timer *timer);
double gpu_timer_stop(gpu_timer *timer); // milliseconds; waits for the device

C_LINKAGE_END
