// SPDX-License-Identifier: MIT
// The CUDA runtime API: device memory, which is host memory here.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <unistd.h>

#include "launch_state.h"
#include "simt/runtime_api.h"

using simt::note;

static constexpr std::size_t alignment = 256;
static constexpr int fill_byte = 0xff;
// Linux overcommits memory and kills the process that uses too much. So larger requests than this are
// compared with the free memory.
static constexpr std::size_t large_request = std::size_t(64) << 20;

// SIMT_MEMORY=MB: the memory of the device; 0: that of the machine. What the host pins is not part of it.
static std::size_t device_memory() {
    static const char *const megabytes = std::getenv("SIMT_MEMORY");
    static const std::size_t bytes = megabytes ? std::size_t(std::atof(megabytes) * 1e6) : 0;
    return bytes;
}
static std::atomic<std::size_t> taken{0}; // of device_memory()

static std::size_t free_memory() {
    std::size_t kilobytes = 0;
    if (std::FILE *file = std::fopen("/proc/meminfo", "r")) {
        char line[128];
        while (std::fgets(line, sizeof line, file))
            if (std::sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
        std::fclose(file);
    }
    return kilobytes ? kilobytes * 1024
                     : std::size_t(sysconf(_SC_AVPHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE));
}

static cudaError_t allocate(void **memory, std::size_t bytes) {
    if (!memory) return note(cudaErrorInvalidValue);
    *memory = nullptr;
    if (simt::lost) return simt::device_state();
    if (bytes == 0) return cudaSuccess;
    void *start = nullptr;
    if ((bytes > large_request && bytes > free_memory()) || posix_memalign(&start, alignment, bytes) != 0)
        return note(cudaErrorMemoryAllocation);
    std::memset(start, fill_byte, bytes);
    *memory = start;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (device_memory() == 0) return allocate(memory, bytes);
    if (memory && taken + bytes > device_memory()) {
        *memory = nullptr;
        return note(cudaErrorMemoryAllocation);
    }
    const cudaError_t status = allocate(memory, bytes);
    if (status == cudaSuccess && *memory) taken += malloc_usable_size(*memory);
    return status;
}
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t) {
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    return allocate(memory, bytes);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    return allocate(memory, bytes);
}
cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags) {
    if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return note(cudaErrorInvalidValue);
    return cudaMalloc(memory, bytes);
}

cudaError_t cudaFree(void *memory) {
    if (device_memory() > 0 && memory) taken -= malloc_usable_size(memory);
    std::free(memory);
    return simt::device_state();
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t) {
    return cudaFree(memory);
}
cudaError_t cudaFreeHost(void *memory) {
    std::free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    if (!free_bytes || !total_bytes) return note(cudaErrorInvalidValue);
    *free_bytes = free_memory();
    *total_bytes = std::size_t(sysconf(_SC_PHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE));
    if (device_memory() > 0)
        *total_bytes = device_memory(), *free_bytes = taken < *total_bytes ? *total_bytes - taken : 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return note(cudaErrorInvalidMemcpyDirection);
    if (simt::lost || bytes == 0) return simt::device_state();
    if (!to || !from) return note(cudaErrorInvalidValue);
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    if (simt::lost || bytes == 0) return simt::device_state();
    if (!memory) return note(cudaErrorInvalidValue);
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t) {
    return cudaMemset(memory, value, bytes);
}
