// SPDX-License-Identifier: MIT
// Preloaded into a program (LD_PRELOAD): allocation FAIL_AT of the process, counted from 1, fails as if no memory were
// left. Built with FAILING_READS, a read, a seek or a look at a file that is open for reading alone fails instead, as
// on a device with a fault. With FAIL_FRAMES=N each allocation adds a line to the new file FAIL_COUNT: its number, and one
// that names its call site, a chain of N callers. Processes that it has forked go on counting from its number.
// Allocations of libwebp do not count: 1.2.4 frees what it has not set when one fails. Needs glibc.
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

enum { MOST_FRAMES = 16 };

static atomic_long allocations;
static long fail_at;
static int frames, file = -1;

__attribute__((constructor)) static void begin(void) {
    const char *const text = getenv("FAIL_AT");
    const char *const depth = getenv("FAIL_FRAMES"), *const path = getenv("FAIL_COUNT");
    void *loaded[1];
    fail_at = text ? atol(text) : 0;
    backtrace(loaded, 1); // allocates once
    frames = depth ? atoi(depth) : 0;
    // Programs that this one starts find the file.
    if (frames > 0 && path) file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    allocations = 0;
}

// What the loader allocates after that ends the process where it fails.
__attribute__((destructor)) static void end(void) {
    file = -1;
}

static __attribute__((noinline)) void note_site(long allocation) {
    static _Thread_local int inside;
    void *callers[MOST_FRAMES + 3];
    char line[64];
    uintptr_t hash = 1;
    if (file < 0 || inside) return;
    inside = 1;
    const int found = backtrace(callers, 3 + (frames < MOST_FRAMES ? frames : MOST_FRAMES));
    for (int k = 3; k < found; k++) { // without note_site, fails and malloc
        Dl_info object = {0};
        dladdr(callers[k], &object);
        hash = (hash ^ ((uintptr_t)callers[k] - (uintptr_t)object.dli_fbase)) * 0x9e3779b97f4a7c15u;
    }
    const int length = snprintf(line, sizeof line, "%ld %lx\n", allocation, (unsigned long)hash);
    if (write(file, line, (size_t)length) != length) abort();
    inside = 0;
}

static __attribute__((noinline)) int fails(int number) {
    const long allocation = ++allocations;
    note_site(allocation);
    if (allocation != fail_at) return 0;
    errno = number;
    return 1;
}

#ifdef FAILING_READS
// At first a few bytes at a time, so that small files fail anywhere too.
static ssize_t read_some(void *file, char *bytes, size_t count) {
    const int descriptor = (int)(intptr_t)file;
    const size_t most = lseek64(descriptor, 0, SEEK_CUR) < 4096 ? 16 : count;
    return fails(EIO) ? -1 : read(descriptor, bytes, count < most ? count : most);
}
static int seek_to(void *file, off64_t *to, int from) {
    const off64_t at = fails(EIO) ? -1 : lseek64((int)(intptr_t)file, *to, from);
    if (at >= 0) *to = at;
    return at < 0 ? -1 : 0;
}
static int close_it(void *file) {
    return close((int)(intptr_t)file);
}

FILE *fdopen(int descriptor, const char *mode) {
    FILE *(*opens)(int, const char *);
    *(void **)&opens = dlsym(RTLD_NEXT, "fdopen"); // as POSIX says
    const cookie_io_functions_t how = {.read = read_some, .seek = seek_to, .close = close_it};
    if (mode[0] != 'r' || strchr(mode, '+')) return opens(descriptor, mode);
    return fails(EMFILE) ? NULL : fopencookie((void *)(intptr_t)descriptor, mode, how);
}
int fstat(int descriptor, struct stat *out) {
    const int reads = (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY;
    return reads && fails(EIO) ? -1 : fstatat(descriptor, "", out, AT_EMPTY_PATH);
}
#else
static inline __attribute__((always_inline)) int fails_for(const void *caller) {
    Dl_info library;
    return !(dladdr(caller, &library) && strstr(library.dli_fname, "libwebp")) && fails(ENOMEM);
}
#define FAILS() fails_for(__builtin_return_address(0))

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
#endif
