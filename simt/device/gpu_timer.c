// SPDX-License-Identifier: MIT
#include "gpu_timer.h"
#include "device.h"

void gpu_timer_open(gpu_timer *timer) {
    *timer = (gpu_timer){0};
    DEVICE_CHECK(cudaEventCreate(&timer->begin));
    DEVICE_CHECK(cudaEventCreate(&timer->end));
    int device;
    struct cudaDeviceProp properties;
    DEVICE_CHECK(cudaGetDevice(&device));
    DEVICE_CHECK(cudaGetDeviceProperties(&properties, device));
    device_buffer_reserve(&timer->scrubbed, 2 * (size_t)properties.l2CacheSize);
}

void gpu_timer_close(gpu_timer *timer) {
    device_buffer_close(&timer->scrubbed);
    if (timer->end) DEVICE_CHECK(cudaEventDestroy(timer->end));
    if (timer->begin) DEVICE_CHECK(cudaEventDestroy(timer->begin));
    *timer = (gpu_timer){0};
}

void gpu_timer_scrub(gpu_timer *timer) {
    DEVICE_CHECK(cudaMemsetAsync(timer->scrubbed.memory, 0, timer->scrubbed.bytes, NULL));
}

void gpu_timer_start(gpu_timer *timer) {
    gpu_timer_scrub(timer);
    DEVICE_CHECK(cudaEventRecord(timer->begin, NULL));
}

double gpu_timer_stop(gpu_timer *timer) {
    float milliseconds;
    DEVICE_CHECK(cudaEventRecord(timer->end, NULL));
    DEVICE_CHECK(cudaEventSynchronize(timer->end));
    DEVICE_CHECK(cudaEventElapsedTime(&milliseconds, timer->begin, timer->end));
    return milliseconds;
}
