// SPDX-License-Identifier: MIT
// The memory of calls: a context allocates, grows and frees what a call needs beside its arguments. Reads and writes
// nothing on the device.
#include "check.h"
#include <stdlib.h>
#include <string.h>
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
    if (context->reports) (void)cudaFreeHost(context->reports);
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

gs_status libgs_context(const char *function, gs_context **context) {
    if (!*context) *context = of_thread();
    return *context ? GS_OK
                    : libgs_fail(GS_DEVICE_ERROR, "%s: no memory for a context of this thread", function);
}

gs_status libgs_report(const char *function, gs_context *context, int64_t call, bin_report **report) {
    if (!context->reports) {
        const size_t bytes = CONTEXT_REPORTS * sizeof *context->reports;
        if (cudaMallocHost((void **)&context->reports, bytes) != cudaSuccess)
            return libgs_fail(GS_DEVICE_ERROR, "%s: no %zu bytes of pinned memory: %s", function, bytes,
                              cudaGetErrorString(cudaGetLastError()));
        memset(context->reports, 0, bytes);
    }
    *report = &context->reports[call % CONTEXT_REPORTS];
    return GS_OK;
}

// The one rule by which memory grows: by an eighth at least, since what calls need follows the numbers of Gaussians and
// pixels, which grow slowly. The old memory goes first, so that both are never there together.
gs_status libgs_grow(const char *function, gs_context *context, void **memory, size_t *bytes, size_t needed) {
    if (*memory && *bytes >= needed) return GS_OK;
    GS_TRY(libgs_context(function, &context));
    const gs_allocator *const by = &context->allocator;
    const size_t more = *memory ? *bytes + *bytes / 8 : 0;
    if (*memory) by->release(by->user, *memory, context->stream);
    *bytes = more > needed ? more : needed;
    *memory = by->allocate(by->user, *bytes, context->stream);
    if (!*memory && *bytes > needed) // without room to grow
        *memory = by->allocate(by->user, *bytes = needed, context->stream);
    if (*memory) return GS_OK;
    *bytes = 0;
    return libgs_fail(GS_DEVICE_ERROR, "%s: the device has no %zu bytes left", function, needed);
}

gs_status libgs_memory(const char *function, gs_context *context, context_buffer which, size_t bytes,
                       void *memory) {
    GS_TRY(libgs_context(function, &context));
    GS_TRY(libgs_grow(function, context, &context->memory[which], &context->bytes[which], bytes));
    *(void **)memory = context->memory[which];
    return GS_OK;
}
