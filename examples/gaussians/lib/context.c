// SPDX-License-Identifier: MIT
// What calls share on the host: the text of the last failure, the names of lists; and the memory of calls, which a context
// allocates, grows and frees. Reads and writes nothing on the device.
#include "context.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

// ---- failures, names ----

static _Thread_local char last_error[512];

gs_status libgs_fail(gs_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

gs_status libgs_require(const char *function, bool condition, const char *text) {
    return condition ? GS_OK : libgs_fail(GS_INVALID_ARGUMENT, "%s: %s", function, text);
}

gs_status libgs_status(cudaError_t error, const char *call, const char *file, int line) {
    if (error == cudaSuccess) return GS_OK;
    const char *slash = strrchr(file, '/');
    return libgs_fail(GS_DEVICE_ERROR, "%s:%d: %s: %s", slash ? slash + 1 : file, line,
                      cudaGetErrorString(error), call);
}

const char *gs_last_error(void) {
    return last_error;
}

const char *gs_backend(void) {
    return GS_BACKEND;
}

const char *gs_version(void) {
#define GS_TEXT(x) #x
#define GS_VALUE(x) GS_TEXT(x)
    return GS_VALUE(GS_VERSION_MAJOR) "." GS_VALUE(GS_VERSION_MINOR) "." GS_VALUE(GS_VERSION_PATCH);
}

const char *gs_name(gs_names list, int32_t number) {
#define GS_CAMERA_NAME(name, NAME) #name,
    static const char *const cameras[] = {GS_CAMERA_LIST(GS_CAMERA_NAME)};
    if (number < 0) return NULL;
    if (list == GS_NAMES_STRATEGIES) return distwar_strategy_name((distwar_strategy)number);
    return list == GS_NAMES_CAMERAS && number < GS_CAMERA_MODELS ? cameras[number] : NULL;
}

// ---- where memory comes from unless the caller says so: the device's stream-ordered pool, cudaMalloc where there is none;
// under simt both are malloc ----

static bool has_pool(void) {
#ifdef __SIMT__
    return true;
#else
    int device, pools;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device) == cudaSuccess && pools;
#endif
}

static void *allocate_on_device(void *user, size_t bytes, gs_stream stream) {
    void *memory;
    (void)user;
    if ((has_pool() ? cudaMallocAsync(&memory, bytes, stream) : cudaMalloc(&memory, bytes)) == cudaSuccess)
        return memory;
    (void)cudaGetLastError(); // the caller reports it
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
    *made = (gs_context){.allocator = {allocate_on_device, release_on_device}, .stream = stream};
    if (allocator) made->allocator = *allocator;
    *context = made;
    return GS_OK;
}

void gs_context_trim(gs_context *context) {
    if (libgs_context(__func__, &context) != GS_OK) return;
    for (int k = 0; k < CONTEXT_BUFFERS; k++) {
        if (context->memory[k])
            context->allocator.release(context->allocator.user, context->memory[k], context->stream);
        context->memory[k] = NULL, context->bytes[k] = 0;
    }
}

void gs_context_destroy(gs_context *context) {
    if (!context) return;
    gs_context_trim(context);
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
    int device;
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
    const size_t more = *bytes + *bytes / 8;
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
