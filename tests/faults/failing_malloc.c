// SPDX-License-Identifier: MIT
// Preloaded into a program (LD_PRELOAD): allocation FAIL_AT of the process, counted from 1, fails as if no memory were
// left. At the end of the process FAIL_COUNT, a file, gets the number of its allocations. Those of libwebp do not count:
// 1.2.4 frees what it has not set when one fails while it reads. Needs glibc.
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long allocations;
static long fail_at;

__attribute__((constructor)) static void begin(void) {
    const char *const text = getenv("FAIL_AT");
    fail_at = text ? atol(text) : 0;
    allocations = 0;
}

__attribute__((destructor)) static void end(void) {
    const char *const path = getenv("FAIL_COUNT");
    char text[24];
    if (!path) return;
    const int length = snprintf(text, sizeof text, "%ld\n", (long)allocations);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, (size_t)length) != length) _exit(3);
    close(file);
}

static int fails(const void *caller) {
    Dl_info library;
    if (dladdr(caller, &library) && strstr(library.dli_fname, "libwebp")) return 0;
    if (++allocations != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}
#define FAILS() fails(__builtin_return_address(0))

void *malloc(size_t bytes) {
    return FAILS() ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    return FAILS() ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    return FAILS() ? NULL : __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    return FAILS() ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *const got = FAILS() ? NULL : __libc_memalign(alignment, bytes);
    if (!got) return ENOMEM;
    *memory = got;
    return 0;
}
