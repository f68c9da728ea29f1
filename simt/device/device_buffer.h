// SPDX-License-Identifier: MIT
// Device memory that grows on demand. Starts as {0}.
#pragma once

#include "c_linkage.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct device_buffer {
    void *memory;
    size_t bytes;
} device_buffer;

// Makes the buffer at least `bytes` long and returns buffer->memory. The contents are lost when it grows.
void *device_buffer_reserve(device_buffer *buffer, size_t bytes);
void device_buffer_close(device_buffer *buffer);

C_LINKAGE_END
