// SPDX-License-Identifier: MIT
// Checked CUDA calls for programs. A failure prints file, line and the call, and ends the program. Libraries
// return errors instead (see distwar_gs.h).
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

C_LINKAGE_END
