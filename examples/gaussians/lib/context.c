// SPDX-License-Identifier: MIT
// The memory of calls: a context allocates, grows and frees what a call needs beside its arguments. Reads and writes
// nothing on the device.
#include "check.h"
#include <stdlib.h>
#include <threads.h>

// ---- where memory comes from unless the caller says so: the device's stream-ordered pool, cudaMalloc where there is none;
// under simt both are malloc ----

static bool has_pool(void) {
#ifdef __SIMT__
    return true;
#else
    int device = 0, pools = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device) == cudaSuccess && pools;
#endif
}

static void *allocate_on_device(void *user, size_t bytes, gs_stream stream) {
    void *memory = NULL;
    (void)user;
    const cudaError_t status =
        has_pool() ? cudaMallocAsync(&memory, bytes, stream) : cudaMalloc(&memory, bytes);
    if (status == cudaSuccess) return memory;
    (void)cudaGetLastError(); // told by the caller
    return NULL;
}

static void release_on_device(void *user, void *memory, gs_stream stream) {
    (void)user;
    (void)(has_pool() ? cudaFreeAsync(memory, stream)
                      : cudaFree(memory)); // at a program's end the runtime may be gone
}

// ---- contexts ----

gs_status gs_context_create(const gs_allocator *allocator, gs_stream stream, gs_context **context) {
    GS_REQUIRE(context, "context must be given");
    GS_REQUIRE(!allocator || (allocator->allocate && allocator->release),
               "the allocator must have both functions");
    gs_context *const made = malloc(sizeof *made);
    if (!made) return libgs_fail(GS_DEVICE_ERROR, "%s: no memory for a context", __func__);
    *made = (gs_context){.allocator = {allocate_on_device, release_on_device, NULL}, .stream = stream};
    if (allocator) made->allocator = *allocator;
    *context = made;
    return GS_OK;
}

void gs_context_destroy(gs_context *context) {
    if (!context) return;
    for (int k = 0; k < CONTEXT_BUFFERS; k++)
        if (context->memory[k])
            context->allocator.release(context->allocator.user, context->memory[k], context->stream);
    free(context);
}

// The contexts of a thread that gives none, one for each device. They end with the thread.
static tss_t own;
static once_flag own_is_there = ONCE_FLAG_INIT;

static void end_of_thread(void *context) {
    for (gs_context *one = context, *next; one; one = next) {
        next = one->next;
        gs_context_destroy(one);
    }
}

static void make_own(void) {
    tss_create(&own, end_of_thread);
}

static gs_context *of_thread(void) {
    call_once(&own_is_there, make_own);
    gs_context *const first = tss_get(own), *context = first;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return NULL;
    while (context && context->device != device) context = context->next;
    if (context || gs_context_create(NULL, NULL, &context) != GS_OK) return context;
    context->device = device, context->next = first;
    if (tss_set(own, context) == thrd_success) return context;
    gs_context_destroy(context);
    return NULL;
}

// Grows by half at least: what a call needs follows the numbers of Gaussians and pixels, which grow slowly.
gs_status libgs_memory(const char *function, gs_context *context, context_buffer which, size_t bytes,
                       void *memory) {
    if (!context) context = of_thread();
    if (!context) return libgs_fail(GS_DEVICE_ERROR, "%s: no memory for a context of this thread", function);
    void **const at = &context->memory[which];
    if (context->bytes[which] < bytes) {
        const gs_allocator *const by = &context->allocator;
        const size_t half_more = *at ? context->bytes[which] + context->bytes[which] / 2 : 0;
        if (*at) by->release(by->user, *at, context->stream);
        context->bytes[which] = half_more > bytes ? half_more : bytes;
        *at = by->allocate(by->user, context->bytes[which], context->stream);
        if (!*at && context->bytes[which] > bytes) // without room to grow
            *at = by->allocate(by->user, context->bytes[which] = bytes, context->stream);
        if (!*at) {
            context->bytes[which] = 0;
            return libgs_fail(GS_DEVICE_ERROR, "%s: the device has no %zu bytes left", function, bytes);
        }
    }
    *(void **)memory = *at;
    return GS_OK;
}
