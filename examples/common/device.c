// SPDX-License-Identifier: MIT
#include "device.h"
#include <stdio.h>
#include <stdlib.h>

void device_check(cudaError_t status, const char *attempted, const char *file, int line) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s failed: %s (%s)\n", file, line, attempted, cudaGetErrorString(status),
            cudaGetErrorName(status));
    exit(EXIT_FAILURE);
}

void *device_allocate(size_t bytes) {
    void *memory = NULL;
    const cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        fprintf(stderr, "%s: no memory for %zu bytes\n", device_name(), bytes);
        exit(EXIT_FAILURE);
    }
    DEVICE_CHECK(status);
    return memory;
}

void device_free(void *memory) {
    DEVICE_CHECK(cudaFree(memory));
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
