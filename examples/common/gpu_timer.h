// SPDX-License-Identifier: MIT
// GPU time of what is queued between two calls. Before each run twice the L2 cache is overwritten, so that it
// finds nothing of the run before there, and so that the GPU is busy while the run is being queued: what a
// launch takes on the host is not measured, unless the run itself waits for the device.
#ifndef COMMON_GPU_TIMER_H
#define COMMON_GPU_TIMER_H

#include "device_buffer.h"
#include <cuda_runtime.h>

typedef struct gpu_timer {
    cudaEvent_t begin, end;
    device_buffer scrubbed;
} gpu_timer;

void gpu_timer_open(gpu_timer *timer);
void gpu_timer_close(gpu_timer *timer);
// The overwriting alone, for who measures otherwise.
void gpu_timer_scrub(gpu_timer *timer);
void gpu_timer_start(gpu_timer *timer);
double gpu_timer_stop(gpu_timer *timer); // milliseconds; waits for the device

#endif
