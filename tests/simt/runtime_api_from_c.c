// SPDX-License-Identifier: MIT
// cuda_runtime.h and simt.h in C11. Returns the expression that failed, NULL if none did.
#include <cuda_runtime.h>
#include <simt.h>

#include <string.h>

const char *use_runtime_api_from_c(void);

#define CHECK(condition)                                                                                     \
    if (!(condition)) return #condition

const char *use_runtime_api_from_c(void) {
    unsigned char host[100], *device = NULL;
    CHECK(cudaMalloc((void **)&device, sizeof host) == cudaSuccess);
    CHECK(cudaMemset(device, 7, sizeof host) == cudaSuccess);
    CHECK(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, 0) == cudaSuccess);
    CHECK(host[0] == 7 && host[99] == 7);
    CHECK(cudaFree(device) == cudaSuccess);
    CHECK(cudaMallocManaged((void **)&device, 1, cudaMemAttachGlobal) == cudaSuccess);
    CHECK(device[0] == 0xff);
    CHECK(cudaFree(device) == cudaSuccess);
    struct cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
    CHECK(strncmp(properties.name, "CPU (simt, ", 11) == 0);
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(cudaEventCreate(&event) == cudaSuccess);
    CHECK(cudaEventRecord(event, stream) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
    CHECK(cudaEventDestroy(event) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    const dim3 size = {1, 2, 3};
    const float4 v = make_float4(1, 2, 3, 4);
    CHECK(size.z == 3 && v.w == 4);
    simt_set_seed(0);
    simt_counters_reset();
    CHECK(simt_counters_read().shuffles == 0);
    CHECK(strcmp(simt_refusal(), "") == 0);
    return NULL;
}
