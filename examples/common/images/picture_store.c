// SPDX-License-Identifier: MIT
#include "images/picture_store.h"
#include "files/path.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// All pictures share one mapping, because a process may have 65,530. The file grows into its addresses.
static const size_t addresses = (size_t)1 << 40, line = 64;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// 0, or errno.
static int open_file(picture_store *store, char *path) {
    store->file = mkstemp(path);
    if (store->file < 0) return errno;
    unlink(path);
    void *const memory = mmap(NULL, addresses, PROT_READ | PROT_WRITE, MAP_SHARED, store->file, 0);
    const int error = errno;
    if (memory != MAP_FAILED) {
        store->mapped = memory;
        return 0;
    }
    close(store->file);
    return error;
}

// Returns room in the file, or NULL. The disk gives it at once: a disk that is full later would end the program.
static void *place(picture_store *store, size_t bytes, fault *why) {
    const char *const wanted = getenv("TMPDIR"), *const folder = wanted && *wanted ? wanted : "/var/tmp";
    const size_t whole = (bytes + line - 1) / line * line;
    char path[PATH_ROOM];
    if (!path_join(path, folder, "distwar-pictures-XXXXXX", why)) return NULL;
    int error = whole > addresses - store->used ? EFBIG : store->mapped ? 0 : open_file(store, path);
    if (error == 0) error = posix_fallocate(store->file, (off_t)store->used, (off_t)whole);
    if (error == 0) {
        store->used += whole;
        return store->mapped + store->used - whole;
    }
    fail(why,
         "cannot keep %zu bytes of pictures, for which memory does not suffice, in a file in %s: %s; "
         "set TMPDIR to a folder with room",
         store->used + whole, folder, strerror(error));
    return NULL;
}

void *picture_store_keep(picture_store *store, void *array, size_t bytes, fault *why) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const size_t most = store->most > 0 ? store->most : (size_t)pages / 4 * (size_t)page;
    pthread_mutex_lock(&lock);
    const bool stays = bytes <= most && store->kept <= most - bytes;
    if (stays) store->kept += bytes;
    void *const placed = stays ? array : place(store, bytes, why);
    pthread_mutex_unlock(&lock);
    if (stays || !placed) return placed;
    memcpy(placed, array, bytes);
    free(array);
    return placed;
}

void picture_store_free(const picture_store *store, void *array) {
    const uintptr_t at = (uintptr_t)array, begin = (uintptr_t)store->mapped;
    if (!store->mapped || at < begin || at - begin >= addresses) free(array);
}

void picture_store_close(picture_store *store) {
    if (store->mapped) {
        munmap(store->mapped, addresses);
        close(store->file);
    }
    *store = (picture_store){0};
}
