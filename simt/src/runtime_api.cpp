// SPDX-License-Identifier: MIT
// The CUDA runtime API: errors, the one device, streams and events, device memory.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <malloc.h>
#include <new>
#include <unistd.h>

#include "launch_state.h"
#include "simt.h"
#include "simt/runtime_api.h"

using simt::device_state, simt::last_error, simt::lost, simt::note;

// ---- errors

struct Error_text {
    const char *name, *text;
};
// CUDA's own text, also for numbers that are no error.
static Error_text text_of(cudaError_t error) {
    switch (error) {
#define SIMT_TEXT(name, number, text)                                                                        \
    case name:                                                                                               \
        return {#name, text};
        SIMT_ERRORS(SIMT_TEXT)
#undef SIMT_TEXT
    }
    return {"unrecognized error code", "unrecognized error code"};
}

const char *cudaGetErrorName(cudaError_t error) {
    return text_of(error).name;
}
const char *cudaGetErrorString(cudaError_t error) {
    return text_of(error).text;
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

// Writes the result of a call, which a null pointer makes fail.
template <typename T>
static cudaError_t give(T *to, T value) {
    if (!to) return note(cudaErrorInvalidValue);
    *to = value;
    return cudaSuccess;
}

// ---- the device

static std::size_t bytes_of_pages(int which) {
    return std::size_t(sysconf(which)) * std::size_t(sysconf(_SC_PAGESIZE));
}

cudaError_t cudaGetDeviceCount(int *count) {
    return give(count, 1);
}
cudaError_t cudaGetDevice(int *device) {
    return give(device, 0);
}
cudaError_t cudaSetDevice(int device) {
    return note(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    if (!properties) return note(cudaErrorInvalidValue);
    if (device != 0) return note(cudaErrorInvalidDevice);
    const int threads = simt_threads();
    cudaDeviceProp p = {};
    std::snprintf(p.name, sizeof p.name, "CPU (simt, %d thread%s)", threads, threads == 1 ? "" : "s");
    p.totalGlobalMem = bytes_of_pages(_SC_PHYS_PAGES);
    p.sharedMemPerBlock = 48 * 1024;
    p.sharedMemPerBlockOptin = 227 * 1024;
    p.warpSize = 32;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.major = 9;
    p.minor = 0;
    p.multiProcessorCount = threads;
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    p.l2CacheSize = cache > 0 ? int(cache) : 0;
    *properties = p;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    if (!value) return note(cudaErrorInvalidValue);
    const cudaError_t status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess) return status;
    const int *const found = attribute == cudaDevAttrMultiProcessorCount ? &properties.multiProcessorCount
                             : attribute == cudaDevAttrComputeCapabilityMajor ? &properties.major
                             : attribute == cudaDevAttrComputeCapabilityMinor ? &properties.minor
                                                                              : nullptr;
    return found ? give(value, *found) : note(cudaErrorInvalidValue);
}

// ---- streams and events: all work is complete when its call returns

struct CUstream_st {};
struct CUevent_st {
    bool recorded;
    bool timed;
    timespec time;
};

// Returned by every call that waits for work: the error of a failed launch.
static cudaError_t launch_error() {
    return last_error == cudaErrorLaunchFailure ? last_error : device_state();
}

cudaError_t cudaDeviceSynchronize(void) {
    return launch_error();
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    if (!stream || flags > cudaStreamNonBlocking) return note(cudaErrorInvalidValue);
    *stream = new (std::nothrow) CUstream_st;
    return note(*stream ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return note(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream) return note(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return launch_error();
}
cudaError_t cudaStreamQuery(cudaStream_t) {
    return launch_error();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
    return note(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    if (!event) return note(cudaErrorInvalidValue);
    *event = new (std::nothrow) CUevent_st{false, !(flags & cudaEventDisableTiming), {}};
    return note(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!event) return note(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    if (!event) return note(cudaErrorInvalidResourceHandle);
    event->recorded = true;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    return event ? launch_error() : note(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return cudaEventQuery(event);
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (!milliseconds) return note(cudaErrorInvalidValue);
    if (!start || !end || !start->timed || !end->timed || !start->recorded || !end->recorded)
        return note(cudaErrorInvalidResourceHandle);
    *milliseconds = float(double(end->time.tv_sec - start->time.tv_sec) * 1e3 +
                          double(end->time.tv_nsec - start->time.tv_nsec) * 1e-6);
    return cudaSuccess;
}

// ---- memory, which is host memory here

static constexpr std::size_t alignment = 256;
static constexpr int fill_byte = 0xff;
// Linux overcommits memory and kills the process that uses too much. So larger requests than this are
// compared with the free memory.
static constexpr std::size_t large_request = 64 << 20;

// SIMT_MEMORY=MB: the memory of the device; 0: that of the machine. What the host pins is not part of it.
static std::size_t device_memory() {
    static const std::size_t bytes = std::size_t(std::atof(simt::environment("SIMT_MEMORY")) * 1e6);
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
    return kilobytes ? kilobytes * 1024 : bytes_of_pages(_SC_AVPHYS_PAGES);
}

static cudaError_t allocate(void **memory, std::size_t bytes) {
    if (!memory) return note(cudaErrorInvalidValue);
    *memory = nullptr;
    if (lost) return device_state();
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
    return device_state();
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
    *total_bytes = bytes_of_pages(_SC_PHYS_PAGES);
    if (device_memory() > 0)
        *total_bytes = device_memory(), *free_bytes = taken < *total_bytes ? *total_bytes - taken : 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return note(cudaErrorInvalidMemcpyDirection);
    if (lost || bytes == 0) return device_state();
    if (!to || !from) return note(cudaErrorInvalidValue);
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    if (lost || bytes == 0) return device_state();
    if (!memory) return note(cudaErrorInvalidValue);
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t) {
    return cudaMemset(memory, value, bytes);
}
