// SPDX-License-Identifier: MIT
// Preloaded into a program (LD_PRELOAD): allocation FAIL_AT of the process, counted from 1, fails as if no memory were
// left. Built with FAILING_READS, a read, a seek or a look at a file that is open for reading alone fails instead, as
// on a device with a fault. At its end the process writes the number of its allocations to the file FAIL_COUNT, and
// with FAIL_FRAMES=N a line for each call site, a chain of N callers: the site's first allocation and a number that
// names the site. Processes that it has forked go on counting from its number and add their lines to FAIL_COUNT.forked.
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
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

enum { MOST_FRAMES = 16, ROOM = 1 << 16 };

static atomic_long allocations;
static long fail_at;
static int frames;
static pid_t first_process;
static _Atomic uintptr_t site[ROOM]; // a hash table
static atomic_long first[ROOM];      // the allocation, by site

__attribute__((constructor)) static void begin(void) {
    const char *const text = getenv("FAIL_AT");
    const char *const depth = getenv("FAIL_FRAMES");
    void *loaded[1];
    fail_at = text ? atol(text) : 0;
    backtrace(loaded, 1); // allocates once
    frames = depth ? atoi(depth) : 0;
    allocations = 0;
    first_process = getpid();
}

__attribute__((destructor)) static void end(void) {
    const char *const count = getenv("FAIL_COUNT");
    const int forked = getpid() != first_process;
    char path[4096];
    if (!count) return;
    snprintf(path, sizeof path, "%s%s", count, forked ? ".forked" : "");
    const int file = open(path, O_WRONLY | O_CREAT | (forked ? O_APPEND : O_TRUNC), 0600);
    if (file < 0 || (!forked && dprintf(file, "%ld\n", (long)allocations) < 0)) _exit(3);
    for (int k = 0; k < ROOM; k++)
        if (first[k] > 0) dprintf(file, "%ld %lx\n", (long)first[k], (unsigned long)site[k]);
    close(file);
}

// How forked processes end.
void _exit(int code) {
    if (getpid() != first_process) end();
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

// Remembers the allocation if its callers are new.
static __attribute__((noinline)) void note_site(long allocation) {
    static _Thread_local int inside;
    void *callers[MOST_FRAMES + 3];
    uintptr_t hash = 1;
    if (frames <= 0 || inside) return;
    inside = 1;
    const int found = backtrace(callers, 3 + (frames < MOST_FRAMES ? frames : MOST_FRAMES));
    for (int k = 3; k < found; k++) { // without note_site, fails and malloc
        Dl_info object = {0};
        dladdr(callers[k], &object);
        hash = (hash ^ ((uintptr_t)callers[k] - (uintptr_t)object.dli_fbase)) * 0x9e3779b97f4a7c15u;
    }
    inside = 0;
    for (size_t k = hash % ROOM, tried = 0; tried < ROOM; tried++, k = (k + 1) % ROOM) {
        uintptr_t none = 0;
        if (site[k] == hash) return;
        if (!atomic_compare_exchange_strong(&site[k], &none, hash)) continue;
        first[k] = allocation;
        return;
    }
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
