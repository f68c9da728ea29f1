// SPDX-License-Identifier: MIT
// The part of the CUDA runtime API that this project uses, with C linkage. Names, enumerators and signatures
// are CUDA's, and each function keeps CUDA's contract. All work is complete when the call returns.
#pragma once

#include "vector_types.h"
#include <stddef.h>

// A default argument, which C does not have.
#ifdef __cplusplus
#define SIMT_DEFAULT(value) = value
extern "C" {
#else
#define SIMT_DEFAULT(value)
#endif

// The errors, their numbers and texts.
// clang-format off
#define SIMT_ERRORS(X)                                                                                         \
    X(cudaSuccess, 0, "no error")                                                                            \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                          \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                         \
    X(cudaErrorInitializationError, 3, "initialization error")                                               \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                    \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                              \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                         \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                          \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                 \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                        \
    X(cudaErrorNotReady, 600, "device not ready")                                                            \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                              \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                         \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                \
    X(cudaErrorAssert, 710, "device-side assert triggered")                                                  \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                             \
    X(cudaErrorNotSupported, 801, "operation not supported")                                                 \
    X(cudaErrorUnknown, 999, "unknown error")
// clang-format on
#define SIMT_ENUMERATOR(name, number, text) name = number,
typedef enum cudaError { SIMT_ERRORS(SIMT_ENUMERATOR) } cudaError_t;
#undef SIMT_ENUMERATOR

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
// The calling thread's last error. Get also clears it. Until then a failed launch makes every synchronizing
// call of the thread fail.
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);

// ---- devices

// The fields of NVIDIA's struct that have a meaning here.
typedef struct cudaDeviceProp {
    char name[256]; // "CPU (simt, N threads)"
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    size_t sharedMemPerBlockOptin;
    int warpSize;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int major, minor;        // of the architecture whose limits are kept
    int multiProcessorCount; // OS threads that run blocks
    int l2CacheSize;
} cudaDeviceProp;

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);

// The supported attributes, with CUDA's values.
typedef enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76
} cudaDeviceAttr;
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);

// ---- streams and events

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest); // 0 and 0
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags SIMT_DEFAULT(0));
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream SIMT_DEFAULT(0));
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

// ---- memory

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04

// New device memory is filled with 0xFF bytes (NaN, -1), so that reads of uninitialized memory show. It is
// aligned to 256 bytes and has exactly the requested size, so that AddressSanitizer detects overruns. A
// request for more memory than is free fails.
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFree(void *memory);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaMallocHost(void **memory, size_t bytes);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
// Memory that host and kernels use alike, as all memory here is. 0 bytes are an error, as in CUDA.
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags SIMT_DEFAULT(cudaMemAttachGlobal));
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *memory, int value, size_t bytes);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream SIMT_DEFAULT(0));
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream SIMT_DEFAULT(0));

// ---- launches (cudaLaunchKernelEx itself is a template: launch.h)

typedef enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
} cudaFuncAttribute;

// Needed before a launch with more than 48 KiB of dynamic shared memory. At most 227 KiB, as on sm_90.
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);

// No attribute is supported; a launch with numAttrs > 0 fails with cudaErrorNotSupported.
typedef struct cudaLaunchAttribute cudaLaunchAttribute;

typedef struct cudaLaunchConfig_st {
    dim3 gridDim;
    dim3 blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

#ifdef __cplusplus
}

// The allocations for a pointer to any type.
#define SIMT_ALLOCATION(name, parameters, ...)                                                               \
    template <typename T>                                                                                    \
    cudaError_t name parameters {                                                                            \
        return name(reinterpret_cast<void **>(memory), __VA_ARGS__);                                         \
    }
SIMT_ALLOCATION(cudaMalloc, (T * *memory, size_t bytes), bytes)
SIMT_ALLOCATION(cudaMallocAsync, (T * *memory, size_t bytes, cudaStream_t stream), bytes, stream)
SIMT_ALLOCATION(cudaMallocManaged, (T * *memory, size_t bytes, unsigned flags = cudaMemAttachGlobal), bytes,
                flags)
SIMT_ALLOCATION(cudaMallocHost, (T * *memory, size_t bytes), bytes)
SIMT_ALLOCATION(cudaHostAlloc, (T * *memory, size_t bytes, unsigned flags), bytes, flags)
#undef SIMT_ALLOCATION
// For __constant__ and __device__ variables, which are plain globals here.
template <typename T>
cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cudaMemcpy(reinterpret_cast<char *>(&symbol) + offset, from, bytes, kind);
}
template <typename T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cudaMemcpy(to, reinterpret_cast<const char *>(&symbol) + offset, bytes, kind);
}
#endif

#undef SIMT_DEFAULT
