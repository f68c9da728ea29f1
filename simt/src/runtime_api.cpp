// SPDX-License-Identifier: MIT
// The CUDA runtime API: errors, the one device, streams and events.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <unistd.h>

#include "launch_state.h"
#include "simt.h"
#include "simt/runtime_api.h"

using simt::last_error;
using simt::note;

// ---- errors

namespace {
struct Error_text {
    cudaError_t error;
    const char *name, *text;
};
const Error_text error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const Error_text *find_text(cudaError_t error) {
    for (const Error_text &e : error_texts)
        if (e.error == error) return &e;
    return nullptr;
}
} // namespace

const char *cudaGetErrorName(cudaError_t error) {
    const Error_text *found = find_text(error);
    return found ? found->name : "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) {
    const Error_text *found = find_text(error);
    return found ? found->text : "unrecognized error code";
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

// ---- the device

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count) return note(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    if (!device) return note(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
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
    p.totalGlobalMem = std::size_t(sysconf(_SC_PHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE));
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
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        return cudaSuccess;
    }
    return note(cudaErrorInvalidValue);
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
    return last_error == cudaErrorLaunchFailure ? last_error : simt::device_state();
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
