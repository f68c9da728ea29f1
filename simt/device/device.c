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

const char *device_name(void) {
    static struct cudaDeviceProp properties; // static: the name outlives the call
    int device = 0;
    DEVICE_CHECK(cudaGetDevice(&device));
    DEVICE_CHECK(cudaGetDeviceProperties(&properties, device));
    return properties.name;
}
