// SPDX-License-Identifier: MIT
#include "parallel.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct reading {
    bool (*read)(void *context, size_t i, fault *why);
    void *context;
    size_t count;
    atomic_size_t next; // the one to read next
    pthread_mutex_t lock;
    size_t failed; // the first that failed; count: none
    fault why;
} reading;

static void *read_items(void *argument) {
    reading *work = argument;
    const size_t count = work->count;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < count;) {
        fault why;
        if (work->read(work->context, i, &why)) continue;
        atomic_store(&work->next, count); // all before this one are read or being read
        pthread_mutex_lock(&work->lock);
        if (i < work->failed) {
            work->failed = i;
            work->why = why;
        }
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

bool read_in_parallel(size_t count, bool (*read)(void *context, size_t i, fault *why), void *context,
                      fault *why) {
    enum { MAX_HELPERS = 63 };
    pthread_t helpers[MAX_HELPERS];
    reading work = {
        .read = read, .context = context, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = count};
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started < MAX_HELPERS && started + 1 < cores && (size_t)started + 1 < count &&
           pthread_create(&helpers[started], NULL, read_items, &work) == 0)
        started++;
    read_items(&work); // on this thread too, so it works where no other starts
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    if (work.failed < count) *why = work.why;
    return work.failed == count;
}
