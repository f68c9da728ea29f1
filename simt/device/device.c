// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // program_invocation_short_name
#include "device.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void (*tell_failure)(const char *text);
static _Thread_local const char *stage;

void device_begin_stage(const char *name) {
    stage = name;
}

const char *device_stage_text(void) {
    static _Thread_local char text[128];
    if (!stage) return "";
    snprintf(text, sizeof text,
             ", noticed at the stage %s; with CUDA_LAUNCH_BLOCKING=1 at the one that failed", stage);
    return text;
}

void device_on_failure(void (*tell)(const char *text)) {
    tell_failure = tell;
}

void device_give_up(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (tell_failure)
        tell_failure(text);
    else
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
    exit(EXIT_FAILURE);
}

void device_check(cudaError_t status, const char *attempted, const char *file, int line) {
    if (status == cudaSuccess) return;
    device_give_up("%s:%d: %s failed: %s (%s)%s", file, line, attempted, cudaGetErrorString(status),
                   cudaGetErrorName(status), device_stage_text());
}

void *device_allocate(size_t bytes) {
    void *memory = NULL;
    const cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation)
        device_give_up("%s: no memory for %zu bytes", device_name(), bytes);
    DEVICE_CHECK(status);
    return memory;
}

void device_free(void *memory) {
    if (memory) DEVICE_CHECK(cudaFree(memory)); // without a GPU even no memory cannot be freed
}

void device_upload(void *device, const void *host, size_t bytes) {
    DEVICE_CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

void device_download(void *host, const void *device, size_t bytes) {
    DEVICE_CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

void device_clear(void *memory, size_t bytes) {
    DEVICE_CHECK(cudaMemset(memory, 0, bytes));
}

static const struct cudaDeviceProp *current_device(void) {
    static struct cudaDeviceProp properties; // static: the name outlives the call
    int device = 0;
    DEVICE_CHECK(cudaGetDevice(&device));
    DEVICE_CHECK(cudaGetDeviceProperties(&properties, device));
    return &properties;
}

const char *device_name(void) {
    return current_device()->name;
}

void *device_buffer_reserve(device_buffer *buffer, size_t bytes) {
    if (!buffer->memory || buffer->bytes < bytes) {
        // A buffer that grows again grows by at least half, so that this is rare.
        if (buffer->memory && bytes < buffer->bytes + buffer->bytes / 2)
            bytes = buffer->bytes + buffer->bytes / 2;
        device_free(buffer->memory);
        buffer->memory = device_allocate(bytes);
        buffer->bytes = bytes;
    }
    return buffer->memory;
}

void device_buffer_close(device_buffer *buffer) {
    device_free(buffer->memory);
    *buffer = (device_buffer){0};
}

void gpu_timer_open(gpu_timer *timer) {
    *timer = (gpu_timer){0};
    DEVICE_CHECK(cudaEventCreate(&timer->begin));
    DEVICE_CHECK(cudaEventCreate(&timer->end));
    device_buffer_reserve(&timer->scrubbed, 2 * (size_t)current_device()->l2CacheSize);
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
