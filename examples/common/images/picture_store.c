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

// Few large chunks, as a process may have 65,530 mappings.
static const size_t least_chunk = (size_t)1 << 28, line = 64;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t most_of(const picture_store *store) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return store->most > 0 ? store->most : (size_t)pages / 4 * (size_t)page;
}

// Its room is taken at once: a disk that is full later would end the program.
static bool map_chunk(picture_chunk *out, size_t bytes, fault *why) {
    const char *const wanted = getenv("TMPDIR"), *const folder = wanted && *wanted ? wanted : "/var/tmp";
    char path[PATH_ROOM];
    if (!path_join(path, folder, "distwar-pictures-XXXXXX", why)) return false;
    const int file = mkstemp(path);
    int error = file < 0 ? errno : 0;
    if (file >= 0) {
        unlink(path);
        error = posix_fallocate(file, 0, (off_t)bytes);
    }
    void *memory = MAP_FAILED;
    if (error == 0) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        error = errno;
    }
    if (file >= 0) close(file); // the mapping keeps it
    *out = (picture_chunk){memory, bytes, 0};
    return memory != MAP_FAILED ||
           fail(
               why,
               "cannot keep %zu bytes of pictures, for which memory does not suffice, in a file in %s: %s; set "
               "TMPDIR to a folder with room",
               bytes, folder, strerror(error));
}

static bool add_chunk(picture_store *store, size_t bytes, fault *why) {
    picture_chunk *const chunks = realloc(store->chunks, (store->chunk_count + 1) * sizeof *chunks);
    if (!chunks) return fail(why, "no memory for a list of pictures");
    store->chunks = chunks;
    if (!map_chunk(&chunks[store->chunk_count], bytes > least_chunk ? bytes : least_chunk, why)) return false;
    store->chunk_count++;
    return true;
}

static picture_chunk *last_of(const picture_store *store) {
    return store->chunk_count > 0 ? &store->chunks[store->chunk_count - 1] : NULL;
}

// Room in a file; NULL: there is none.
static void *place(picture_store *store, size_t bytes, fault *why) {
    const size_t whole = (bytes + line - 1) / line * line;
    picture_chunk *in = last_of(store);
    if ((!in || in->bytes - in->used < whole) && !add_chunk(store, whole, why)) return NULL;
    in = last_of(store);
    in->used += whole;
    return in->memory + in->used - whole;
}

void *picture_store_keep(picture_store *store, void *array, size_t bytes, fault *why) {
    pthread_mutex_lock(&lock);
    const bool stays = bytes <= most_of(store) && store->kept <= most_of(store) - bytes;
    if (stays) store->kept += bytes;
    void *const placed = stays ? array : place(store, bytes, why);
    pthread_mutex_unlock(&lock);
    if (stays || !placed) return placed;
    memcpy(placed, array, bytes);
    free(array);
    return placed;
}

void picture_store_free(const picture_store *store, void *array) {
    const uintptr_t at = (uintptr_t)array;
    bool in_file = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < store->chunk_count && !in_file; i++) {
        const uintptr_t begin = (uintptr_t)store->chunks[i].memory;
        in_file = at >= begin && at - begin < store->chunks[i].bytes;
    }
    pthread_mutex_unlock(&lock);
    if (!in_file) free(array);
}

void picture_store_close(picture_store *store) {
    for (size_t i = 0; i < store->chunk_count; i++) munmap(store->chunks[i].memory, store->chunks[i].bytes);
    free(store->chunks);
    *store = (picture_store){0};
}
