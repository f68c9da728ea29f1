// SPDX-License-Identifier: MIT
// Checked CUDA calls for programs, device memory and GPU time. A failure prints file, line and the call, and ends the
// program. Libraries return errors instead (see distwar_gs.h).
#pragma once

#include "c_linkage.h"
#include <cuda_runtime.h>
#include <stddef.h>

C_LINKAGE_BEGIN

#define DEVICE_CHECK(call) device_check((call), #call, __FILE__, __LINE__)

void device_check(cudaError_t status, const char *attempted, const char *file, int line);
// A failure's text, a line, goes to `tell` in place of stderr. The program ends when it returns.
void device_on_failure(void (*tell)(const char *text));
// Tells a failure and ends the program.
void device_give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
// The stage of the work that this thread queues, for the texts of failures; lives as long as the thread. NULL: none.
void device_begin_stage(const char *name);
const char *device_stage_text(void); // what to add to such a text; "" without a stage
// Never returns NULL, also for 0 bytes. The memory is not cleared.
void *device_allocate(size_t bytes);
void device_free(void *memory); // NULL is harmless
void device_upload(void *device, const void *host, size_t bytes);
void device_download(void *host, const void *device, size_t bytes);
void device_clear(void *memory, size_t bytes);
// "NVIDIA H200", or "CPU (simt, N threads)".
const char *device_name(void);

// Device memory that grows on demand. Starts as {0}.
typedef struct device_buffer {
    void *memory;
    size_t bytes;
} device_buffer;

// Makes the buffer at least `bytes` long and returns buffer->memory. The contents are lost when it grows.
void *device_buffer_reserve(device_buffer *buffer, size_t bytes);
void device_buffer_close(device_buffer *buffer);

// GPU time of the work queued between two calls on the default stream. gpu_timer_start first overwrites
// memory of twice the L2 cache's size. So a run finds no data of the run before it in the cache, and the GPU
// is busy while the host queues the run: the host's time for a launch is not measured, unless the run waits
// for the device.
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
