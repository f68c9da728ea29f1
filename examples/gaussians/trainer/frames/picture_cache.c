// SPDX-License-Identifier: MIT
#include "picture_cache.h"
#include "device.h"
#include <stdlib.h>

static size_t bytes_of(const picture_cache *cache, const target_view *view) {
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    return pixels * (3u + (view->mask_on_host != NULL) + (cache->with_alpha && view->outline != NULL));
}

bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why) {
    *cache =
        (picture_cache){.pictures = calloc(count + 1, sizeof *cache->pictures), .count = count, .with_alpha = with_alpha, .now = 1};
    if (!cache->pictures) return fail(why, "no memory for a list of %zu pictures", count);
    for (size_t i = 0; i < count; i++) cache->pictures[i].view = views[i];
    size_t unused = 0, all = 0;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    cache->most_bytes = most_bytes > 0 ? most_bytes : all / 4;
    return true;
}

void picture_cache_next_step(picture_cache *cache) {
    cache->now++;
}

// The one that has not been used for longest, not in this step; NULL: there is none.
static cached_picture *oldest(const picture_cache *cache) {
    cached_picture *found = NULL;
    for (size_t i = 0; i < cache->count; i++) {
        cached_picture *const p = &cache->pictures[i];
        if (p->view.pixels && p->last_used < cache->now && (!found || p->last_used < found->last_used))
            found = p;
    }
    return found;
}

static void make_room(picture_cache *cache, size_t bytes) {
    while (cache->bytes + bytes > cache->most_bytes) {
        cached_picture *const p = oldest(cache);
        if (!p) return;
        target_view_release(&p->view);
        cache->bytes -= bytes_of(cache, &p->view);
    }
}

const target_view *picture_cache_view(picture_cache *cache, size_t index) {
    cached_picture *const p = &cache->pictures[index];
    if (!p->view.pixels) {
        const size_t bytes = bytes_of(cache, &p->view);
        make_room(cache, bytes);
        target_view_upload(&p->view, cache->with_alpha);
        cache->bytes += bytes;
        cache->uploads++;
    }
    p->last_used = cache->now;
    return &p->view;
}

bool picture_cache_has(const picture_cache *cache, size_t index) {
    return cache->pictures[index].view.pixels != NULL;
}

void picture_cache_close(picture_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) target_view_release(&cache->pictures[i].view);
    free(cache->pictures);
    *cache = (picture_cache){0};
}
