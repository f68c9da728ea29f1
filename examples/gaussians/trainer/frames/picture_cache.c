// SPDX-License-Identifier: MIT
#include "picture_cache.h"
#include "device.h"
#include <stdlib.h>

gs_camera picture_form_camera(const picture_form *form, const gs_camera *camera) {
    gs_camera out = *camera;
    if (form->width > 0) out.width = form->width, out.height = form->height;
    if (form->factor > 1) dataset_downscale_camera(&out, form->factor);
    return out;
}

static bool is_padded(const picture_form *form, const gs_camera *camera) {
    return form->width > camera->width || form->height > camera->height;
}

static size_t bytes_of(const picture_cache *cache, const cached_picture *p) {
    const target_view *const view = &p->listed;
    const gs_camera camera = picture_form_camera(&cache->form, &view->camera);
    const bool masked = view->mask_on_host || is_padded(&cache->form, &view->camera);
    const size_t pixels = (size_t)camera.width * (size_t)camera.height;
    return pixels *
           (3u + masked + (cache->with_alpha && view->outline) + (view->depth_on_host ? sizeof(float) : 0));
}

bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why) {
    *cache = (picture_cache){.pictures = calloc(count + 1, sizeof *cache->pictures),
                             .count = count,
                             .with_alpha = with_alpha,
                             .now = 1};
    if (!cache->pictures) {
        cache->count = 0; // it may be closed
        return fail(why, "no memory for a list of %zu pictures", count);
    }
    for (size_t i = 0; i < count; i++) cache->pictures[i].listed = views[i];
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
        cache->bytes -= bytes_of(cache, p);
    }
}

static void upload(const picture_cache *cache, cached_picture *p) {
    const picture_form *const form = &cache->form;
    target_view whole = p->listed;
    fault why;
    if (!is_padded(form, &whole.camera))
        target_view_upload(&whole, cache->with_alpha);
    else if (!target_view_pad(&whole, &p->listed, form->width, form->height, cache->with_alpha, &why))
        device_give_up("%s", why.text);
    if (form->factor <= 1) {
        p->view = whole;
        return;
    }
    target_view_shrink(&p->view, &whole, form->factor);
    target_view_release(&whole);
}

const target_view *picture_cache_view(picture_cache *cache, size_t index) {
    cached_picture *const p = &cache->pictures[index];
    if (!p->view.pixels) {
        const size_t bytes = bytes_of(cache, p);
        make_room(cache, bytes);
        upload(cache, p);
        cache->bytes += bytes;
        cache->uploads++;
    }
    p->last_used = cache->now;
    return &p->view;
}

bool picture_cache_has(const picture_cache *cache, size_t index) {
    return cache->pictures[index].view.pixels != NULL;
}

void picture_cache_reform(picture_cache *cache, const picture_form *form) {
    for (size_t i = 0; i < cache->count; i++) target_view_release(&cache->pictures[i].view);
    cache->bytes = 0;
    cache->form = *form;
}

void picture_cache_close(picture_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) target_view_release(&cache->pictures[i].view);
    free(cache->pictures);
    *cache = (picture_cache){0};
}
