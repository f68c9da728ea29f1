// SPDX-License-Identifier: MIT
#include "device_buffer.h"
#include "device.h"

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
